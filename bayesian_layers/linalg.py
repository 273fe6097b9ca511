"""Cholesky factors that do not fail, and solutions by them.

Matrices have shape `[..., k, k]`; batch axes broadcast. What is called `tril` is a
lower triangular factor L of a covariance L L^T.
"""

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import shapes

RETRIES = 6
GROWTH = 10.0


def cholesky(matrix):
    """The Cholesky factor of a matrix that is positive definite but for rounding.

    Where the factorization fails, it is repeated with a jitter on the diagonal, up to
    six times: 10, 100, ... 10^6 units of rounding of the dtype, times the mean of the
    diagonal (in float32 from 1.2e-6 to 0.12 of it). A matrix that does not need it
    gets none. All of it is part of the compiled program, and the same on all backends.

    The gradient is that of the factor of the matrix with its jitter.

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
    jitter = _jitter(ops.stop_gradient(matrix))
    return backend.cholesky(_add_to_diagonal(matrix, jitter))


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


def _jitter(matrix):
    """The smallest jitter of the series that each matrix needs, of shape `[...]`."""
    dtype = keras.backend.standardize_dtype(matrix.dtype)
    diagonal = ops.diagonal(matrix, axis1=-2, axis2=-1)
    scale = ops.mean(ops.abs(diagonal), axis=-1)
    smallest = scale * float(np.finfo(dtype).eps * GROWTH)

    def fails(jitter):
        factor = backend.cholesky(_add_to_diagonal(matrix, jitter))
        # One NaN on the diagonal is followed by NaN below.
        return ops.isnan(ops.sum(ops.diagonal(factor, axis1=-2, axis2=-1), axis=-1))

    def grow(jitter, failing):
        larger = ops.maximum(GROWTH * jitter, smallest)
        jitter = ops.where(failing, larger, jitter)
        return jitter, fails(jitter)

    start = ops.zeros_like(scale)
    jitter, _ = ops.while_loop(
        lambda jitter, failing: ops.any(failing),
        grow,
        (start, fails(start)),
        maximum_iterations=RETRIES,
    )
    return jitter


def _add_to_diagonal(matrix, jitter):
    identity = ops.eye(matrix.shape[-1], dtype=matrix.dtype)
    return matrix + jitter[..., None, None] * identity


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
    tril = ops.broadcast_to(tril, (*batch, *ops.shape(tril)[-2:]))
    columns = ops.broadcast_to(columns, (*batch, *ops.shape(columns)[-2:]))
    if transposed:
        return ops.solve_triangular(ops.swapaxes(tril, -1, -2), columns, lower=False)
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
    diagonal = ops.diagonal(tril, axis1=-2, axis2=-1)
    return ops.sum(ops.log(diagonal), axis=-1)


def log_det(tril):
    """The log-determinant of tril tril^T, of shape `[...]`."""
    return 2.0 * half_log_det(tril)
