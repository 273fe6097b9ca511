"""The Laplace distribution."""

from keras import ops

from bayesian_layers.distributions import noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import LOG_2
from bayesian_layers.distributions.location_scale import LocationScale


@register
class Laplace(LocationScale):
    """The Laplace, or double exponential, distribution.

    p(x) = exp(-|x - loc| / scale) / (2 * scale)

    Args:
        loc: The mean, real.
        scale: The mean absolute deviation, positive.

    Example:
    >>> laplace = bl.distributions.Laplace(loc=1.0, scale=2.0)
    >>> round(float(laplace.variance()), 4)
    8.0
    """

    def _standard_sample(self, shape, seed):
        return self._standard_quantile(noise.uniform(shape, self.dtype, seed))

    def _standard_log_prob(self, z):
        return -ops.abs(z) - LOG_2

    def _standard_cdf(self, z):
        return ops.exp(self._standard_log_cdf(z))

    def _standard_log_cdf(self, z):
        below = ops.minimum(z, 0.0) - LOG_2
        above = ops.log1p(-0.5 * ops.exp(-ops.maximum(z, 0.0)))
        return ops.where(z < 0.0, below, above)

    def _log_cdf(self, value):
        return self._standard_log_cdf(self._standardize(value))

    def _log_survival(self, value):
        return self._standard_log_cdf(-self._standardize(value))

    def _standard_quantile(self, probability):
        below = probability < 0.5
        tail = ops.log(2.0 * ops.where(below, probability, 1.0 - probability))
        return ops.where(below, tail, -tail)

    def _standard_variance(self):
        return 2.0

    def _standard_entropy(self):
        return 1.0 + LOG_2
