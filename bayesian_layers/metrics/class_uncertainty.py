"""The uncertainty of predicted classes, in nats."""

import keras
from keras import ops

from bayesian_layers.distributions import Bernoulli, Categorical, shapes
from bayesian_layers.metrics.classes import classifier_of, weights_of_classes
from bayesian_layers.metrics.weighted_mean import WeightedMean
from bayesian_layers.metrics.weights import weights_like
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.random_variable import RandomVariable


@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class PredictiveEntropy(WeightedMean):
    """How uncertain the predicted class is: the entropy of its distribution, in nats.

    -sum_k p_k log p_k, averaged over examples: 0 if all are sure, log(classes) if none
    knows anything. It is no error, and no direction is better: callbacks need their
    `mode`. It should grow on data from elsewhere.

    `y_pred` is as in `bl.metrics.Accuracy`: the random variable of a head of classes, a
    `bl.Prediction` of a classifier, or probabilities. Nothing is read of `y_true`,
    which may be `None`.

    Args:
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.PredictiveEntropy()
    >>> probs = np.array([[0.5, 0.5], [1.0, 0.0]])
    >>> round(float(metric(None, probs)), 4)
    0.3466
    """

    def __init__(self, name="predictive_entropy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        distribution = classifier_of(y_pred)
        weights = weights_of_classes(distribution, y_pred, sample_weight, self.dtype)
        self.add(distribution.entropy(), weights)


@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class MutualInformation(WeightedMean):
    """How much draws of the weights disagree about the class, in nats.

    The mutual information of class and weights, H(mean_s p_s) - mean_s H(p_s), averaged
    over examples: the part of `bl.metrics.PredictiveEntropy` that more data would
    remove. It is no error: callbacks need their `mode`.

    `y_pred` is a `bl.Prediction` of a classifier, or the probabilities of two or more
    draws, `[S, B, ..., classes]`, or `[S, B, ..., 1]` of one class. What a model
    returns is of one draw, and has none: this is no metric for `compile`. Nothing is
    read of `y_true`, which may be `None`.

    Args:
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.MutualInformation()
    >>> draws = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> round(float(metric(None, draws)), 4)
    0.6931
    """

    def __init__(self, name="mutual_information", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        if isinstance(y_pred, Prediction):
            values = ops.convert_to_tensor(y_pred.mutual_information)
        else:
            values = _of_draws(y_pred)
        self.add(values, weights_like(values, y_pred, sample_weight, self.dtype))


def _of_draws(y_pred):
    """The mutual information, from probabilities `[S, B, ..., classes]`."""
    shape = shapes.static(y_pred if hasattr(y_pred, "shape") else ops.array(y_pred))
    is_one_draw = isinstance(y_pred, RandomVariable)
    if is_one_draw or len(shape) < 3 or shape[0] is None or shape[0] < 2:
        raise TypeError(
            "MutualInformation needs several draws of the weights: a prediction by "
            "`bl.predict(model, x)`, or probabilities of shape [S, B, ..., classes]. "
            f"Received: y_pred of type {type(y_pred).__name__} and shape {shape}"
        )
    family = Bernoulli if shape[-1] == 1 else Categorical
    draws = family(probs=y_pred)
    mean = family(probs=ops.mean(draws.probs, axis=0))
    return ops.maximum(mean.entropy() - ops.mean(draws.entropy(), axis=0), 0.0)
