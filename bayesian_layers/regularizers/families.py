"""Priors of other families."""

import math

from keras import ops

from bayesian_layers.distributions import (
    Cauchy,
    HalfCauchy,
    LogNormal,
    Normal,
    Uniform,
)
from bayesian_layers.distributions.expectation import average, spread
from bayesian_layers.regularizers.kl_divergence import KLDivergence, register


class _LocationScaleKLDivergence(KLDivergence):
    """Base of the divergences from a prior with a location and a scale."""

    family = None

    def __init__(self, loc=0.0, scale=1.0, scale_factor=1.0):
        super().__init__(self.family(loc, scale), scale_factor)
        self.loc = loc
        self.scale = scale


@register
class CauchyKLDivergence(_LocationScaleKLDivergence):
    """KL(q || Cauchy(loc, scale)), summed over the elements of a weight.

    By name: `"cauchy_kl_divergence"`.

    Args:
        loc: The median of the prior. Defaults to 0.
        scale: The scale of the prior, positive. Defaults to 1.
        scale_factor: A number that multiplies the divergence.
    """

    family = Cauchy


@register
class HalfCauchyKLDivergence(_LocationScaleKLDivergence):
    """KL(q || HalfCauchy(loc, scale)), summed over the elements of a weight.

    By name: `"half_cauchy_kl_divergence"`. It is infinite for a posterior with mass
    below `loc`: give it with a posterior of positive weights. For a log-normal one and
    `loc=0` it is an integral over log(w) by 32 Gauss-Hermite nodes, without noise.

    Args:
        loc: The lower end of the prior. Defaults to 0.
        scale: The scale of the prior, positive. Defaults to 1.
        scale_factor: A number that multiplies the divergence.
    """

    family = HalfCauchy

    def divergence(self, weight):
        """Returns the divergence of a random variable, a scalar."""
        q = weight.distribution
        if not isinstance(q, LogNormal) or self.loc != 0.0:
            return super().divergence(weight)
        # -log p(exp(x)) = log(pi scale / 2) + log(1 + exp(2 x) / scale^2), x normal.
        log_w = Normal.rebuild({"loc": q.loc, "scale": q.scale})
        x, log_weights = spread(log_w, 32)
        tail = average(ops.softplus(2.0 * (x - math.log(self.scale))), log_weights)
        return ops.sum(tail + math.log(0.5 * math.pi * self.scale) - q.entropy())


@register
class LogNormalKLDivergence(_LocationScaleKLDivergence):
    """KL(q || LogNormal(loc, scale)), summed over the elements of a weight.

    By name: `"log_normal_kl_divergence"`. It is infinite for a posterior with mass
    below zero: give it with a posterior of positive weights.

    Args:
        loc: The mean of the prior of log(w). Defaults to 0.
        scale: The standard deviation of the prior of log(w). Defaults to 1.
        scale_factor: A number that multiplies the divergence.
    """

    family = LogNormal


@register
class UniformKLDivergence(KLDivergence):
    """KL(q || Uniform(low, high)), summed over the elements of a weight.

    By name: `"uniform_kl_divergence"`. Where the posterior has mass outside of the
    interval it is infinite.

    Args:
        low: The lower end of the prior. Defaults to -1.
        high: The upper end of the prior. Defaults to 1.
        scale_factor: A number that multiplies the divergence.
    """

    def __init__(self, low=-1.0, high=1.0, scale_factor=1.0):
        super().__init__(Uniform(low, high), scale_factor)
        self.low = low
        self.high = high


@register
class LogUniformKLDivergence(KLDivergence):
    """KL(q || log-uniform) of normal posteriors, the prior of variational dropout.

    The prior p(w) proportional to 1 / |w| is improper; the divergence, up to a
    constant that makes it vanish for alpha to infinity, is a function of
    alpha = variance / mean**2. It is approximated to 0.009 or better by
    k1 - k1 sigmoid(k2 + k3 log alpha) + log(1 + 1 / alpha) / 2.

    By name: `"log_uniform_kl_divergence"`.

    Args:
        scale_factor: A number that multiplies the divergence.

    Reference: Molchanov, Ashukha and Vetrov (2017), Variational dropout sparsifies
    deep neural networks, equation 14.
    """

    def __init__(self, scale_factor=1.0):
        # There is no distribution with the density 1 / |w|: `prior` is `None`.
        self._prior = None
        self.scale_factor = scale_factor

    def divergence(self, weight):
        """Returns the divergence of a random variable, a scalar."""
        q = weight.distribution
        if not isinstance(q, Normal):
            raise ValueError(
                "LogUniformKLDivergence expects a normal posterior. "
                f"Received: {type(q).__name__}"
            )
        square = ops.maximum(ops.square(q.loc), 1e-16)
        return ops.sum(log_uniform_kl(2.0 * ops.log(q.scale) - ops.log(square)))


def log_uniform_kl(log_alpha):
    """The divergence from the log-uniform prior, elementwise."""
    k1, k2, k3 = 0.63576, 1.87320, 1.48695
    return k1 * ops.sigmoid(-k2 - k3 * log_alpha) + 0.5 * ops.softplus(-log_alpha)
