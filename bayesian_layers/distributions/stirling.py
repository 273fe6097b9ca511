"""Gamma functions of large arguments, by what Stirling's formula leaves over.

log Gamma(1e6) is about 1e7, which float32 knows to within 1. In densities, entropies
and divergences such terms cancel; here they are cancelled on paper, so that only small
ones are left to compute.
"""

from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions.functions import HALF_LOG_2_PI, multiply_no_nan

# From here on, the first terms of the series are exact to the rounding of float64.
_LARGE = 15.0


def lgamma_rest(x):
    """log Gamma(x + 1) - x log(x) + x, for x >= 0: about log(2 pi x) / 2."""
    large, small, big = _split(x)
    logarithm = ops.log(ops.where(small > 0.0, small, 1.0))
    direct = backend.lgamma(small + 1.0) - small * (logarithm - 1.0)
    series = _even_series(big, 1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188) / big
    return ops.where(large, HALF_LOG_2_PI + 0.5 * ops.log(big) + series, direct)


def digamma_rest(x):
    """digamma(x) - log(x), for x > 0: about -1 / (2 x)."""
    large, small, big = _split(x)
    direct = backend.digamma(small) - ops.log(small)
    series = _even_series(big, 1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132) / big
    return ops.where(large, -(0.5 + series) / big, direct)


def betaln(a, b):
    """Logarithm of the beta function."""
    rest = lgamma_rest(a) + lgamma_rest(b) - lgamma_rest(a + b)
    powers = a * ops.log1p(b / a) + b * ops.log1p(a / b)
    return rest - powers - ops.log(a) - ops.log(b) + ops.log(a + b)


def deviance(count, rate, log_rate=None):
    """count * log(count / rate) - count + rate, for positive numbers; zero if equal."""
    log_rate = ops.log(rate) if log_rate is None else log_rate
    near = ops.logical_and(rate > 0.1 * count, rate < 10.0 * count)
    excess = ops.where(near, (rate - count) / count, 0.0)
    far = rate - count + count * (ops.log(count) - log_rate)
    return ops.where(near, count * (excess - ops.log1p(excess)), far)


def log_gamma_density(concentration, x, log_x=None):
    """(concentration - 1) * log(x) - x - log Gamma(concentration), for x >= 0.

    It is the log-density of a gamma distribution, at concentration k + 1 that of the
    count k of a Poisson distribution with rate x, and what all families are made of
    that have gamma functions in their densities: counts with a given sum, as in the
    binomial and multinomial distributions, are Poisson counts of which the sum is
    given, and the beta and Dirichlet distributions are gamma variables over their sum.
    """
    log_x = ops.log(x) if log_x is None else log_x
    shape = ops.shape(concentration + x)
    a, x, log_x = (ops.broadcast_to(t, shape) for t in (concentration, x, log_x))
    large, small, big = _split(a)
    direct = multiply_no_nan(small - 1.0, log_x) - x - backend.lgamma(small)
    count = big - 1.0
    x, log_x = ops.where(large, x, count), ops.where(large, log_x, ops.log(count))
    return ops.where(large, -deviance(count, x, log_x) - lgamma_rest(count), direct)


def gamma_entropy(concentration):
    """The entropy of a gamma distribution of rate one."""
    a = concentration
    return lgamma_rest(a) + (1.0 - a) * digamma_rest(a)


def gamma_divergence(q, p, ratio=1.0):
    """KL of gamma distributions of concentrations q and p, and of rates 1 and ratio."""
    return (
        (q - p) * digamma_rest(q)
        + (lgamma_rest(p) - lgamma_rest(q))
        + (ops.log(q) - ops.log(p))
        + deviance(p, q * ratio)
    )


def _split(x):
    """Whether x is large, and x with the large, or the others, held at the border."""
    large = x > _LARGE
    return large, ops.where(large, _LARGE, x), ops.where(large, x, _LARGE)


def _even_series(x, *coefficients):
    """The sum of coefficients[i] / x**(2 i)."""
    result, inverse = 0.0, 1.0 / ops.square(x)
    for coefficient in reversed(coefficients):
        result = result * inverse + coefficient
    return result
