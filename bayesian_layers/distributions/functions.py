"""Elementary functions that several distributions need, careful at the edges."""

import math

import numpy as np
from keras import ops

LOG_2 = math.log(2.0)
HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
EULER_GAMMA = float(np.euler_gamma)


def tiny(dtype):
    """The smallest positive normal number of a floating dtype."""
    return float(np.finfo(dtype).tiny)


def bounded_exp(x, dtype):
    """exp(x), held between the smallest and the largest positive normal number."""
    low, high = tiny(dtype), float(np.finfo(dtype).max)
    # Held before exp, too: its derivative where it overflows would become NaN.
    x = ops.clip(x, math.log(low), math.log(high) - 1e-4)
    return ops.clip(ops.exp(x), low, high)


def log1p_square(x):
    """log(1 + x^2), without the overflow of the square."""
    size = ops.abs(x)
    small, large = ops.minimum(size, 1.0), ops.maximum(size, 1.0)
    outside = 2.0 * ops.log(large) + ops.log1p(ops.square(1.0 / large))
    return ops.where(size < 1.0, ops.log1p(ops.square(small)), outside)


def log1mexp(x):
    """log(1 - exp(-x)) for x >= 0, accurate for small and for large x."""
    small = x < LOG_2
    below = ops.where(small, x, LOG_2)
    above = ops.where(small, LOG_2, x)
    return ops.where(small, ops.log(-ops.expm1(-below)), ops.log1p(-ops.exp(-above)))


def log_sub_exp(larger, smaller):
    """log(exp(larger) - exp(smaller)), for larger >= smaller, either may be -inf."""
    # Where one of them alone is the answer, no infinite derivative may arise.
    none, equal = ops.isinf(smaller), larger <= smaller
    gap = ops.where(ops.logical_or(none, equal), 1.0, larger - smaller)
    result = ops.where(none, larger, larger + log1mexp(gap))
    return ops.where(equal, -np.inf, result)


def safe_log(x):
    """log(x), -inf at 0, with no infinite derivative there."""
    # An infinite derivative would turn into NaN where the result is not used.
    zero = ops.equal(x, 0.0)
    return ops.where(zero, -np.inf, ops.log(ops.where(zero, 1.0, x)))


def safe_log1m(x):
    """log(1 - x), -inf at 1, with no infinite derivative there."""
    one = ops.equal(x, 1.0)
    return ops.where(one, -np.inf, ops.log1p(-ops.where(one, 0.0, x)))


def log_sum_exp(terms, axis):
    """log(sum(exp(terms))) over an axis, -inf where all terms are."""
    # Where all are, the derivative of logsumexp would be NaN.
    none = ops.all(ops.equal(terms, -np.inf), axis=axis, keepdims=True)
    total = ops.logsumexp(ops.where(none, 0.0, terms), axis=axis)
    return ops.where(ops.squeeze(none, axis=axis), -np.inf, total)


def multiply_no_nan(x, y):
    """x * y, which is 0 where x is 0, even if y is infinite there."""
    return x * ops.where(ops.logical_and(ops.equal(x, 0.0), ops.isinf(y)), 0.0, y)


def logit(p):
    """log(p / (1 - p))."""
    return ops.log(p) - ops.log1p(-p)
