"""Shifts and scales, given or trained."""

import numpy as np
from keras import ops

from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer


class _Affine(ReversibleLayer):
    """Base of the layers that shift, or scale, or both."""

    def __init__(self, given, **kwargs):
        super().__init__(**kwargs)
        self._given = {name: _constant(name, value) for name, value in given.items()}
        self._shape = None

    def build(self, inputs_shape, context_shape=None):
        """Makes a weight for each element of the last axis, of what is not given."""
        super().build(inputs_shape)
        shape = tuple(inputs_shape[-1:])
        is_trained = any(value is None for value in self._given.values())
        self._shape = shape if is_trained else None
        if self._is_trained("shift"):
            self.shift = self.add_weight(shape, "zeros", name="shift", autocast=False)
        if self._is_trained("scale"):
            self.log_scale = self.add_weight(
                shape, "zeros", name="log_scale", autocast=False
            )

    def _built_shape(self):
        return self._shape

    def _is_trained(self, name):
        return name in self._given and self._given[name] is None

    def _shift_and_log_scale(self, x):
        shift, log_scale = 0.0, ops.zeros((), x.dtype)
        sign = 1.0
        if "shift" in self._given:
            given = self._given["shift"]
            shift = self.shift if given is None else given
            shift = ops.convert_to_tensor(shift, x.dtype)
        if "scale" in self._given:
            given = self._given["scale"]
            if given is None:
                log_scale = ops.convert_to_tensor(self.log_scale, x.dtype)
            else:
                log_scale = ops.convert_to_tensor(np.log(np.abs(given)), x.dtype)
                sign = ops.convert_to_tensor(np.sign(given), x.dtype)
        return shift, log_scale, sign

    def forward_and_log_det(self, x):
        """Returns y and log |dy / dx|."""
        shift, log_scale, sign = self._shift_and_log_scale(x)
        y = shift + sign * ops.exp(log_scale) * x
        return y, log_scale + ops.zeros_like(y)

    def reverse_and_log_det(self, y):
        """Returns x and log |dx / dy|."""
        shift, log_scale, sign = self._shift_and_log_scale(y)
        x = (y - shift) * sign * ops.exp(-log_scale)
        return x, ops.zeros_like(x) - log_scale

    def get_config(self):
        """Returns the constructor's arguments."""
        given = {n: None if v is None else v.tolist() for n, v in self._given.items()}
        return {**super().get_config(), **given}


def _constant(name, value):
    if value is None:
        return None
    value = np.asarray(ops.convert_to_numpy(value), "float64")
    if name == "scale" and np.any(value == 0.0):
        raise ValueError(f"A scale has to be other than zero. Received: {name}={value}")
    return value


@register
class Affine(_Affine):
    """shift + scale * x, of numbers that are given or trained.

    With the mean and the standard deviation of data it is what undoes their
    standardization: the last layer of a flow. Trained, there is a shift and the
    logarithm of a positive scale for each element of the last axis, which start at
    zero: the identity.

    Args:
        shift: A number or an array that broadcasts with the inputs. Defaults to a
            trained vector.
        scale: The same, nothing of it zero. Defaults to a trained vector.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.Affine(1.0, 2.0)(bl.Normal(0.0, 1.0))
    >>> round(float(y.log_prob(1.0)), 4)
    -1.6121
    """

    def __init__(self, shift=None, scale=None, **kwargs):
        super().__init__({"shift": shift, "scale": scale}, **kwargs)


@register
class Shift(_Affine):
    """shift + x, of numbers that are given or trained.

    Args:
        shift: A number or an array that broadcasts with the inputs. Defaults to a
            trained vector, which starts at zero.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.Shift()
    >>> ops.shape(layer(np.zeros((8, 3), "float32"))), len(layer.weights)
    ((8, 3), 1)
    """

    def __init__(self, shift=None, **kwargs):
        super().__init__({"shift": shift}, **kwargs)


@register
class Scale(_Affine):
    """scale * x, of numbers that are given or trained.

    Args:
        scale: A number or an array that broadcasts with the inputs, nothing of it zero.
            Defaults to a trained vector of positive numbers, which start at one.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.Scale(-2.0)(np.ones((1, 1), "float32"))
    >>> float(y[0, 0])
    -2.0
    """

    def __init__(self, scale=None, **kwargs):
        super().__init__({"scale": scale}, **kwargs)
