"""The deterministic distribution."""

import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import Distribution, register


@register
class Deterministic(Distribution):
    """A point mass: the value is `loc` with probability one.

    P(x) = 1 if x == loc, else 0

    Args:
        loc: The point, real.

    Example:
    >>> point = bl.distributions.Deterministic(3.0)
    >>> float(point.prob(3.0)), float(point.prob(2.0))
    (1.0, 0.0)
    """

    parameters = {"loc": constraints.real}

    def __init__(self, loc):
        super().__init__(loc=loc)

    def _sample(self, sample_shape, seed):
        return ops.broadcast_to(self.loc, self._sample_shape(sample_shape))

    def _log_prob(self, value):
        return ops.where(ops.equal(value, self.loc), ops.zeros_like(value), -np.inf)

    def _cdf(self, value):
        return ops.cast(value >= self.loc, self.dtype)

    def _quantile(self, probability):
        return self.loc + ops.zeros_like(probability)

    def _mean(self):
        return self.loc

    def _variance(self):
        return ops.zeros_like(self.loc)

    def _mode(self):
        return self.loc

    def _entropy(self):
        return ops.zeros_like(self.loc)
