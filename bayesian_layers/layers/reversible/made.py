"""Networks whose outputs each depend on the inputs before them."""

import keras
import numpy as np
from keras import ops

from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.elementwise import permutation_of

_ORDERS = {
    "left-to-right": range,
    "right-to-left": lambda size: range(size - 1, -1, -1),
}


@register
class MADE(keras.Layer):
    """A network whose outputs of an element depend only on the elements before it.

    h_1 = activation(W_1 x), ..., y = W_n h, where the kernels are multiplied by masks
    of zeros and ones each time: y_i is a function of the x_j that come before i in the
    order, exactly, also after training. Hidden units are shared out evenly among the
    numbers of elements that they see. It is the network of autoregressive layers:
    `bl.layers.RealNVP`, `bl.layers.MaskedAutoregressiveFlow`,
    `bl.layers.SplineAutoregressiveFlow`.

    Inputs are `[..., elements]`; outputs `[..., elements, units]`, or
    `[..., elements]` with `units=None`.

    Args:
        units: The number of outputs of each element. Defaults to `None`: one, without
            an axis of its own, or in an autoregressive layer as many as that needs.
        hidden_dims: The numbers of hidden units, one for each hidden layer. Defaults to
            none: a linear map.
        order: In which order elements depend on each other: `"left-to-right"` (the
            default), `"right-to-left"`, `"random"`, or a permutation, the indices of
            the elements from the first to the last.
        activation: As in `keras.layers.Dense`, of the hidden layers. Defaults to
            `"relu"`.
        kernel_initializer: As in `keras.layers.Dense`. In an autoregressive layer the
            last kernel starts at zero.
        seed: Integer: which random order. Defaults to 0.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> network = bl.layers.MADE(2, hidden_dims=[16])
    >>> ops.shape(network(np.zeros((8, 3), "float32")))
    (8, 3, 2)

    Reference: Germain et al. (2015), MADE: masked autoencoder for distribution
    estimation.
    """

    def __init__(
        self,
        units=None,
        hidden_dims=(),
        order="left-to-right",
        activation="relu",
        kernel_initializer="glorot_uniform",
        *,
        seed=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        hidden_dims = [int(size) for size in hidden_dims]
        if units is not None and units < 1 or any(size < 1 for size in hidden_dims):
            raise ValueError(
                "MADE expects positive numbers of units. "
                f"Received: units={units}, hidden_dims={hidden_dims}"
            )
        self.units = units
        self.hidden_dims = hidden_dims
        self.order = order if isinstance(order, str) else [int(i) for i in order]
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self._asked = None
        self.element_order = None

    def ask(self, units, user):
        """Asks for a number of outputs, for an autoregressive layer."""
        has = self._asked or self.units or (1 if self.built else units)
        if has != units:
            raise ValueError(
                f"{user} needs {units} outputs of each element from its MADE. "
                f"Received: a MADE of {has}. Give it one that was not called yet, and "
                "has no `units`."
            )
        self._asked = units

    def build(self, inputs_shape, context_shape=None):
        """Makes kernels, biases and masks."""
        if not inputs_shape or inputs_shape[-1] is None:
            raise ValueError(
                "MADE expects inputs with a last axis of known size, the elements. "
                f"Received: a shape of {tuple(inputs_shape)}"
            )
        size = inputs_shape[-1]
        self._size = size
        self._context_size = 0 if context_shape is None else context_shape[-1]
        self.element_order = permutation_of(
            size, self.order, _ORDERS, self.seed, "MADE", "order"
        )
        degrees = self._degrees()
        self._masks, self._kernels, self._biases = [], [], []
        for i, (before, after) in enumerate(zip(degrees, degrees[1:], strict=False)):
            is_last = i == len(degrees) - 2
            # An output is before its own input: it must not see it.
            sees = np.less if is_last else np.less_equal
            self._masks.append(sees(before[:, None], after[None]).astype("float32"))
            start = "zeros" if is_last and self._asked else self.kernel_initializer
            self._kernels.append(
                self.add_weight((len(before), len(after)), start, name=f"kernel_{i}")
            )
            self._biases.append(
                self.add_weight((len(after),), "zeros", name=f"bias_{i}")
            )

    def _degrees(self):
        """The number of elements that each unit sees, layer by layer, less one."""
        positions = np.empty(self._size, int)
        positions[self.element_order] = np.arange(self._size)
        # A context comes before all elements; some hidden units see nothing else.
        first = -1 if self._context_size else 0
        levels = np.arange(first, max(self._size - 1, first + 1))
        degrees = [np.concatenate([positions, np.full(self._context_size, -1)])]
        for size in self.hidden_dims:
            degrees.append(np.sort(np.resize(levels, size)))
        return [*degrees, np.repeat(positions, self._asked or self.units or 1)]

    def call(self, inputs, context=None):
        """Returns the outputs of each element."""
        self._check(inputs, context)
        h = inputs
        if context is not None:
            shape = (*ops.shape(inputs)[:-1], self._context_size)
            h = ops.concatenate([h, ops.broadcast_to(context, shape)], axis=-1)
        last = len(self._kernels) - 1
        layers = zip(self._kernels, self._masks, self._biases, strict=True)
        for i, (kernel, mask, bias) in enumerate(layers):
            kernel = ops.convert_to_tensor(kernel)
            h = ops.matmul(h, kernel * ops.cast(mask, kernel.dtype)) + bias
            h = h if i == last else self.activation(h)
        units = self._asked or self.units
        if units is None:
            return h
        return ops.reshape(h, (*ops.shape(inputs), units))

    def _check(self, inputs, context):
        given = 0 if context is None else context.shape[-1]
        if inputs.shape[-1] != self._size:
            raise ValueError(
                f"MADE expects inputs of {self._size} elements. "
                f"Received: inputs.shape={tuple(inputs.shape)}"
            )
        if given != self._context_size:
            raise ValueError(
                f"MADE expects a context of {self._context_size} numbers, as it was "
                f"built for. Received: a context of {given}."
            )

    def compute_output_shape(self, inputs_shape, context_shape=None):
        """Returns the shape of the outputs."""
        units = self._asked or self.units
        return tuple(inputs_shape) if units is None else (*inputs_shape, units)

    def compute_output_spec(self, inputs, context=None):
        """Returns the shape and dtype of the outputs."""
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, self.compute_dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        initializer = keras.initializers.serialize(self.kernel_initializer)
        return {
            **super().get_config(),
            # A network that is loaded is built before anybody asks.
            "units": self._asked or self.units,
            "hidden_dims": self.hidden_dims,
            "order": self.order,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": initializer,
            "seed": self.seed,
        }
