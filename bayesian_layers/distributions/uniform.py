"""The uniform distribution."""

from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import Distribution, register


@register
class Uniform(Distribution):
    """The uniform distribution on an interval.

    p(x) = 1 / (high - low) for low <= x <= high

    Args:
        low: The lower end, real.
        high: The upper end, above `low`.

    Example:
    >>> uniform = bl.distributions.Uniform(low=-1.0, high=3.0)
    >>> round(float(uniform.cdf(0.0)), 4)
    0.25
    """

    parameters = {"low": constraints.real, "high": constraints.real}

    def __init__(self, low=0.0, high=1.0):
        super().__init__(low=low, high=high)

    def _validate(self):
        super()._validate()
        self._validate_order("low", "high")

    @property
    def support(self):
        """The interval."""
        return constraints.Interval(self.low, self.high)

    def _range(self):
        return self.high - self.low

    def _sample(self, sample_shape, seed):
        u = noise.uniform(self._sample_shape(sample_shape), self.dtype, seed)
        # A convex combination stays inside whatever the rounding.
        return self.support.project((1.0 - u) * self.low + u * self.high)

    def _log_prob(self, value):
        return -ops.log(self._range()) + ops.zeros_like(value)

    def _cdf(self, value):
        return ops.clip((value - self.low) / self._range(), 0.0, 1.0)

    def _log_survival(self, value):
        return ops.log(ops.clip((self.high - value) / self._range(), 0.0, 1.0))

    def _quantile(self, probability):
        return (1.0 - probability) * self.low + probability * self.high

    def _mean(self):
        return 0.5 * (self.low + self.high)

    def _variance(self):
        return ops.square(self._range()) / 12.0

    def _entropy(self):
        return ops.log(self._range())
