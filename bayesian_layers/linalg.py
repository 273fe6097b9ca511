"""Cholesky factors that do not fail, and solutions by them.

Matrices have shape `[..., k, k]`; batch axes broadcast. What is called `tril` is a
lower triangular factor L of a covariance L L^T.
"""

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import shapes
from bayesian_layers.distributions.functions import HALF_LOG_2_PI

RETRIES = 6
GROWTH = 10.0


def cholesky(matrix):
    """The Cholesky factor of a matrix that is positive definite but for rounding.

    Where the factorization fails, it is repeated with a jitter on the diagonal, up to
    six times: 10, 100, ... 10^6 units of rounding of the dtype, times the mean of the
    diagonal (in float32 from 1.2e-6 to 0.12 of it). A matrix that does not need it
    gets none, and is factorized once. All of it is part of the compiled program, and
    the same on all backends.

    The gradient is that of the factor of the matrix with its jitter, symmetric, and
    has gradients itself.

    Args:
        matrix: Symmetric, of shape `[..., k, k]`; only what is on the diagonal and
            below it is certain to be read.

    Returns:
        Lower triangular factors, of shape `[..., k, k]`. Matrices that no jitter
        repairs, and those with NaN, give NaN, without an exception;
        `check_factor` raises one.

    Example:
    >>> singular = np.ones((3, 3), "float32")
    >>> tril = bl.linalg.cholesky(singular)
    >>> bool(ops.all(ops.isfinite(tril)))
    True
    """
    matrix = ops.convert_to_tensor(matrix)
    return _factor(_factorize(matrix)[0], matrix)


def check_factor(tril, name="matrix"):
    """Raises where `cholesky` found no factor; under a tracer it looks at nothing.

    Args:
        tril: What `cholesky` returned.
        name: What to call the matrix in the message.

    Returns:
        The factor.

    Raises:
        ValueError: If there is NaN in it.
    """
    if backend.is_concrete(tril) and bool(ops.any(ops.isnan(tril))):
        raise ValueError(
            f"Expected `{name}` to be positive definite, but for rounding. It has no "
            "Cholesky factor even with a jitter on its diagonal. "
            f"Received: {name}.shape={shapes.static(tril)}. Check that it is symmetric "
            "and has no NaN, or add more noise to its diagonal."
        )
    return tril


def _factorize(matrix):
    """The factor of each matrix, without derivative, and the jitter that it needs."""
    matrix = ops.stop_gradient(matrix)
    finfo = np.finfo(keras.backend.standardize_dtype(matrix.dtype))
    scale = ops.mean(ops.abs(backend.diagonal(matrix)), axis=-1)
    # The zero matrix has a factor, too.
    smallest = ops.maximum(scale * float(finfo.eps * GROWTH), float(finfo.tiny))

    def fails(tril):
        # One NaN on the diagonal is followed by NaN below.
        return ops.isnan(ops.sum(backend.diagonal(tril), axis=-1))

    def grow(tril, jitter):
        larger = ops.maximum(GROWTH * jitter, smallest)
        jitter = ops.where(fails(tril), larger, jitter)
        identity = ops.eye(ops.shape(matrix)[-1], dtype=matrix.dtype)
        return backend.cholesky(matrix + jitter[..., None, None] * identity), jitter

    tril, jitter = ops.while_loop(
        lambda tril, jitter: ops.any(fails(tril)),
        grow,
        (backend.cholesky(matrix), ops.zeros_like(scale)),
        maximum_iterations=RETRIES,
    )
    return ops.stop_gradient(tril), ops.stop_gradient(jitter)


# The factor is found without a record of derivatives, which it gets here: by the factor
# alone, so that nothing is factorized again. The derivatives use the factor with its
# derivative in turn, and so have derivatives themselves.


def _factor_jvp(inputs, tangents):
    """L half(L^-1 dA L^-T), where half takes the lower half, and of the diagonal half.

    Differentiation of the Cholesky decomposition (Murray 2016), equation 8.
    """
    tril = _factor(*inputs)
    half = solve_lower(tril, _symmetric(tangents[0]))
    return tril @ _lower_half(solve_lower(tril, _transpose(half)))


def _factor_vjp(inputs, upstream):
    """The transpose of `_factor_jvp`."""
    tril = _factor(*inputs)
    inner = _symmetric(_lower_half(_transpose(tril) @ upstream))
    half = solve_lower(tril, inner, transposed=True)
    return (solve_lower(tril, _transpose(half), transposed=True),)


_factor = backend.with_derivative(lambda tril, matrix: tril, _factor_jvp, _factor_vjp)


def normal_log_density(matrix, columns, name="matrix"):
    """log N(column | 0, matrix) of each column, with a backward pass in closed form.

    With the factor L of the matrix K and a = K^-1 r for a column r of length n,

        log p = -|L^-1 r|^2 / 2 - log det L - n log(2 pi) / 2,
        d log p / dr = -a,    d log p / dK = (a a^T - K^-1) / 2.

    The matrix is factorized once, as by `cholesky`, with a jitter where it needs one.
    The backward pass is the inverse from the factor and a product, which is less than
    half of the work of going back through the factorization.

    Args:
        matrix: K, symmetric, of shape `[..., n, n]`.
        columns: The deviations r from the mean, of shape `[..., n, m]`.
        name: What to call the matrix in messages.

    Returns:
        A tensor of shape `[..., m]`, with the batch axes of both.

    Raises:
        ValueError: If the matrix has no factor, as in `check_factor`.

    Example:
    >>> matrix = np.array([[2.0, 1.0], [1.0, 2.0]], "float32")
    >>> log_density = bl.linalg.normal_log_density(matrix, np.ones((2, 1), "float32"))
    >>> [round(float(x), 4) for x in log_density]
    [-2.7205]
    """
    matrix, columns = ops.convert_to_tensor(matrix), ops.convert_to_tensor(columns)
    tril = check_factor(_factorize(matrix)[0], name)
    batch = shapes.broadcast(ops.shape(matrix)[:-2], ops.shape(columns)[:-2])
    return _log_density(*(_with_batch(x, batch) for x in (tril, matrix, columns)))


def _log_density_of_factor(tril, matrix, columns):
    squares = ops.sum(ops.square(solve_lower(tril, columns)), axis=-2)
    size = ops.cast(ops.shape(matrix)[-1], columns.dtype)
    return -0.5 * squares - half_log_det(tril)[..., None] - size * HALF_LOG_2_PI


def _log_density_jvp(inputs, tangents):
    tril, solved = _solved(*inputs)
    matrix, columns = tangents
    squares = ops.sum(solved * (matrix @ solved), axis=-2)
    trace = ops.sum(backend.cholesky_inverse(tril) * matrix, axis=(-2, -1))
    return 0.5 * (squares - trace[..., None]) - ops.sum(solved * columns, axis=-2)


def _log_density_vjp(inputs, upstream):
    tril, solved = _solved(*inputs)
    weighted = solved * upstream[..., None, :]
    total = ops.sum(upstream, axis=-1)[..., None, None]
    squares = weighted @ _transpose(solved)
    return 0.5 * (squares - total * backend.cholesky_inverse(tril)), -weighted


def _solved(tril, matrix, columns):
    """The factor, with its derivative, and matrix^-1 columns."""
    tril = _factor(tril, matrix)
    return tril, cholesky_solve(tril, columns)


_log_density = backend.with_derivative(
    _log_density_of_factor, _log_density_jvp, _log_density_vjp
)


def _transpose(matrix):
    return ops.swapaxes(matrix, -1, -2)


def _symmetric(matrix):
    return 0.5 * (matrix + _transpose(matrix))


def _lower_half(matrix):
    """What is below the diagonal, and half of the diagonal."""
    return 0.5 * (ops.tril(matrix) + ops.tril(matrix, -1))


def _with_batch(matrix, batch):
    shape = ops.shape(matrix)
    if shapes.static(matrix)[:-2] == batch:
        return matrix
    return ops.broadcast_to(matrix, (*batch, *shape[-2:]))


def solve_lower(tril, columns, *, transposed=False):
    """tril^-1 columns, or tril^-T columns.

    Args:
        tril: Lower triangular, of shape `[..., k, k]`.
        columns: Of shape `[..., k, m]`.
        transposed: Whether to solve with the transpose of `tril`.

    Returns:
        A tensor of shape `[..., k, m]`, with the batch axes of both.
    """
    batch = shapes.broadcast(ops.shape(tril)[:-2], ops.shape(columns)[:-2])
    tril, columns = _with_batch(tril, batch), _with_batch(columns, batch)
    if transposed:
        return ops.solve_triangular(_transpose(tril), columns, lower=False)
    return ops.solve_triangular(tril, columns, lower=True)


def solve_lower_vectors(tril, vectors):
    """tril^-1 vectors, for vectors `[..., k]` with the batch axes of both.

    Vectors that share a matrix are solved for as the columns of one right-hand side.
    """
    if len(tril.shape) > 2:
        return solve_lower(tril, vectors[..., None])[..., 0]
    columns = ops.transpose(ops.reshape(vectors, (-1, tril.shape[-1])))
    solved = ops.solve_triangular(tril, columns, lower=True)
    return ops.reshape(ops.transpose(solved), ops.shape(vectors))


def cholesky_solve(tril, columns):
    """(tril tril^T)^-1 columns, for columns of shape `[..., k, m]`.

    Example:
    >>> tril = bl.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 3.0]], "float32"))
    >>> solved = bl.linalg.cholesky_solve(tril, np.array([[8.0], [8.0]], "float32"))
    >>> [round(float(x), 4) for x in solved[:, 0]]
    [1.0, 2.0]
    """
    tril, columns = ops.convert_to_tensor(tril), ops.convert_to_tensor(columns)
    return solve_lower(tril, solve_lower(tril, columns), transposed=True)


def half_log_det(tril):
    """log det tril: half of the log-determinant of tril tril^T, of shape `[...]`."""
    return ops.sum(ops.log(backend.diagonal(tril)), axis=-1)


def log_det(tril):
    """The log-determinant of tril tril^T, of shape `[...]`."""
    return 2.0 * half_log_det(tril)
