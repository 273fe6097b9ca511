"""Maps to vectors and matrices."""

import math

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.functions import tiny
from bayesian_layers.distributions.transforms.contract import Transform, register
from bayesian_layers.distributions.transforms.elementwise import Exp


@register
class StickBreaking(Transform):
    """Real vectors `[..., k - 1]` to those of `[..., k]` that sum to one.

    y_i = z_i (1 - y_1 - ... - y_{i-1}), with z_i = sigmoid(x_i - log(k - i)):
    each takes a share of what the earlier ones have left; zeros become equal parts.
    Volumes are those of the first k - 1 elements, as in the density of a `Dirichlet`:
    log |det| = log y_1 + ... + log y_k.

    Example:
    >>> y = bl.distributions.transforms.StickBreaking()(np.zeros((2, 3), "float32"))
    >>> ops.shape(y), round(float(y[0, 0]), 4)
    ((2, 4), 0.25)
    """

    event_rank = 1
    domain = constraints.real_vector
    image = constraints.simplex

    def forward_and_log_det(self, x):
        """Returns y and the sum of its logarithms."""
        x = ops.convert_to_tensor(x)
        shares = x - _log_equal_odds(x)
        left = ops.cumsum(ops.log_sigmoid(-shares), axis=-1)
        none = ops.zeros_like(left[..., :1])
        log_y = ops.concatenate([ops.log_sigmoid(shares), none], axis=-1)
        log_y = log_y + ops.concatenate([none, left], axis=-1)
        return _positive(ops.exp(log_y)), ops.sum(log_y, axis=-1)

    def reverse_and_log_det(self, y):
        """Returns x and minus the sum of the logarithms of y."""
        y = _positive(ops.convert_to_tensor(y))
        # What is left after each, summed from the end: no differences of near numbers.
        left = ops.flip(ops.cumsum(ops.flip(y[..., 1:], axis=-1), axis=-1), axis=-1)
        x = ops.log(y[..., :-1]) - ops.log(left)
        return x + _log_equal_odds(x), -ops.sum(ops.log(y), axis=-1)

    def forward_shape(self, shape):
        """Returns `[..., k]` for `[..., k - 1]`."""
        return (*shape[:-1], shape[-1] + 1)

    def reverse_shape(self, shape):
        """Returns `[..., k - 1]` for `[..., k]`."""
        return (*shape[:-1], shape[-1] - 1)


def _positive(y):
    return ops.maximum(y, tiny("float32"))


def _log_equal_odds(x):
    """log(k - i): the odds against the i-th share in equal parts."""
    return ops.log(ops.arange(x.shape[-1], 0, -1, dtype=x.dtype))


@register
class LowerTriangular(Transform):
    """Real vectors to lower triangular matrices with a positive diagonal.

    `[..., n * (n + 1) / 2] -> [..., n, n]`: first what the diagonal is made of, then
    what is below it, row by row.

    Args:
        diagonal: The elementwise map that makes the diagonal. Defaults to `Exp()`.
        ratio: An elementwise map. If it is given, it makes the elements below the
            diagonal as multiples of that of their row: L = diag(d) (I + A).

    Example:
    >>> L = bl.distributions.transforms.LowerTriangular()(np.zeros(3, "float32"))
    >>> ops.convert_to_numpy(L).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    event_rank = 1
    output_rank = 2
    domain = constraints.real_vector
    image = constraints.lower_triangular

    def __init__(self, diagonal=None, ratio=None):
        self.diagonal = Exp() if diagonal is None else diagonal
        self.ratio = ratio

    def __call__(self, x):
        """Returns the matrices."""
        x = ops.convert_to_tensor(x)
        size = _rows(x.shape[-1])
        diagonal, below = self.diagonal(x[..., :size]), x[..., size:]
        if self.ratio is not None:
            below = _of_rows(diagonal) * self.ratio(below)
        return fill_triangular(diagonal, below)

    def forward_and_log_det(self, x):
        """Returns the matrices, and the sum of the logarithms of the slopes."""
        x = ops.convert_to_tensor(x)
        size = _rows(x.shape[-1])
        log_det = ops.sum(self.diagonal.log_det_jacobian(x[..., :size]), axis=-1)
        if self.ratio is not None:
            ratios = self.ratio.log_det_jacobian(x[..., size:])
            rows = ops.log(_of_rows(self.diagonal(x[..., :size])))
            log_det = log_det + ops.sum(ratios + rows, axis=-1)
        return self(x), log_det

    def reverse(self, y):
        """Returns the vectors."""
        y = ops.convert_to_tensor(y)
        size = y.shape[-1]
        flat = ops.reshape(y, (*ops.shape(y)[:-2], size * size))
        rows, columns = np.tril_indices(size, -1)
        below = ops.take(flat, rows * size + columns, axis=-1)
        diagonal = ops.diagonal(y, axis1=-2, axis2=-1)
        if self.ratio is not None:
            below = self.ratio.reverse(below / _of_rows(diagonal))
        return ops.concatenate([self.diagonal.reverse(diagonal), below], axis=-1)

    def reverse_and_log_det(self, y):
        """Returns the vectors, and the log-determinant."""
        x = self.reverse(y)
        return x, -self.log_det_jacobian(x)

    def forward_shape(self, shape):
        """Returns `[..., n, n]` for `[..., n * (n + 1) / 2]`."""
        size = _rows(shape[-1])
        return (*shape[:-1], size, size)

    def reverse_shape(self, shape):
        """Returns `[..., n * (n + 1) / 2]` for `[..., n, n]`."""
        return (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            name: keras.saving.serialize_keras_object(value)
            for name, value in vars(self).items()
        }


def _of_rows(diagonal):
    """The element of the diagonal of the row of each element below it."""
    rows, _ = np.tril_indices(diagonal.shape[-1], -1)
    return ops.take(diagonal, rows, axis=-1)


def _rows(elements):
    """The number of rows of a triangle of so many elements."""
    size = (math.isqrt(8 * elements + 1) - 1) // 2
    if size * (size + 1) // 2 != elements:
        raise ValueError(
            "LowerTriangular expects the last axis to have n * (n + 1) / 2 elements: "
            f"1, 3, 6, 10, ... Received: {elements}"
        )
    return size


def fill_triangular(diagonal, below):
    """Lower triangular matrices `[..., n, n]` from their elements.

    Args:
        diagonal: Tensor `[..., n]`.
        below: Tensor `[..., n * (n - 1) / 2]`: what is below it, row by row.
    """
    size = diagonal.shape[-1]
    count = size * (size - 1) // 2
    zeros = ops.zeros_like(diagonal[..., :1])
    elements = ops.concatenate([below, diagonal, zeros], axis=-1)
    index = np.full((size, size), count + size)
    index[np.diag_indices(size)] = count + np.arange(size)
    index[np.tril_indices(size, -1)] = np.arange(count)
    matrix = ops.take(elements, index.reshape(-1), axis=-1)
    return ops.reshape(matrix, (*ops.shape(diagonal), size))
