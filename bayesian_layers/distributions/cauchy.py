"""The Cauchy distribution."""

import math

from keras import ops

from bayesian_layers.distributions import noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import log1p_square
from bayesian_layers.distributions.location_scale import LocationScale


@register
class Cauchy(LocationScale):
    """The Cauchy distribution. It has no mean and no variance.

    p(x) = 1 / (pi * scale * (1 + ((x - loc) / scale)**2))

    Args:
        loc: The median, real.
        scale: Half the interquartile range, positive.

    Example:
    >>> cauchy = bl.distributions.Cauchy(loc=0.0, scale=1.0)
    >>> round(float(cauchy.cdf(1.0)), 4)
    0.75
    """

    def _standard_sample(self, shape, seed):
        return self._standard_quantile(noise.uniform(shape, self.dtype, seed))

    def _standard_log_prob(self, z):
        return -log1p_square(z) - math.log(math.pi)

    def _standard_cdf(self, z):
        # arctan2(1, -z) is the angle from 0 to pi: no cancellation in the lower tail.
        return ops.arctan2(ops.ones_like(z), -z) / math.pi

    def _log_survival(self, value):
        return ops.log(self._standard_cdf(-self._standardize(value)))

    def _standard_quantile(self, probability):
        # tan(pi (p - 1/2)) = -1 / tan(pi p), which is precise for small p.
        below = probability < 0.5
        tail = ops.where(below, probability, 1.0 - probability)
        size = ops.cos(math.pi * tail) / ops.sin(math.pi * tail)
        return ops.where(below, -size, size)

    def _mean(self):
        raise self._missing("mean")

    def _variance(self):
        raise self._missing("variance")

    def _standard_entropy(self):
        return math.log(4.0 * math.pi)
