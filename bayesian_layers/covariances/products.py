"""Products of all pairs: of rows, and of their distances."""

from keras import ops


def inner_products(x, z):
    """Returns the inner products of rows, `[..., n, m]`."""
    return ops.matmul(x, ops.swapaxes(z, -1, -2))


def centred(x, z=None):
    """Returns x and z (or `None`) relative to the mean of z (or of x).

    Distances stay; what is lost of them to rounding is all the less, the nearer the
    origin: of large inputs when they are scaled, of all when |x|^2 + |z|^2 - 2 x z
    cancels.
    """
    centre = ops.mean(x if z is None else z, axis=-2, keepdims=True)
    centre = ops.stop_gradient(centre)
    return x - centre, None if z is None else z - centre


def squared_distances(x, z=None, smallest=0.0):
    """Returns the squared distances of rows, by one matrix product.

    Args:
        x: Of shape `[..., n, D]`; see `centred`.
        z: Of shape `[..., m, D]`; `None` is x, whose distances from itself are then
            exactly zero on the diagonal, with no gradient there.
        smallest: What is returned for distances below it, with no gradient: who takes
            roots gives a positive one.

    Returns:
        A tensor of shape `[..., n, m]`.
    """
    other = x if z is None else z
    if x.shape[-1] == 1:
        squares = ops.square(x - ops.swapaxes(other, -1, -2))
        return ops.maximum(squares, smallest) if smallest else squares
    squares = _squared_norms(x) + ops.swapaxes(_squared_norms(other), -1, -2)
    squares = squares + inner_products(-2.0 * x, other)
    if z is None:
        squares = with_diagonal(squares, 0.0)
    return ops.maximum(squares, smallest)


def _squared_norms(x):
    return ops.sum(ops.square(x), axis=-1, keepdims=True)


def with_diagonal(matrix, value):
    """Returns square matrices with another diagonal."""
    return ops.where(is_diagonal(ops.shape(matrix)[-1]), value, matrix)


def is_diagonal(size):
    """Returns a Boolean matrix that is true on the diagonal."""
    index = ops.arange(size)
    return ops.equal(index[:, None], index)
