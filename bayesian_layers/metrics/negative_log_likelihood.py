"""The negative log-likelihood, without the KL, as a metric."""

import keras
from keras import ops

from bayesian_layers import losses
from bayesian_layers.keras_contact import optimized
from bayesian_layers.losses.distribution_loss import sum_of_weights
from bayesian_layers.metrics.classes import classifier_of, weights_of_classes
from bayesian_layers.metrics.weights import weights_like
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.random_variable import RandomVariable


class _OfPredictions(losses.NegativeLogLikelihood):
    """The negative logarithm of the predictive density."""

    def log_likelihood(self, distribution, y_true):
        return distribution.log_prob(y_true)


@optimized("down")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class NegativeLogLikelihood(keras.metrics.Metric):
    """-log p(y_true) of the predictive distribution.

    As in `bl.losses.NegativeLogLikelihood` the log-probability is summed over all axes
    but the first, masked steps are left out, and the sum is averaged over examples:
    over all those of an epoch, whatever the sizes of batches. The loss of a Bayesian
    network holds its KL besides; this does not. Where function values are uncertain, as
    those of a Gaussian process, it is of the predictive density, in which they are
    integrated out, and not the expected log-likelihood that is trained. In
    `compile(metrics=...)` it gives `nll` and `val_nll` to the logs, to `History` and to
    `EarlyStopping`.

    `y_pred` is the random variable of any head; a `bl.Prediction`; or probabilities of
    classes, `[..., classes]`, or of one class, `[B]` or `[..., 1]`. Of a prediction it
    is that of the mixture over draws, the mean of `-prediction.log_prob(y_true)`; of a
    classifier that of the `probs`, each position on its own.

    Keras hands weights to `compile(weighted_metrics=...)` only. There the mean is the
    weighted one, divided by the sum of the weights (where steps have weights of their
    own, by the sum over examples of the mean weight of their steps), and what has no
    weight may be anything, NaN too.

    Args:
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.Normal(1)])
    >>> model.compile(
    ...     loss=bl.losses.NegativeLogLikelihood(beta=0.5),
    ...     metrics=[bl.metrics.NegativeLogLikelihood()],
    ... )
    >>> x, y = np.ones((8, 3)), np.zeros(8)
    >>> sorted(model.evaluate(x, y, verbose=0, return_dict=True))
    ['loss', 'nll']
    """

    def __init__(self, name="nll", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self._loss = _OfPredictions(reduction="sum", dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        total, size = self._sum(y_true, y_pred, sample_weight)
        if sample_weight is None:
            count = ops.cast(size, self.dtype)
        else:
            count = sum_of_weights(sample_weight, self.dtype)
        self.total.assign_add(total)
        self.count.assign_add(count)

    def _sum(self, y_true, y_pred, sample_weight):
        """The weighted sum over examples, and their number."""
        if isinstance(y_pred, RandomVariable):
            return self._loss(y_true, y_pred, sample_weight), ops.shape(y_pred)[0]
        if isinstance(y_pred, Prediction) and not y_pred.is_classifier:
            values = ops.convert_to_tensor(-y_pred.log_prob(y_true), self.dtype)
            weights = weights_like(values, y_pred, sample_weight, self.dtype)
            values = ops.where(ops.equal(weights, 0.0), 0.0, values * weights)
            return ops.sum(values), values.shape[0]
        distribution = classifier_of(y_pred, y_true)
        # The mask of the output is in the weights: the variable made here has none.
        weights = weights_of_classes(distribution, y_pred, sample_weight, self.dtype)
        variable = RandomVariable(distribution)
        return self._loss(y_true, variable, weights), ops.shape(weights)[0]

    def result(self):
        """Returns the mean over examples."""
        return ops.divide_no_nan(self.total, self.count)
