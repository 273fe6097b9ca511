"""Continuous distributions over whole numbers."""

import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import multiply_no_nan
from bayesian_layers.distributions.wrapper import Wrapper


@register
class Quantized(Wrapper):
    """A continuous distribution rounded to the whole numbers from `low` to `high`.

    P(k) = P(k - 1/2 < x <= k + 1/2); the outer bins are open-ended:
    P(low) = P(x <= low + 1/2) and P(high) = P(x > high - 1/2).

    Bins are measured in the tail they lie in, so their logarithms are right where the
    probabilities themselves cannot be told from zero.

    Args:
        distribution: The continuous distribution, of scalar events.
        low: The lowest value, an integer.
        high: The highest value, an integer, above `low`.

    Example:
    >>> pixel = bl.distributions.Quantized(
    ...     bl.distributions.Logistic(loc=100.0, scale=5.0), low=0, high=255
    ... )
    >>> round(float(ops.sum(pixel.prob(np.arange(256)))), 4)
    1.0
    """

    reparameterized = False

    def __init__(self, distribution, low, high):
        if not (int(low) == low and int(high) == high and low < high):
            raise ValueError(
                "Quantized expects integers `low` < `high`. "
                f"Received: low={low}, high={high}"
            )
        if distribution.event_shape:
            raise ValueError(
                "Quantized expects a distribution of scalars. "
                f"Received: distribution={distribution}"
            )
        super().__init__(distribution=distribution, low=int(low), high=int(high))

    @property
    def low(self):
        """The lowest value."""
        return self._arguments["low"]

    @property
    def high(self):
        """The highest value."""
        return self._arguments["high"]

    @property
    def support(self):
        """The whole numbers from `low` to `high`."""
        return constraints.IntegerInterval(self.low, self.high)

    def _sample(self, sample_shape, seed):
        return self.support.project(self.distribution._sample(sample_shape, seed))

    def _log_prob(self, value):
        base = self.distribution
        lowest, highest = value <= self.low, value >= self.high
        log_prob = base._log_interval(value - 0.5, value + 0.5)
        log_prob = ops.where(lowest, base._log_cdf(value + 0.5), log_prob)
        return ops.where(highest, base._log_survival(value - 0.5), log_prob)

    def _cdf(self, value):
        below = self.distribution._cdf(ops.floor(value) + 0.5)
        below = ops.where(value >= self.low, below, 0.0)
        return ops.where(value >= self.high, 1.0, below)

    def _values(self):
        """All values, on a new first axis, and the log-probability of each."""
        count = self.high - self.low + 1
        values = np.arange(self.low, self.high + 1).reshape(
            (count,) + (1,) * len(self.batch_shape)
        )
        values = ops.convert_to_tensor(values, self.dtype)
        return values, self.log_prob(values)

    def _mean(self):
        values, log_probs = self._values()
        return ops.sum(values * ops.exp(log_probs), axis=0)

    def _variance(self):
        values, log_probs = self._values()
        probs = ops.exp(log_probs)
        mean = ops.sum(values * probs, axis=0)
        return ops.sum(ops.square(values - mean) * probs, axis=0)

    def _mode(self):
        _, log_probs = self._values()
        return ops.cast(ops.argmax(log_probs, axis=0) + self.low, self.dtype)

    def _entropy(self):
        _, log_probs = self._values()
        return -ops.sum(multiply_no_nan(ops.exp(log_probs), log_probs), axis=0)
