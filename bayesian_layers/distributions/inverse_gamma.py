"""The inverse gamma distribution."""

import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import bounded_exp, tiny
from bayesian_layers.distributions.incomplete import gammainc, gammaincc
from bayesian_layers.distributions.inverse import (
    at_ends,
    gamma_quantile,
    tails,
    with_implicit_gradient,
)
from bayesian_layers.distributions.stirling import gamma_entropy, log_gamma_density


@register
class InverseGamma(Distribution):
    """The distribution of 1 / x for gamma distributed x.

    p(x) = scale**concentration * x**(-concentration - 1) * exp(-scale / x)
           / Gamma(concentration) for x > 0

    The mean is infinite for `concentration <= 1`, the variance for
    `concentration <= 2`.

    Args:
        concentration: The shape, positive.
        scale: The scale, positive. Defaults to one.

    Example:
    >>> inverse_gamma = bl.distributions.InverseGamma(concentration=3.0, scale=4.0)
    >>> round(float(inverse_gamma.mean()), 4)
    2.0
    """

    parameters = {"concentration": constraints.positive, "scale": constraints.positive}
    support = constraints.positive
    draws_gamma_noise = True

    def __init__(self, concentration, scale=1.0):
        super().__init__(concentration=concentration, scale=scale)

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        log_gamma = noise.log_gamma(shape, self.concentration, self.dtype, seed)
        return bounded_exp(ops.log(self.scale) - log_gamma, self.dtype)

    def _log_prob(self, value):
        log_value = ops.log(value)
        log_inverse = ops.log(self.scale) - log_value
        log_density = log_gamma_density(
            self.concentration, self.scale / value, log_inverse
        )
        return log_density + log_inverse - log_value

    def _inverted(self, value):
        return self.scale / ops.maximum(value, tiny(self.dtype))

    def _cdf(self, value):
        below = gammaincc(self.concentration, self._inverted(value))
        return ops.where(value > 0.0, below, 0.0)

    def _log_survival(self, value):
        log_tail = ops.log(gammainc(self.concentration, self._inverted(value)))
        return ops.where(value > 0.0, log_tail, 0.0)

    def _quantile(self, probability):
        # 1 / x is above its own quantile where x is below.
        lower, upper = tails(probability)
        log_ratio = gamma_quantile(self.concentration, upper, lower)
        x = ops.exp(ops.log(self.scale) - ops.log(self.concentration) - log_ratio)
        x = at_ends(x, probability, 0.0, np.inf)
        return with_implicit_gradient(x, probability, self._cdf, self._log_prob)

    def _mean(self):
        excess = self.concentration - 1.0
        finite = self.scale / ops.where(excess > 0.0, excess, 1.0)
        return ops.where(excess > 0.0, finite, np.inf)

    def _variance(self):
        excess = self.concentration - 2.0
        finite = ops.square(self.mean()) / ops.where(excess > 0.0, excess, 1.0)
        return ops.where(excess > 0.0, finite, np.inf)

    def _mode(self):
        return self.scale / (self.concentration + 1.0)

    def _entropy(self):
        a = self.concentration
        return gamma_entropy(a) - 2.0 * backend.digamma(a) + ops.log(self.scale)
