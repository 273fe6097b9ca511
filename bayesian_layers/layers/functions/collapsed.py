"""Sparse Gaussian processes with Gaussian noise: q(u) and the bound in closed form.

With A = L^-1 k(Z, x) / s, for noise of variance s**2 and L L^T = k(Z, Z), the best q of
the whitened inducing values has precision B = I + A A^T and mean B^-1 A r / s, with
residuals r = y - m(x).
"""

import math

from keras import ops

from bayesian_layers import covariances, linalg
from bayesian_layers.distributions import Deterministic, Normal
from bayesian_layers.distributions.functions import HALF_LOG_2_PI
from bayesian_layers.layers.functions.process import per_unit
from bayesian_layers.parameterizations import Softplus


def _parts(layer, x, y, noise_variance):
    """L, A, the factor of B, and the residuals `[units, N]` divided by s."""
    points = layer.inducing_points()
    stddev = ops.sqrt(ops.cast(noise_variance, x.dtype))
    tril = linalg.cholesky(layer.covariance_fn(points))
    scaled = linalg.solve_lower(tril, layer.covariance_fn(points, x)) / stddev
    identity = ops.eye(layer.num_inducing, dtype=x.dtype)
    precision = identity + scaled @ ops.swapaxes(scaled, -1, -2)
    residuals = ops.transpose(y - layer._mean(x)) / stddev
    return tril, scaled, precision, residuals


def bound(layer, x, y, noise_variance):
    """The bound of all units; see `SparseGaussianProcess.collapsed_bound`."""
    with covariances.one_draw(layer.covariance_fn):
        _, scaled, precision, residuals = _parts(layer, x, y, noise_variance)
        prior = layer.covariance_fn.diagonal(x)
    factor = linalg.cholesky(precision)
    projected = per_unit(residuals, ops.swapaxes(scaled, -1, -2))
    fitted = linalg.solve_lower_vectors(factor, projected)
    noise_variance = ops.cast(noise_variance, x.dtype)
    missing = ops.sum(prior, axis=-1) / noise_variance
    missing = missing - ops.sum(ops.square(scaled), axis=(-2, -1))
    size = x.shape[0]
    constant = size * (HALF_LOG_2_PI + 0.5 * ops.log(noise_variance))
    per_function = (
        -constant
        - linalg.half_log_det(factor)
        - 0.5 * ops.sum(ops.square(residuals), axis=-1)
        + 0.5 * ops.sum(ops.square(fitted), axis=-1)
        - 0.5 * missing
    )
    return ops.sum(per_function)


def assign_optimum(layer, x, y, noise_variance):
    """Sets the variables of q(u) to the optimum."""
    if not float(noise_variance) > 0.0 or math.isinf(float(noise_variance)):
        raise ValueError(
            "`noise_variance` should be a positive number. "
            f"Received: noise_variance={noise_variance}"
        )
    with covariances.one_draw(layer.covariance_fn):
        tril, scaled, precision, residuals = _parts(layer, x, y, noise_variance)
        offset = 0.0 if layer.whiten else layer.mean_at_inducing_points()
    projected = per_unit(residuals, ops.swapaxes(scaled, -1, -2))
    identity = ops.eye(layer.num_inducing, dtype=x.dtype)
    covariance = linalg.cholesky_solve(linalg.cholesky(precision), identity)
    loc = per_unit(projected, covariance)
    if not layer.whiten:
        loc = offset + per_unit(loc, ops.swapaxes(tril, -1, -2))
        covariance = tril @ covariance @ ops.swapaxes(tril, -1, -2)
        inverse = linalg.solve_lower(tril, identity)
        precision = ops.swapaxes(inverse, -1, -2) @ precision @ inverse
    weight = layer.random_weights["inducing_values"]
    variables, posterior = weight.variables, weight.posterior
    shape = tuple(weight.location.shape)
    variables["loc"].assign(loc)
    if isinstance(posterior, Deterministic):
        return
    if isinstance(posterior, Normal):
        # The best of the distributions with independent elements.
        variance = 1.0 / ops.diagonal(precision, axis1=-2, axis2=-1)
        scale = ops.broadcast_to(ops.sqrt(variance), shape)
        reader = weight.initializer.parameters()["scale"].constraint
        variables["scale"].assign(reader.reverse(scale))
        return
    factor = linalg.cholesky(0.5 * (covariance + ops.swapaxes(covariance, -1, -2)))
    diagonal = ops.diagonal(factor, axis1=-2, axis2=-1)
    stored = ops.tril(factor, k=-1) + Softplus().reverse(diagonal)[..., None] * identity
    variables["tril"].assign(ops.broadcast_to(stored, (*shape, shape[-1])))
