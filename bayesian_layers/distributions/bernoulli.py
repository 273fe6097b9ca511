"""The Bernoulli distribution."""

import keras
from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import multiply_no_nan
from bayesian_layers.distributions.logits_or_probs import BinaryLogitsOrProbs


@register
class Bernoulli(BinaryLogitsOrProbs):
    """The distribution of one toss of a coin.

    P(1) = probs = sigmoid(logits), P(0) = 1 - probs

    Args:
        logits: log(p / (1 - p)), real. Give this or `probs`.
        probs: The probability of one.
        dtype: The dtype of samples. Defaults to `"int32"`.

    Example:
    >>> coin = bl.distributions.Bernoulli(probs=0.25)
    >>> round(float(coin.log_prob(1)), 4)
    -1.3863
    """

    parameters = {"logits": constraints.real, "probs": constraints.unit_interval}
    support = constraints.boolean

    def __init__(self, logits=None, probs=None, dtype="int32"):
        dtype = keras.backend.standardize_dtype(dtype)
        super().__init__(logits, probs, dtype=dtype)

    @property
    def dtype(self):
        """The dtype of samples."""
        return self._arguments["dtype"]

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        u = noise.uniform(shape, self.parameter_dtype, seed)
        return ops.cast(u < self.probs, self.dtype)

    def _log_prob(self, value):
        logits = self._parameter("logits")
        if logits is not None:
            # Only one of both logarithms is computed, which is most of the cost.
            return -ops.softplus(ops.where(value > 0.5, -logits, logits))
        log_failure, log_success = self._log_probs()
        return ops.where(value > 0.5, log_success, log_failure)

    def _cdf(self, value):
        below_one = ops.where(value < 0.0, ops.zeros_like(value), self._failure())
        return ops.where(value < 1.0, below_one, 1.0)

    def _mean(self):
        return self.probs

    def _variance(self):
        return self.probs * self._failure()

    def _mode(self):
        return ops.cast(self.probs > 0.5, self.dtype)

    def _entropy(self):
        log_failure, log_success = self._log_probs()
        return -(
            multiply_no_nan(self.probs, log_success)
            + multiply_no_nan(self._failure(), log_failure)
        )
