"""The beta distribution."""

import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import safe_log, tiny
from bayesian_layers.distributions.incomplete import betainc
from bayesian_layers.distributions.inverse import (
    at_ends,
    beta_quantile,
    tails,
    with_implicit_gradient,
)
from bayesian_layers.distributions.stirling import (
    gamma_entropy,
    lgamma_rest,
    log_gamma_density,
)


@register
class Beta(Distribution):
    """The beta distribution on the unit interval.

    p(x) = x**(concentration1 - 1) * (1 - x)**(concentration0 - 1)
           / B(concentration1, concentration0)

    Samples are differentiable with respect to both parameters and strictly between
    zero and one. The mode is NaN unless both concentrations are above one.

    Args:
        concentration1: The exponent of `x` plus one, positive.
        concentration0: The exponent of `1 - x` plus one, positive.

    Example:
    >>> beta = bl.distributions.Beta(concentration1=2.0, concentration0=3.0)
    >>> round(float(beta.mean()), 4)
    0.4
    """

    parameters = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    draws_gamma_noise = True

    def __init__(self, concentration1, concentration0):
        super().__init__(concentration1=concentration1, concentration0=concentration0)

    def _total(self):
        return self.concentration1 + self.concentration0

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        seed1, seed0 = noise.split(seed, 2)
        log1 = noise.log_gamma(shape, self.concentration1, self.dtype, seed1)
        log0 = noise.log_gamma(shape, self.concentration0, self.dtype, seed0)
        below_one = 1.0 - float(np.finfo(self.dtype).epsneg)
        return ops.clip(ops.sigmoid(log1 - log0), tiny(self.dtype), below_one)

    def _log_prob(self, value):
        total, rest = self._total(), 1.0 - value
        log_total = ops.log(total)
        return (
            log_gamma_density(
                self.concentration1, total * value, log_total + safe_log(value)
            )
            + log_gamma_density(
                self.concentration0, total * rest, log_total + safe_log(rest)
            )
            + lgamma_rest(total)
            + log_total
        )

    def _cdf(self, value):
        x = ops.clip(value, 0.0, 1.0)
        return betainc(self.concentration1, self.concentration0, x, 1.0 - x)

    def _log_survival(self, value):
        x = ops.clip(value, 0.0, 1.0)
        return ops.log(betainc(self.concentration0, self.concentration1, 1.0 - x, x))

    def _quantile(self, probability):
        a, b = self.concentration1, self.concentration0
        log_ratio = beta_quantile(a, b, *tails(probability))
        x = ops.sigmoid(log_ratio + ops.log(a) - ops.log(b))
        x = at_ends(x, probability, 0.0, 1.0)
        return with_implicit_gradient(x, probability, self._cdf, self._log_prob)

    def _mean(self):
        return self.concentration1 / self._total()

    def _variance(self):
        mean, total = self._mean(), self._total()
        return mean * (self.concentration0 / total) / (total + 1.0)

    def _mode(self):
        above1, above0 = self.concentration1 - 1.0, self.concentration0 - 1.0
        interior = ops.logical_and(above1 > 0.0, above0 > 0.0)
        return ops.where(
            interior, above1 / ops.where(interior, above1 + above0, 1.0), np.nan
        )

    def _entropy(self):
        a, b, total = self.concentration1, self.concentration0, self._total()
        parts = gamma_entropy(a) + gamma_entropy(b) - gamma_entropy(total)
        return parts - backend.digamma(total)
