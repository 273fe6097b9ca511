"""Continuous distributions over whole numbers."""

import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import multiply_no_nan
from bayesian_layers.distributions.wrapper import Wrapper

# How many values are summed over at once.
CHUNK = 8


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

    # Moments are sums over the values, a few of them at a time: all at once would take
    # the memory of so many batches.

    def _fold(self, function, initial):
        """Goes over the numbers of the values, some at a time on a new first axis.

        Args:
            function: From numbers, whether each is there, and a state to the next.
            initial: The first state, tensors of the shape of the batch.
        """
        first = np.arange(CHUNK).reshape((-1,) + (1,) * len(self.batch_shape))
        first = ops.convert_to_tensor(first, self.dtype)

        def step(i, state):
            index = ops.cast(i, self.dtype) * CHUNK + first
            there = index < self.num_bins
            return function(ops.minimum(index, self.num_bins - 1), there, state)

        return ops.fori_loop(0, -(-self.num_bins // CHUNK), step, initial)

    def _sum_of(self, term):
        """The sum of term(index) over the numbers of the values."""

        def add(index, there, total):
            return total + ops.sum(ops.where(there, term(index), 0.0), axis=0)

        return self._fold(add, ops.zeros(self._dynamic_batch_shape(), self.dtype))

    def _log_probs(self, index):
        return self._log_prob(self._edge(index))

    def _mean_index(self):
        # The sum of P(number > k) over k: one logarithm for each, not two.
        def term(index):
            above = ops.exp(self.distribution._log_survival(self._edge(index + 0.5)))
            return ops.where(index < self.num_bins - 1, above, 0.0)

        return self._sum_of(term)

    def _mean(self):
        return self._edge(self._mean_index())

    def _variance(self):
        # E (number - c)^2 from the tails on both sides of a c near the mean, so that no
        # large numbers are subtracted: squares are sums of odd numbers.
        mean = self._mean_index()
        center = ops.stop_gradient(ops.round(mean))

        def term(index):
            edge, base = self._edge(index + 0.5), self.distribution
            left = index < center
            tail = ops.where(left, base._log_cdf(edge), base._log_survival(edge))
            odd = 2.0 * ops.abs(index + 0.5 - center)
            return ops.where(index < self.num_bins - 1, odd * ops.exp(tail), 0.0)

        variance = self._sum_of(term) - ops.square(mean - center)
        return self.step**2 * ops.maximum(variance, 0.0)

    def _mode(self):
        def larger(index, there, best):
            log_prob, number = best
            log_probs = ops.where(there, self._log_probs(index), -np.inf)
            inner = ops.expand_dims(ops.argmax(log_probs, axis=0), 0)
            largest = ops.max(log_probs, axis=0)
            found = ops.take_along_axis(
                ops.broadcast_to(index, ops.shape(log_probs)), inner, axis=0
            )
            better = largest > log_prob
            return (
                ops.where(better, largest, log_prob),
                ops.where(better, ops.squeeze(found, 0), number),
            )

        zeros = ops.zeros(self._dynamic_batch_shape(), self.dtype)
        _, index = self._fold(larger, (zeros - np.inf, zeros))
        return self._edge(index)

    def _entropy(self):
        def term(index):
            log_probs = self._log_probs(index)
            return multiply_no_nan(ops.exp(log_probs), log_probs)

        return -self._sum_of(term)
