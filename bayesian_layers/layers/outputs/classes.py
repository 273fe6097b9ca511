"""Outputs that are classes."""

import warnings

import keras

from bayesian_layers import distributions
from bayesian_layers.keras_contact import calling_model, compiled_metrics
from bayesian_layers.layers.outputs.family_layer import FamilyLayer
from bayesian_layers.layers.register import register

_ACCURACIES = (
    keras.metrics.BinaryAccuracy,
    keras.metrics.CategoricalAccuracy,
    keras.metrics.SparseCategoricalAccuracy,
)


class ClassOutput(FamilyLayer):
    """Base of outputs that are classes: warns of the accuracy of Keras.

    Keras' metrics see the value of the random variable, one class, where they expect
    scores of classes.
    """

    scores_may_be = ()  # The conversions that Keras can take for scores.
    _has_warned = False

    def call(self, inputs):
        """Returns a random variable."""
        if not self._has_warned and self.convert not in self.scores_may_be:
            self._check_accuracy()
        return super().call(inputs)

    def _check_accuracy(self):
        for metric in compiled_metrics(calling_model(), self):
            if metric in ("accuracy", "acc") or isinstance(metric, _ACCURACIES):
                self._has_warned = True
                shown = metric if isinstance(metric, str) else type(metric).__name__
                warnings.warn(
                    f"The metric {shown!r} does not give the accuracy of the head "
                    f"{self.name!r}: Keras takes the class that a draw of it is for "
                    "scores of classes. Compile the model with "
                    "`metrics=[bl.metrics.Accuracy()]`.",
                    stacklevel=2,
                )


@register
class Categorical(ClassOutput):
    """An output that is one of k classes, as an integer from 0 to k - 1.

    y ~ Categorical(softmax(logits(x)))

    Without `units` it takes logits `[..., k]` to `[...]`. With `units` a trainable
    linear map makes `k = units` logits from the inputs. The class probabilities are
    `model(x).distribution.probs`, averaged over draws of the weights
    `bl.predict(model, x).probs`. For the accuracy in training use
    `bl.metrics.Accuracy`, which takes the most probable class. Other arguments as in
    `bl.layers.Normal`; there is no mean to convert to.

    Example:
    >>> layer = bl.layers.Categorical()
    >>> y = layer(np.zeros((8, 4)))
    >>> ops.shape(y)
    (8,)
    >>> round(float(y.entropy()[0]), 4) == round(float(np.log(4.0)), 4)
    True
    """

    family = distributions.Categorical


@register
class OneHotCategorical(ClassOutput):
    """An output that is one of k classes, as a vector of zeros and a one.

    y ~ OneHotCategorical(softmax(logits(x))); `[..., k] -> [..., k]`, or `k = units`
    from a trainable linear map. Other arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.OneHotCategorical(4)(np.zeros((8, 3))))
    (8, 4)
    """

    scores_may_be = ("mode",)
    family = distributions.OneHotCategorical


@register
class Bernoulli(ClassOutput):
    """An output that is 0 or 1.

    y ~ Bernoulli(sigmoid(logits(x))); `[..., n] -> [..., n]`, or `n = units` from a
    trainable linear map. Other arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.Bernoulli()(np.zeros((8, 3))))
    (8, 3)
    """

    scores_may_be = ("mode",)
    family = distributions.Bernoulli
