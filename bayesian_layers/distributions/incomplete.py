"""Incomplete gamma and beta functions, also of large parameters in float32.

The functions of the backends lose all digits in float32 once logarithms of the gamma
function cancel inside of them. For large parameters the distributions are all but
normal: Temme's uniform expansion, of which the first correction is enough, has nothing
that cancels. In float64 the functions of the backends are used throughout.

Reference: Temme (1996), Special functions, chapter 11; DLMF 8.12 and 8.18.
"""

import math

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import shapes
from bayesian_layers.distributions.functions import HALF_LOG_2_PI


def gammainc(a, x):
    """The distribution function of a gamma variable of concentration `a`."""
    return _gamma_tail(backend.gammainc, 1.0, a, x)


def gammaincc(a, x):
    """One minus `gammainc(a, x)`, accurate where that is close to one."""
    return _gamma_tail(backend.gammaincc, -1.0, a, x)


def _gamma_tail(function, sign, a, x):
    a, x = broadcast(a, x)
    if _is_double(x):
        return function(a, x)
    large = a > 50.0
    direct = function(ops.where(large, 1.0, a), ops.where(large, 1.0, x))
    a = ops.where(large, a, 50.0)
    # Beyond a thousand means nothing is left to tell.
    excess = ops.minimum(x, 1e3 * a) - a
    slope = _slope(excess / a) / a
    return ops.where(large, _corrected(sign, excess, slope, 1.0 / a), direct)


def betainc(a, b, x, y):
    """The distribution function of a beta variable at `x`, with `y` = 1 - `x`.

    Args:
        a: The exponent of `x`, plus one.
        b: The exponent of `y`, plus one.
        x: Numbers from 0 to 1.
        y: One minus `x`, as accurate as `x` is.
    """
    a, b, x, y = broadcast(a, b, x, y)
    if _is_double(x):
        return backend.betainc(a, b, x)
    large = ops.maximum(a, b) > 200.0
    one_sided = ops.minimum(a, b) < 10.0
    direct = _direct_beta(*(ops.where(large, 0.5, t) for t in (a, b, x, y)))
    limit = _beta_by_gamma(a, b, x, y)
    a, b = ops.where(large, a, 200.0), ops.where(large, b, 200.0)
    total, excess = a + b, b * x - a * y
    slope = (_slope(excess / a) * (b / a) - _slope(-excess / b) * (a / b)) / total
    normal = _corrected(1.0, excess, slope, total / a / b)
    return ops.where(large, ops.where(one_sided, limit, normal), direct)


def _direct_beta(a, b, x, y):
    """By the backend, at the smaller of `x` and `y`: next to one, digits are lost."""
    above = b * x > a * y
    first, second = ops.where(above, b, a), ops.where(above, a, b)
    tail = backend.betainc(first, second, ops.where(above, y, x))
    return ops.where(above, 1.0 - tail, tail)


def _beta_by_gamma(a, b, x, y):
    """If one parameter is large, -log of the larger proportion is a gamma variable."""
    above = a > b
    small, big = ops.minimum(a, b), ops.maximum(a, b)
    proportion = ops.minimum(ops.where(above, y, x), 1.0 - 1e-6)
    scaled = -(big + 0.5 * (small - 1.0)) * ops.log1p(-proportion)
    small = ops.minimum(small, 10.0)
    return ops.where(
        above, backend.gammaincc(small, scaled), backend.gammainc(small, scaled)
    )


def _corrected(sign, excess, slope, squared_scale):
    """The normal distribution function, with the first correction for skewness.

    z = excess * sqrt(squared_scale * (1 + excess * slope)) is the root of twice the
    deviance, and -slope / scale / (root * (1 + root)) the limit-free form of
    1 / z - 1 / (excess * scale).
    """
    scale = ops.sqrt(squared_scale)
    root = ops.sqrt(ops.maximum(1.0 + excess * slope, 1e-6))
    z = excess * scale * root
    density = ops.exp(-0.5 * ops.square(z) - HALF_LOG_2_PI)
    correction = density * slope / (scale * root * (1.0 + root))
    return 0.5 * ops.erfc(-sign * z / math.sqrt(2.0)) - sign * correction


def _slope(u):
    """(2 (u - log(1 + u)) / u^2 - 1) / u, which is -2/3 at zero."""
    u = ops.maximum(u, -1.0 + 1e-6)
    near = ops.abs(u) < 0.1
    small, large = ops.where(near, u, 0.0), ops.where(near, 1.0, u)
    series = 0.0
    for k in range(8, 0, -1):
        series = series * small + 2.0 * (-1.0) ** k / (k + 2)
    direct = 2.0 * (large - ops.log1p(large)) / ops.square(large)
    return ops.where(near, series, (direct - 1.0) / large)


def broadcast(*tensors):
    """Returns tensors, broadcast to one shape."""
    shape = shapes.broadcast(*(ops.shape(t) for t in tensors))
    return [ops.broadcast_to(t, shape) for t in tensors]


def _is_double(x):
    return keras.backend.standardize_dtype(x.dtype) == "float64"
