"""The half-Cauchy distribution."""

import math

from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.cauchy import Cauchy
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.folded import Folded


@register
class HalfCauchy(Folded):
    """The half-Cauchy distribution. It has no mean and no variance.

    p(x) = 2 / (pi * scale * (1 + ((x - loc) / scale)**2)) for x >= loc

    Args:
        loc: The lower end, real.
        scale: The median above `loc`, positive.

    Example:
    >>> half_cauchy = bl.distributions.HalfCauchy(loc=0.0, scale=2.0)
    >>> round(float(half_cauchy.quantile(0.5)), 4)
    2.0
    """

    parameters = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc, scale):
        Distribution.__init__(self, loc=loc, scale=scale)

    @property
    def support(self):
        """The numbers from `loc` upwards."""
        return constraints.AtLeast(self.loc)

    def _symmetric(self):
        return Cauchy.rebuild({"loc": self.loc, "scale": self.scale})

    def _cdf(self, value):
        z = ops.maximum(value - self.loc, 0.0) / self.scale
        return 2.0 / math.pi * ops.arctan(z)
