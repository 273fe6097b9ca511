"""Maps of single numbers.

Their values stay strictly inside of their `image`, also where they are rounded.
"""

import math

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.functions import LOG_2, bounded_exp, logit, tiny
from bayesian_layers.distributions.transforms.contract import Transform, register


def _between(y, low, high):
    """`y` strictly between the ends of an open interval, whatever was rounded."""
    dtype = keras.backend.standardize_dtype(y.dtype)
    ends = np.nextafter(np.array([low, high], dtype), np.array([high, low], dtype))
    # The number next to zero is not a normal one, and may count as zero.
    return ops.clip(y, float(ends[0]) if low else tiny(dtype), float(ends[1]))


class Monotone(Transform):
    """Base of the elementwise, monotone maps of the real line.

    A subclass writes `__call__`, `reverse` and `log_det_jacobian`, and says what the
    `image` is, and whether the map is `increasing`.
    """

    increasing = True

    def forward_and_log_det(self, x):
        """Returns y and log |dy / dx|."""
        return self(x), self.log_det_jacobian(x)

    def reverse_and_log_det(self, y):
        """Returns x and log |dx / dy|."""
        x = self.reverse(y)
        return x, -self.log_det_jacobian(x)


@register
class Identity(Monotone):
    """x: real numbers to themselves."""

    def __call__(self, x):
        """Returns x."""
        return x

    def reverse(self, y):
        """Returns y."""
        return y

    def log_det_jacobian(self, x):
        """Returns 0."""
        return ops.zeros_like(x)


@register
class Exp(Monotone):
    """The exponential: real numbers to positive ones."""

    image = constraints.positive

    def __call__(self, x):
        """Returns exp(x), held between the smallest and the largest number."""
        x = ops.convert_to_tensor(x)
        return bounded_exp(x, keras.backend.standardize_dtype(x.dtype))

    def reverse(self, y):
        """Returns log(y)."""
        return ops.log(y)

    def log_det_jacobian(self, x):
        """Returns x."""
        return x


@register
class Softplus(Monotone):
    """low + log(1 + exp(x)): real numbers to those above `low`, linear for large x.

    Args:
        low: A Python number. Defaults to 0.
    """

    def __init__(self, low=0.0):
        self.low = low

    @property
    def image(self):
        """The numbers above `low`."""
        return constraints.GreaterThan(self.low) if self.low else constraints.positive

    def __call__(self, x):
        """Returns low + log(1 + exp(x))."""
        return _between(self.low + ops.softplus(x), self.low, np.inf)

    def reverse(self, y):
        """Returns log(exp(y) - 1), as y + log(1 - exp(-y)), of y - low."""
        y = y - self.low
        return y + ops.log(-ops.expm1(-y))

    def log_det_jacobian(self, x):
        """Returns log sigmoid(x)."""
        return ops.log_sigmoid(x)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"low": self.low}


@register
class Sigmoid(Monotone):
    """1 / (1 + exp(-x)): real numbers to the unit interval."""

    image = constraints.OpenInterval(0.0, 1.0)

    def __call__(self, x):
        """Returns 1 / (1 + exp(-x))."""
        return _between(ops.sigmoid(x), 0.0, 1.0)

    def reverse(self, y):
        """Returns log(y / (1 - y))."""
        return logit(y)

    def log_det_jacobian(self, x):
        """Returns log sigmoid(x) + log sigmoid(-x)."""
        return ops.log_sigmoid(x) + ops.log_sigmoid(-x)


@register
class Tanh(Monotone):
    """The hyperbolic tangent: real numbers to (-1, 1)."""

    image = constraints.OpenInterval(-1.0, 1.0)

    def __call__(self, x):
        """Returns tanh(x)."""
        return _between(ops.tanh(x), -1.0, 1.0)

    def reverse(self, y):
        """Returns arctanh(y)."""
        return ops.arctanh(y)

    def log_det_jacobian(self, x):
        """Returns log(1 - tanh(x)**2), which is log(4 sigmoid(2x) sigmoid(-2x))."""
        return 2.0 * LOG_2 + ops.log_sigmoid(2.0 * x) + ops.log_sigmoid(-2.0 * x)


@register
class Affine(Monotone):
    """loc + scale * x.

    Args:
        loc: A Python number.
        scale: A Python number, not zero.
    """

    def __init__(self, loc=0.0, scale=1.0):
        if not all(isinstance(value, (int, float)) for value in (loc, scale)):
            raise ValueError(
                "Affine expects `loc` and `scale` to be Python numbers. "
                f"Received: loc={loc}, scale={scale}"
            )
        if scale == 0.0:
            raise ValueError(f"Affine expects a nonzero scale. Received: scale={scale}")
        self.loc = loc
        self.scale = scale

    @property
    def increasing(self):
        """Whether the scale is positive."""
        return self.scale > 0.0

    def __call__(self, x):
        """Returns loc + scale * x."""
        return self.loc + self.scale * x

    def reverse(self, y):
        """Returns (y - loc) / scale."""
        return (y - self.loc) / self.scale

    def log_det_jacobian(self, x):
        """Returns log |scale|."""
        return math.log(abs(self.scale)) + ops.zeros_like(x)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"loc": self.loc, "scale": self.scale}


@register
class Bounded(Monotone):
    """Real numbers to those between two ends, either of which may be infinite.

    low + (high - low) * sigmoid(x), low + exp(x), high - exp(-x), or x

    Args:
        low: The lower end, a number or a tensor. Defaults to minus infinity.
        high: The upper end, above `low`. Defaults to infinity.

    Example:
    >>> above_two = bl.distributions.transforms.Bounded(2.0)
    >>> round(float(above_two(0.0)), 4)
    3.0
    """

    def __init__(self, low=-np.inf, high=np.inf):
        self.low = low
        self.high = high

    @property
    def image(self):
        """The numbers between `low` and `high`."""
        return constraints.OpenInterval(self.low, self.high)

    def _ends(self, x):
        """The ends, zero in place of infinities, and which are infinite."""
        ends = [ops.convert_to_tensor(end, x.dtype) for end in (self.low, self.high)]
        infinite = [ops.isinf(end) for end in ends]
        finite = [ops.where(i, 0.0, e) for i, e in zip(infinite, ends, strict=True)]
        return (*finite, *infinite)

    def __call__(self, x):
        """Returns the value between the ends."""
        x = ops.convert_to_tensor(x)
        dtype = keras.backend.standardize_dtype(x.dtype)
        low, high, no_low, no_high = self._ends(x)
        # From the nearer end, so that no value is lost in rounding next to it.
        width = high - low
        left, right = low + width * ops.sigmoid(x), high - width * ops.sigmoid(-x)
        between = ops.where(x < 0.0, left, right)
        above, below = low + bounded_exp(x, dtype), high - bounded_exp(-x, dtype)
        y = _choose(no_low, no_high, between, above, below, x)
        # Off the ends, which are no values, by what a rounded sum can tell.
        gap = float(np.finfo(dtype).eps)
        least = ops.where(no_low, -np.inf, low + gap * ops.abs(low))
        largest = ops.where(no_high, np.inf, high - gap * ops.abs(high))
        return ops.maximum(ops.minimum(y, largest), least)

    def reverse(self, y):
        """Returns log(y - low) - log(high - y), without what is infinite."""
        y = ops.convert_to_tensor(y)
        low, high, no_low, no_high = self._ends(y)
        smallest = tiny(keras.backend.standardize_dtype(y.dtype))
        above = ops.log(ops.maximum(y - low, smallest))
        below = ops.log(ops.maximum(high - y, smallest))
        return _choose(no_low, no_high, above - below, above, -below, y)

    def log_det_jacobian(self, x):
        """Returns the logarithm of the slope."""
        x = ops.convert_to_tensor(x)
        low, high, no_low, no_high = self._ends(x)
        width = ops.where(ops.logical_or(no_low, no_high), 1.0, high - low)
        between = ops.log(width) + ops.log_sigmoid(x) + ops.log_sigmoid(-x)
        return _choose(no_low, no_high, between, x, -x, ops.zeros_like(x))

    def get_config(self):
        """Returns the constructor's arguments; tensors become lists."""
        return {name: _as_config(value) for name, value in vars(self).items()}


def _choose(no_low, no_high, between, above, below, all_numbers):
    """One of four, by which ends there are none of."""
    with_low = ops.where(no_high, above, between)
    return ops.where(no_low, ops.where(no_high, all_numbers, below), with_low)


def _as_config(value):
    is_number = isinstance(value, (int, float))
    return value if is_number else ops.convert_to_numpy(value).tolist()
