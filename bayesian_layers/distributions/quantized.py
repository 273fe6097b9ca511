"""Continuous distributions over whole numbers."""

import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import multiply_no_nan
from bayesian_layers.distributions.wrapper import Wrapper


@register
class Quantized(Wrapper):
    """A continuous distribution rounded to equally spaced values.

    P(v) = P(v - step / 2 < x <= v + step / 2); the outer bins are open-ended:
    P(low) = P(x <= low + step / 2) and P(high) = P(x > high - step / 2).

    Bins are measured in the tail they lie in, so their logarithms are right where the
    probabilities themselves cannot be told from zero.

    Args:
        distribution: The continuous distribution, of scalar events.
        low: The lowest value.
        high: The highest value, above `low`.
        num_bins: The number of values from `low` to `high`, both included. Defaults
            to the whole numbers between them, which then have to be integers.

    Example:
    >>> pixel = bl.distributions.Quantized(
    ...     bl.distributions.Logistic(loc=100.0, scale=5.0), low=0, high=255
    ... )
    >>> round(float(ops.sum(pixel.prob(np.arange(256)))), 4)
    1.0
    """

    reparameterized = False

    def __init__(self, distribution, low, high, num_bins=None):
        whole = int(low) == low and int(high) == high
        if not low < high or (num_bins is None and not whole):
            raise ValueError(
                "Quantized expects `low` < `high`, and without `num_bins` integers. "
                f"Received: low={low}, high={high}, num_bins={num_bins}"
            )
        if num_bins is not None and not (isinstance(num_bins, int) and num_bins > 1):
            raise ValueError(
                "Quantized expects `num_bins` to be an integer above 1. "
                f"Received: num_bins={num_bins}"
            )
        if distribution.event_shape:
            raise ValueError(
                "Quantized expects a distribution of scalars. "
                f"Received: distribution={distribution}"
            )
        super().__init__(
            distribution=distribution, low=low, high=high, num_bins=num_bins
        )

    @property
    def low(self):
        """The lowest value."""
        return self._arguments["low"]

    @property
    def high(self):
        """The highest value."""
        return self._arguments["high"]

    @property
    def num_bins(self):
        """The number of values."""
        return self._arguments["num_bins"] or int(self.high) - int(self.low) + 1

    @property
    def step(self):
        """The distance between values."""
        return (self.high - self.low) / (self.num_bins - 1)

    @property
    def support(self):
        """The values from `low` to `high`."""
        if self._arguments["num_bins"] is None:
            return constraints.IntegerInterval(self.low, self.high)
        return constraints.Grid(self.low, self.high, self.step)

    def _sample(self, sample_shape, seed):
        return self.support.project(self.distribution._sample(sample_shape, seed))

    def _log_prob(self, value):
        base = self.distribution
        # By their numbers, so that two neighbours have the same edge between them.
        index = ops.round((value - self.low) / self.step)
        below, above = self._edge(index - 0.5), self._edge(index + 0.5)
        log_prob = base._log_interval(below, above)
        log_prob = ops.where(index <= 0, base._log_cdf(above), log_prob)
        last = index >= self.num_bins - 1
        return ops.where(last, base._log_survival(below), log_prob)

    def _edge(self, index):
        return self.low + index * self.step

    def _cdf(self, value):
        # A value that is a little below one of the grid, by rounding, counts as it.
        index = ops.floor((value - self.low) / self.step + 1e-3)
        below = self.distribution._cdf(self._edge(index + 0.5))
        below = ops.where(index >= 0, below, 0.0)
        return ops.where(index >= self.num_bins - 1, 1.0, below)

    def _values(self):
        """All values, on a new first axis, and the log-probability of each."""
        values = np.linspace(self.low, self.high, self.num_bins)
        values = values.reshape((-1,) + (1,) * len(self.batch_shape))
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
        index = ops.cast(ops.argmax(log_probs, axis=0), self.dtype)
        return self._edge(index)

    def _entropy(self):
        _, log_probs = self._values()
        return -ops.sum(multiply_no_nan(ops.exp(log_probs), log_probs), axis=0)
