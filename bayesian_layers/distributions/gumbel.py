"""The Gumbel distribution."""

import math

from keras import ops

from bayesian_layers.distributions import noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import EULER_GAMMA, log1mexp
from bayesian_layers.distributions.location_scale import LocationScale


@register
class Gumbel(LocationScale):
    """The Gumbel distribution: the limit of maxima.

    P(X <= x) = exp(-exp(-(x - loc) / scale))

    Args:
        loc: The mode, real.
        scale: The scale, positive; the standard deviation is `scale * pi / sqrt(6)`.

    Example:
    >>> gumbel = bl.distributions.Gumbel(loc=0.0, scale=1.0)
    >>> round(float(gumbel.mean()), 4)
    0.5772
    """

    def _standard_sample(self, shape, seed):
        return self._standard_quantile(noise.uniform(shape, self.dtype, seed))

    def _standard_log_prob(self, z):
        return -z - ops.exp(-z)

    def _standard_cdf(self, z):
        return ops.exp(-ops.exp(-z))

    def _log_cdf(self, value):
        return -ops.exp(-self._standardize(value))

    def _log_survival(self, value):
        return log1mexp(ops.exp(-self._standardize(value)))

    def _standard_quantile(self, probability):
        return -ops.log(-ops.log(probability))

    def _mean(self):
        return self.loc + self.scale * EULER_GAMMA

    def _standard_variance(self):
        return math.pi**2 / 6.0

    def _standard_entropy(self):
        return 1.0 + EULER_GAMMA
