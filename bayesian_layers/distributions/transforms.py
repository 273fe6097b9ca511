"""Invertible maps: the small ones that distributions are transformed by.

The contract is that of the reversible layers: `transform(x)`, `transform.reverse(y)`
and `transform.log_det_jacobian(x)` = log |det d transform(x) / dx|, at the input. Such
an object, with an attribute `event_rank` that says how many trailing axes it acts on
together (zero for elementwise maps), is all that `Transformed` needs. The values of
those here stay strictly inside of their `image`, also where they are rounded.
"""

import math

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.functions import LOG_2, bounded_exp, logit, tiny

__all__ = ["Affine", "Exp", "Sigmoid", "Softplus", "Tanh", "Transform"]

register = keras.saving.register_keras_serializable("bayesian_layers.transforms")


def _between(y, low, high):
    """`y` strictly between the ends of an open interval, whatever was rounded."""
    dtype = keras.backend.standardize_dtype(y.dtype)
    ends = np.nextafter(np.array([low, high], dtype), np.array([high, low], dtype))
    # The number next to zero is not a normal one, and may count as zero.
    return ops.clip(y, float(ends[0]) if low else tiny(dtype), float(ends[1]))


class Transform:
    """Base of the elementwise, monotone maps of the real line.

    A subclass writes `__call__`, `reverse` and `log_det_jacobian`, and says what the
    `image` is, and whether the map is `increasing`.
    """

    event_rank = 0
    increasing = True
    image = constraints.real

    def __call__(self, x):
        raise NotImplementedError

    def reverse(self, y):
        """Returns the x with transform(x) = y."""
        raise NotImplementedError

    def log_det_jacobian(self, x):
        """Returns log |d transform(x) / dx|, elementwise."""
        raise NotImplementedError

    def __eq__(self, other):
        return type(self) is type(other) and self.get_config() == other.get_config()

    def __hash__(self):
        return hash((type(self), repr(self.get_config())))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {}

    @classmethod
    def from_config(cls, config):
        """Makes a transform from what `get_config` returned."""
        return cls(**config)


@register
class Exp(Transform):
    """The exponential: real numbers to positive ones."""

    image = constraints.positive

    def __call__(self, x):
        return bounded_exp(x, keras.backend.standardize_dtype(x.dtype))

    def reverse(self, y):
        """Returns log(y)."""
        return ops.log(y)

    def log_det_jacobian(self, x):
        """Returns x."""
        return x


@register
class Softplus(Transform):
    """log(1 + exp(x)): real numbers to positive ones, linear for large x."""

    image = constraints.positive

    def __call__(self, x):
        return _between(ops.softplus(x), 0.0, np.inf)

    def reverse(self, y):
        """Returns log(exp(y) - 1), as y + log(1 - exp(-y))."""
        return y + ops.log(-ops.expm1(-y))

    def log_det_jacobian(self, x):
        """Returns log sigmoid(x)."""
        return ops.log_sigmoid(x)


@register
class Sigmoid(Transform):
    """1 / (1 + exp(-x)): real numbers to the unit interval."""

    image = constraints.OpenInterval(0.0, 1.0)

    def __call__(self, x):
        return _between(ops.sigmoid(x), 0.0, 1.0)

    def reverse(self, y):
        """Returns log(y / (1 - y))."""
        return logit(y)

    def log_det_jacobian(self, x):
        """Returns log sigmoid(x) + log sigmoid(-x)."""
        return ops.log_sigmoid(x) + ops.log_sigmoid(-x)


@register
class Tanh(Transform):
    """The hyperbolic tangent: real numbers to (-1, 1)."""

    image = constraints.OpenInterval(-1.0, 1.0)

    def __call__(self, x):
        return _between(ops.tanh(x), -1.0, 1.0)

    def reverse(self, y):
        """Returns arctanh(y)."""
        return ops.arctanh(y)

    def log_det_jacobian(self, x):
        """Returns log(1 - tanh(x)**2), which is log(4 sigmoid(2x) sigmoid(-2x))."""
        return 2.0 * LOG_2 + ops.log_sigmoid(2.0 * x) + ops.log_sigmoid(-2.0 * x)


@register
class Affine(Transform):
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
        self.increasing = scale > 0.0

    def __call__(self, x):
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
