"""The exponential distribution."""

from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import Distribution, register


@register
class Exponential(Distribution):
    """The exponential distribution.

    p(x) = rate * exp(-rate * x) for x >= 0

    Args:
        rate: The inverse of the mean, positive.

    Example:
    >>> exponential = bl.distributions.Exponential(rate=2.0)
    >>> round(float(exponential.mean()), 4)
    0.5
    """

    parameters = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate):
        super().__init__(rate=rate)

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        return -ops.log(noise.uniform(shape, self.dtype, seed)) / self.rate

    def _log_prob(self, value):
        return ops.log(self.rate) - self.rate * value

    def _cdf(self, value):
        return -ops.expm1(-self.rate * ops.maximum(value, 0.0))

    def _log_survival(self, value):
        return -self.rate * ops.maximum(value, 0.0)

    def _quantile(self, probability):
        return -ops.log1p(-probability) / self.rate

    def _mean(self):
        return 1.0 / self.rate

    def _variance(self):
        return 1.0 / ops.square(self.rate)

    def _mode(self):
        return ops.zeros_like(self.rate)

    def _entropy(self):
        return 1.0 - ops.log(self.rate)
