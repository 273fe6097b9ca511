"""Elementary functions that several distributions need, careful at the edges."""

import math

import numpy as np
from keras import ops

from bayesian_layers import backend

LOG_2 = math.log(2.0)
HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
EULER_GAMMA = float(np.euler_gamma)


def tiny(dtype):
    """The smallest positive normal number of a floating dtype."""
    return float(np.finfo(dtype).tiny)


def log1mexp(x):
    """log(1 - exp(-x)) for x >= 0, accurate for small and for large x."""
    small = x < LOG_2
    below = ops.where(small, x, LOG_2)
    above = ops.where(small, LOG_2, x)
    return ops.where(small, ops.log(-ops.expm1(-below)), ops.log1p(-ops.exp(-above)))


def log_sub_exp(larger, smaller):
    """log(exp(larger) - exp(smaller)), for larger >= smaller, either may be -inf."""
    none = ops.isinf(smaller)
    gap = ops.where(none, 1.0, larger - ops.where(none, larger - 1.0, smaller))
    return ops.where(none, larger, larger + log1mexp(gap))


def xlogy(x, y):
    """x * log(y), which is 0 where both are 0."""
    # Only the point (0, 0) is guarded: elsewhere d/dx = log(y) has to get through.
    both = ops.logical_and(ops.equal(x, 0.0), ops.equal(y, 0.0))
    return x * ops.log(ops.where(both, 1.0, y))


def multiply_no_nan(x, y):
    """x * y, which is 0 where x is 0, even if y is infinite there."""
    return x * ops.where(ops.logical_and(ops.equal(x, 0.0), ops.isinf(y)), 0.0, y)


def betaln(a, b):
    """Logarithm of the beta function."""
    return backend.lgamma(a) + backend.lgamma(b) - backend.lgamma(a + b)


def logit(p):
    """log(p / (1 - p))."""
    return ops.log(p) - ops.log1p(-p)
