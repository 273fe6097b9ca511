"""Reversible layers of single numbers, without weights: maps as layers."""

import math

from keras import ops

from bayesian_layers.distributions import transforms
from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer


class MapLayer(ReversibleLayer):
    """Base of the layers of an elementwise map of `bl.distributions.transforms`."""

    def __init__(self, elementwise, **kwargs):
        super().__init__(**kwargs)
        self._map = elementwise

    domain = property(lambda self: self._map.domain)
    image = property(lambda self: self._map.image)
    increasing = property(lambda self: self._map.increasing)

    def forward_and_log_det(self, x):
        """Returns y and log |dy / dx|."""
        return self._map.forward_and_log_det(x)

    def reverse_and_log_det(self, y):
        """Returns x and log |dx / dy|."""
        return self._map.reverse_and_log_det(y)


@register
class Exp(MapLayer):
    """The exponential of each number: positive outputs. Its reverse is the logarithm.

    Args:
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.Exp()(bl.Normal(0.0, 1.0))
    >>> round(float(y.log_prob(2.0)), 4)
    -1.8523
    """

    def __init__(self, **kwargs):
        super().__init__(transforms.Exp(), **kwargs)


@register
class Softplus(MapLayer):
    """low + log(1 + exp(x)) of each number: outputs above `low`.

    Args:
        low: A Python number. Defaults to 0.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.Softplus()(np.zeros((1, 1), "float32"))
    >>> round(float(y[0, 0]), 4)
    0.6931
    """

    def __init__(self, low=0.0, **kwargs):
        super().__init__(transforms.Softplus(low), **kwargs)
        self.low = low

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "low": self.low}


@register
class Sigmoid(MapLayer):
    """1 / (1 + exp(-x)) of each number: outputs between 0 and 1.

    Args:
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.Sigmoid()(bl.Normal(0.0, 1.0))
    >>> round(float(y.cdf(0.5)), 4)
    0.5
    """

    def __init__(self, **kwargs):
        super().__init__(transforms.Sigmoid(), **kwargs)


@register
class Tanh(MapLayer):
    """The hyperbolic tangent of each number: outputs between -1 and 1.

    Args:
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.Tanh()(bl.Normal(0.0, 1.0))
    >>> float(y.log_prob(2.0))
    -inf
    """

    def __init__(self, **kwargs):
        super().__init__(transforms.Tanh(), **kwargs)


@register
class Logit(MapLayer):
    """log(x / (1 - x)) of each number between 0 and 1: outputs are all real numbers.

    Args:
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.Logit()(bl.Uniform(0.0, 1.0))  # a logistic distribution
    >>> round(float(y.log_prob(0.0)), 4)
    -1.3863
    """

    def __init__(self, **kwargs):
        super().__init__(transforms.Reverse(transforms.Sigmoid()), **kwargs)


@register
class LeakyReLU(ReversibleLayer):
    """x for positive numbers, `negative_slope` times x for negative ones.

    `keras.layers.LeakyReLU`, with a reverse.

    Args:
        negative_slope: A positive Python number. Defaults to 0.3, as in Keras.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.LeakyReLU(0.5)(np.array([[-2.0, 3.0]], "float32"))
    >>> ops.convert_to_numpy(y).tolist()
    [[-1.0, 3.0]]
    """

    increasing = True

    def __init__(self, negative_slope=0.3, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(negative_slope, (int, float)) or negative_slope <= 0.0:
            raise ValueError(
                "LeakyReLU expects a positive number as `negative_slope`: otherwise "
                f"it has no reverse. Received: negative_slope={negative_slope}"
            )
        self.negative_slope = negative_slope

    def forward_and_log_det(self, x):
        """Returns y and log |dy / dx|."""
        return self._scaled(x, self.negative_slope)

    def reverse_and_log_det(self, y):
        """Returns x and log |dx / dy|."""
        return self._scaled(y, 1.0 / self.negative_slope)

    def _scaled(self, x, slope):
        is_negative = ops.cast(x < 0.0, x.dtype)
        return x * (1.0 + (slope - 1.0) * is_negative), math.log(slope) * is_negative

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "negative_slope": self.negative_slope}


@register
class Permute(ReversibleLayer):
    """The elements of vectors in another order: y_i = x_{permutation[i]}.

    Between layers that treat the elements differently, as coupling layers do. (The axes
    of arrays are permuted by `keras.layers.Permute`.)

    Args:
        permutation: The indices of the last axis in their new order, or one of
            `"reverse"` (the default) and `"random"`.
        seed: Integer: which random permutation. Defaults to 0.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> y = bl.layers.Permute([1, 2, 0])(np.array([[10.0, 11.0, 12.0]], "float32"))
    >>> ops.convert_to_numpy(y).tolist()
    [[11.0, 12.0, 10.0]]
    """

    event_rank = 1

    def __init__(self, permutation="reverse", *, seed=0, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(permutation, str):
            permutation = [int(index) for index in permutation]
        self.permutation = permutation
        self.seed = seed
        self._order = None

    def build(self, inputs_shape, context_shape=None):
        """Finds the permutation of as many elements as there are."""
        super().build(inputs_shape)
        self._order = permutation_of(
            inputs_shape[-1],
            self.permutation,
            {"reverse": lambda size: range(size - 1, -1, -1)},
            self.seed,
            "Permute",
            "permutation",
        )

    def _built_shape(self):
        return None if self._order is None else (len(self._order),)

    def forward_and_log_det(self, x):
        """Returns y, and zeros."""
        return ops.take(x, self._order, axis=-1), ops.zeros_like(x[..., 0])

    def reverse_and_log_det(self, y):
        """Returns x, and zeros."""
        inverse = [0] * len(self._order)
        for position, index in enumerate(self._order):
            inverse[index] = position
        return ops.take(y, inverse, axis=-1), ops.zeros_like(y[..., 0])

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {"permutation": self.permutation, "seed": self.seed}
        return {**super().get_config(), **config}


def permutation_of(size, given, named, seed, user, argument):
    """Returns a permutation of `size` elements, a list.

    Args:
        size: The number of elements.
        given: A list of indices, `"random"` or one of the names in `named`.
        named: Functions from the size to indices, by name.
        seed: Integer: which random one.
        user: The name of the class, for errors.
        argument: The name of its argument, for errors.
    """
    if given == "random":
        import numpy as np

        return [int(i) for i in np.random.default_rng(seed).permutation(size)]
    if isinstance(given, str) and given in named:
        return list(named[given](size))
    if isinstance(given, str) or sorted(given) != list(range(size)):
        names = ", ".join(repr(name) for name in (*named, "random"))
        raise ValueError(
            f"{user} expects `{argument}` to be one of {names}, or a permutation of "
            f"the numbers from 0 to {size - 1}, as there are {size} elements. "
            f"Received: {argument}={given!r}"
        )
    return list(given)


@register
class Reshape(ReversibleLayer):
    """Arrays of another shape, with the same elements: images as vectors, say.

    Args:
        target_shape: Tuple of integers: the shape of an output, without batch axes.
        input_shape: Tuple of integers: that of an input. Defaults to all axes but the
            first of the shape that the layer is built for.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.Reshape((6,))
    >>> ops.shape(layer(np.zeros((8, 2, 3), "float32")))
    (8, 6)
    >>> ops.shape(layer.reverse(np.zeros((8, 6), "float32")))
    (8, 2, 3)
    """

    def __init__(self, target_shape, input_shape=None, **kwargs):
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)
        self._from_shape = None if input_shape is None else tuple(input_shape)
        self._given_shape = self._from_shape

    @property
    def event_rank(self):
        """The number of axes of an input."""
        return len(self._event_of_inputs())

    @property
    def output_rank(self):
        """The number of axes of an output."""
        return len(self.target_shape)

    def _event_of_inputs(self):
        if self._from_shape is None:
            raise ValueError(
                "Reshape has to know the shape that it starts from before it can be "
                "reversed: call it first, or give `input_shape`. "
                f"Received: target_shape={self.target_shape}"
            )
        return self._from_shape

    def build(self, inputs_shape, context_shape=None):
        """Finds the shape of an input."""
        if self._from_shape is None:
            self._from_shape = tuple(inputs_shape[1:])
        if math.prod(self._from_shape) != math.prod(self.target_shape):
            raise ValueError(
                f"Reshape expects inputs of {math.prod(self.target_shape)} elements "
                f"for target_shape={self.target_shape}. Received: an input shape of "
                f"{self._from_shape}"
            )

    def _built_shape(self):
        return self._event_of_inputs()

    def forward_and_log_det(self, x):
        """Returns y, and zeros."""
        return self._reshape(x, self.event_rank, self.target_shape)

    def reverse_and_log_det(self, y):
        """Returns x, and zeros."""
        return self._reshape(y, self.output_rank, self._from_shape)

    def _reshape(self, x, rank, shape):
        batch = ops.shape(x)[: len(x.shape) - rank]
        return ops.reshape(x, (*batch, *shape)), ops.zeros(batch, x.dtype)

    def forward_shape(self, shape):
        """Returns the shape of y for an x of this shape."""
        return (*shape[: len(shape) - self.event_rank], *self.target_shape)

    def reverse_shape(self, shape):
        """Returns the shape of x for a y of this shape."""
        batch = shape[: len(shape) - self.output_rank]
        return (*batch, *self._event_of_inputs())

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "target_shape": self.target_shape,
            "input_shape": self._given_shape,
        }
