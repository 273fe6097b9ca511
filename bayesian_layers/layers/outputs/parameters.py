"""Parameters of distributions from any real numbers."""

import numpy as np
from keras import ops

# Small against any scale that data have, and large enough for its square and its
# logarithm to be far from the ends of float32.
FLOOR = 1e-5
# Beyond it a ratio of elements of a covariance's factor says nothing more.
LARGEST_RATIO = 10.0


def positive(x):
    """Returns softplus(x), kept above a small number."""
    return ops.softplus(x) + FLOOR


def ratio(x):
    """Returns a number between -10 and 10, near x where that is small."""
    return LARGEST_RATIO * ops.tanh(x / LARGEST_RATIO)


def scale_tril(x, size):
    """Returns a lower triangular matrix with a positive diagonal.

    L = diag(d) (I + A), with d = positive(...) and A below the diagonal: relative to
    the diagonal, and bounded, so that no input makes it singular.

    Args:
        x: Tensor `[..., size * (size + 1) / 2]`: first the diagonal, then the elements
            below it, row by row.
        size: The number of rows.
    """
    diagonal, below = x[..., :size], ratio(x[..., size:])
    ones = ops.ones_like(diagonal[..., :1])
    zeros = ops.zeros_like(ones)
    elements = ops.concatenate([below, ones, zeros], axis=-1)
    count = size * (size - 1) // 2
    index = np.full((size, size), count + 1)
    index[np.diag_indices(size)] = count
    index[np.tril_indices(size, -1)] = np.arange(count)
    unit = ops.take(elements, index.reshape(-1), axis=-1)
    unit = ops.reshape(unit, (*ops.shape(diagonal), size))
    return positive(diagonal)[..., None] * unit
