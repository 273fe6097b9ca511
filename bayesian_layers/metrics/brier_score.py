"""The Brier score of classifiers."""

import keras
from keras import ops

from bayesian_layers.distributions import Bernoulli
from bayesian_layers.keras_contact import optimized
from bayesian_layers.metrics.weighted_mean import MeanOfClasses


@optimized("down")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class BrierScore(MeanOfClasses):
    """The squared distance between predicted probabilities and the true class.

    sum_k (p_k - 1[y = k])^2, averaged over examples: 0 is perfect, 2 is the worst. Of
    one class (`bl.layers.Bernoulli`, probabilities `[B]` or `[B, 1]`) it is (p - y)^2,
    half of that, as Brier (1950) and scikit-learn have it. It is proper: right
    probabilities have the least.

    `y_pred` is as in `bl.metrics.Accuracy`: the random variable of a head of classes, a
    `bl.Prediction` of a classifier, or probabilities.

    Args:
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.BrierScore()
    >>> probs = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    >>> round(float(metric(np.array([0, 2]), probs)), 4)
    0.25
    """

    def __init__(self, name="brier_score", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def values(self, distribution, labels):
        """Returns the squared distances."""
        probs = distribution.probs
        if isinstance(distribution, Bernoulli):
            return ops.square(probs - ops.cast(labels, probs.dtype))
        true = ops.one_hot(labels, probs.shape[-1], dtype=probs.dtype)
        return ops.sum(ops.square(probs - true), axis=-1)
