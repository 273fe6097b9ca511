"""The half-normal distribution."""

import math

from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.folded import Folded
from bayesian_layers.distributions.normal import Normal


@register
class HalfNormal(Folded):
    """The half-normal distribution: the size of a centred normal variable.

    p(x) = sqrt(2 / pi) / scale * exp(-x**2 / (2 * scale**2)) for x >= 0

    Args:
        scale: The standard deviation of the normal variable, positive.

    Example:
    >>> half_normal = bl.distributions.HalfNormal(scale=1.0)
    >>> round(float(half_normal.mean()), 4)
    0.7979
    """

    parameters = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale):
        Distribution.__init__(self, scale=scale)

    def _symmetric(self):
        scale = self.scale
        return Normal.rebuild({"loc": ops.zeros_like(scale), "scale": scale})

    def _cdf(self, value):
        return ops.erf(ops.maximum(value, 0.0) / (self.scale * math.sqrt(2.0)))

    def _quantile(self, probability):
        return self.scale * math.sqrt(2.0) * ops.erfinv(probability)

    def _mean(self):
        return self.scale * math.sqrt(2.0 / math.pi)

    def _variance(self):
        return ops.square(self.scale) * (1.0 - 2.0 / math.pi)
