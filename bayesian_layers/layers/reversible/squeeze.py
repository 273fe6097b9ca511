"""Space for depth."""

from keras import ops

from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer


@register
class Squeeze(ReversibleLayer):
    """Trades space for channels: squares of pixels become channels of one.

    `[..., H, W, C] -> [..., H / n, W / n, n * n * C]`, for squares of n by n pixels. It
    only moves numbers: its log-determinant is zero. Flows on images use it between
    scales; what was near before is in one position afterwards, where couplings and 1x1
    convolutions mix it.

    Args:
        size: The number n of pixels along the side of a square.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> ops.shape(bl.layers.Squeeze()(np.ones((5, 8, 8, 3))))
    (5, 4, 4, 12)

    Reference: Dinh, Sohl-Dickstein and Bengio (2017), Density estimation using
    Real NVP, section 3.6.
    """

    event_rank = 3

    def __init__(self, size=2, **kwargs):
        super().__init__(**kwargs)
        if not (isinstance(size, int) and size > 0):
            raise ValueError(
                f"`size` should be a positive integer. Received: size={size!r}"
            )
        self.size = size

    def forward_and_log_det(self, x):
        """Returns y and zeros."""
        n = self.size
        *batch, height, width, channels = ops.shape(x)
        y = ops.reshape(x, (-1, height // n, n, width // n, n, channels))
        y = ops.transpose(y, (0, 1, 3, 2, 4, 5))
        shape = (*batch, height // n, width // n, n * n * channels)
        return ops.reshape(y, shape), ops.zeros(batch, dtype=x.dtype)

    def reverse_and_log_det(self, y):
        """Returns x and zeros."""
        n = self.size
        *batch, height, width, channels = ops.shape(y)
        x = ops.reshape(y, (-1, height, width, n, n, channels // (n * n)))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
        shape = (*batch, height * n, width * n, channels // (n * n))
        return ops.reshape(x, shape), ops.zeros(batch, dtype=y.dtype)

    def check_shape(self, shape, is_output=False):  # noqa: FBT002
        """Raises `ValueError` if there are no whole squares in a shape."""
        super().check_shape(shape, is_output)
        self.reverse_shape(shape) if is_output else self.forward_shape(shape)

    def forward_shape(self, shape):
        """Returns `[..., H / n, W / n, n * n * C]` for `[..., H, W, C]`."""
        self._check_rank(shape)
        *batch, height, width, channels = shape
        sides = [_divided(side, self.size, shape) for side in (height, width)]
        return (*batch, *sides, self.size**2 * channels)

    def reverse_shape(self, shape):
        """Returns `[..., H, W, C]` for `[..., H / n, W / n, n * n * C]`."""
        self._check_rank(shape)
        *batch, height, width, channels = shape
        sides = [None if s is None else s * self.size for s in (height, width)]
        return (*batch, *sides, _divided(channels, self.size**2, shape))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "size": self.size}


def _divided(number, divisor, shape):
    if number is None:
        return None
    if number % divisor:
        raise ValueError(
            f"Squeeze expects {number} to be a multiple of {divisor}: squares of pixels"
            f" become channels of one. Received: a shape of {tuple(shape)}"
        )
    return number // divisor
