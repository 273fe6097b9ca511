"""Inverses of the incomplete gamma and beta functions: quantiles.

The logarithm of a gamma variable and the log-odds of a beta variable have log-concave
densities, so that the logarithms of their tail probabilities are concave. Newton's
method on these approaches the root from one side and without a jump too far, from tail
probabilities of 1e-38 to the median; a bracket holds it where a tail underflows.
"""

import math

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions.incomplete import (
    betainc,
    broadcast,
    gammainc,
    gammaincc,
)
from bayesian_layers.distributions.stirling import lgamma_rest, log_gamma_density

MAX_STEPS = 50


def tails(probability):
    """p and 1 - p, with numbers in between in place of 0 and 1."""
    inner = ops.logical_and(probability > 0.0, probability < 1.0)
    lower = ops.where(inner, probability, 0.5)
    return lower, 1.0 - lower


def at_ends(x, probability, low, high):
    """x, but `low` where the probability is 0, and `high` where it is 1."""
    x = ops.where(probability > 0.0, x, low)
    return ops.where(probability < 1.0, x, high)


def gamma_quantile(concentration, lower, upper):
    """log(x / concentration) for the x with P(X <= x) = lower = 1 - upper.

    Args:
        concentration: Positive.
        lower: Probabilities between 0 and 1.
        upper: One minus `lower`, as accurate as `lower` is.
    """
    a, lower, upper = map(ops.stop_gradient, broadcast(concentration, lower, upper))
    left = lower <= upper
    sign = ops.where(left, ops.ones_like(a), -1.0)
    log_tail = ops.log(ops.minimum(lower, upper))
    log_lower = ops.where(left, log_tail, ops.log1p(-upper))
    log_a = ops.log(a)

    def log_tail_and_slope(v):
        u = sign * v
        x = a * ops.exp(u)
        tail = ops.where(left, gammainc(a, x), gammaincc(a, x))
        density = log_gamma_density(a, x, log_a + u) + log_a + u
        return _with_slope(tail, density)

    # P(X <= x) < x^a / Gamma(a + 1), all but equal for small x; the median is below a;
    # and P(X > a + sqrt(2 a t) + t) < exp(-t).
    power = (log_lower + backend.lgamma(a + 1.0)) / a - log_a
    median = (math.log(0.5) + backend.lgamma(a + 1.0)) / a - log_a
    far = ops.log1p((ops.sqrt(-2.0 * a * log_tail) - log_tail) / a)
    low = ops.where(left, power, -far)
    high = ops.where(left, 0.0, -median)
    z = backend.ndtri(ops.minimum(lower, upper))
    root = 1.0 - 1.0 / (9.0 * a) + sign * z / (3.0 * ops.sqrt(a))
    start = sign * 3.0 * ops.log(ops.maximum(root, 0.1))
    small = power + log_a - ops.log1p(a) < _log_epsilon(a)
    low = ops.where(small, sign * power, low)
    high = ops.where(small, low, high)
    return sign * _root(log_tail_and_slope, log_tail, low, high, start)


def beta_quantile(a, b, lower, upper):
    """log(b x / (a (1 - x))) for the x with P(X <= x) = lower = 1 - upper.

    Args:
        a: The exponent of `x`, plus one.
        b: The exponent of `1 - x`, plus one.
        lower: Probabilities between 0 and 1.
        upper: One minus `lower`, as accurate as `lower` is.
    """
    a, b, lower, upper = map(ops.stop_gradient, broadcast(a, b, lower, upper))
    left = lower <= upper
    # Solved in the lower tail: the upper one is the lower one of 1 - x.
    a, b = ops.where(left, a, b), ops.where(left, b, a)
    log_tail = ops.log(ops.minimum(lower, upper))
    log_odds = ops.log(a) - ops.log(b)
    log_total = ops.log(a + b)

    def log_tail_and_slope(u):
        x, y = ops.sigmoid(log_odds + u), ops.sigmoid(-log_odds - u)
        log_x, log_y = ops.log_sigmoid(log_odds + u), ops.log_sigmoid(-log_odds - u)
        density = (
            log_gamma_density(a, (a + b) * x, log_total + log_x)
            + log_gamma_density(b, (a + b) * y, log_total + log_y)
            + (lgamma_rest(a + b) + log_total + log_x + log_y)
        )
        return _with_slope(betainc(a, b, x, y), density)

    # P(X <= x) < r^a / (a B(a, b)) for the odds r = x / (1 - x), and the like above.
    low = (log_tail + _log_scaled_beta(a, b)) / a - log_odds
    high = -(math.log(0.5) + _log_scaled_beta(b, a)) / b - log_odds
    small = low + log_odds + log_total - ops.log1p(a) < _log_epsilon(a)
    high = ops.where(small, low, ops.maximum(low, high))
    start = _beta_start(a, b, backend.ndtri(ops.minimum(lower, upper)))
    u = _root(log_tail_and_slope, log_tail, low, high, start)
    return ops.where(left, u, -u)


def _beta_start(a, b, z):
    """A guess from the standard normal quantile z < 0 (Wilson and Hilferty)."""

    # The variable is a ratio of two gamma variables, whose cube roots are all but
    # normal; of the second only its spread counts where it is not.
    def cube_root(concentration):
        variance = 1.0 / (9.0 * ops.maximum(concentration, 0.3))
        return 1.0 - variance, variance

    (mean1, variance1), (mean0, variance0) = cube_root(a), cube_root(b)
    square = ops.square(z)
    leading = ops.maximum(ops.square(mean0) - square * variance0, 0.05)
    discriminant = ops.square(mean0) * variance1 + ops.square(mean1) * variance0
    discriminant = discriminant - square * variance0 * variance1
    root = mean1 * mean0 + z * ops.sqrt(ops.maximum(discriminant, 0.0))
    return 3.0 * ops.log(ops.maximum(root / leading, 0.01))


def _log_scaled_beta(a, b):
    """log(a B(a, b)), small for small a."""
    # log Gamma(a + b) - log Gamma(b), without the cancellation of large ones.
    growth = (
        lgamma_rest(a + b)
        - lgamma_rest(b)
        + b * ops.log1p(a / b)
        + a * (ops.log(a + b) - 1.0)
        - ops.log1p(a / b)
    )
    return backend.lgamma(a + 1.0) - growth


def _with_slope(tail, log_density):
    """log(tail) and its derivative; -inf and no number where the tail underflows."""
    positive = tail > 0.0
    log_tail = ops.log(ops.where(positive, tail, 1.0))
    slope = ops.exp(log_density - log_tail)
    return ops.where(positive, log_tail, -np.inf), ops.where(positive, slope, np.nan)


def _root(log_tail_and_slope, target, low, high, start):
    """The u in [low, high] with log_tail(u) = target, for increasing functions."""
    epsilon = math.exp(_log_epsilon(target))

    def unfinished(u, low, high, error):
        wide = high - low > epsilon * (1.0 + ops.abs(u))
        # Newton's step squares the error: the one after this leaves no more than
        # rounding, to which alone nothing would ever converge.
        return ops.logical_and(wide, ops.abs(error) > 0.3 * math.sqrt(epsilon))

    def step(u, low, high, error):
        active = unfinished(u, low, high, error)
        value, slope = log_tail_and_slope(u)
        excess = value - target
        low = ops.where(excess < 0.0, ops.maximum(u, low), low)
        high = ops.where(excess > 0.0, ops.minimum(u, high), high)
        newton = u - excess / slope
        inside = ops.logical_and(newton >= low, newton <= high)
        moved = ops.where(inside, newton, 0.5 * (low + high))
        error = ops.where(active, ops.where(inside, excess, np.inf), error)
        return ops.where(active, moved, u), low, high, error

    start = ops.minimum(ops.maximum(start, low), high)
    state = (start, low, high, ops.full_like(start, np.inf))
    return ops.while_loop(
        lambda *state: ops.any(unfinished(*state)),
        step,
        state,
        maximum_iterations=MAX_STEPS,
    )[0]


def with_implicit_gradient(x, probability, cdf, log_density):
    """Gives a quantile its derivatives, by those of the distribution function.

    F(x, parameters) = p, hence dx = (dp - dF at fixed x) / density.

    Args:
        x: The quantile, a number without gradient.
        probability: p.
        cdf: The function F of `x`, differentiable in the parameters.
        log_density: The function log dF/dx.
    """
    x = ops.stop_gradient(x)
    # At the ends of the support there is no probability to move.
    inner = ops.logical_and(probability > 0.0, probability < 1.0)
    inner = ops.logical_and(inner, ops.isfinite(x))
    point = ops.where(inner, x, 0.5)
    weight = ops.exp(-log_density(point))
    usable = ops.logical_and(inner, ops.isfinite(weight))
    weight = ops.stop_gradient(ops.where(usable, weight, 0.0))
    residual = probability - cdf(point)
    return x + weight * (residual - ops.stop_gradient(residual))


def _log_epsilon(x):
    dtype = keras.backend.standardize_dtype(x.dtype)
    return math.log(float(np.finfo(dtype).eps))
