"""Reversible layers whose parameters a network computes: couplings, autoregression."""

import keras
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.layers.reversible.made import MADE
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer


class ConditionedLayer(ReversibleLayer):
    """Base of layers that map each element by parameters that a network computes.

    A subclass has a network and an elementwise map (see `elementwise_maps.py`). An
    ordinary network sees half of the elements, which are kept, and the others are
    mapped: a coupling. A `bl.layers.MADE` sees all, and each is mapped by those before
    it.

    The network runs once for value and log-determinant, on `[examples, numbers]`,
    whatever the batch axes are. Layers that make examples depend on each other are
    refused.

    Args:
        network: A Keras layer or model.
        elementwise: The elementwise map.
        parity: Of a coupling: 0 to keep the first half, 1 to keep the second.
        **kwargs: As in `keras.Layer`.
    """

    event_rank = 1
    # Whether the network sees the inputs, or the outputs of the layer.
    sees_inputs = True

    def __init__(self, network, elementwise, parity=None, **kwargs):
        super().__init__(**kwargs)
        name = type(self).__name__
        if not isinstance(network, keras.Layer):
            raise TypeError(
                f"{name} expects a Keras layer or model as `network`. "
                f"Received: network={network!r}"
            )
        for layer in keras_contact.flatten_layers(network):
            if isinstance(layer, keras.layers.BatchNormalization):
                raise ValueError(
                    f"{name} expects a network that treats examples apart, as each has "
                    "a density of its own. Received: a network with "
                    f"`BatchNormalization`, {layer.name!r}. Use `LayerNormalization`."
                )
        self.network = network
        self.elementwise = elementwise
        self.parity = parity
        is_autoregressive = isinstance(network, MADE)
        self._conditioner = Autoregressive() if is_autoregressive else Coupling()
        self._conditioner.check(self)
        self._size = None
        self._context_size = 0

    def build(self, inputs_shape, context_shape=None):
        """Keeps the numbers of elements, and of the context."""
        super().build(inputs_shape)
        if inputs_shape[-1] is None:
            raise ValueError(
                f"{type(self).__name__} expects inputs with a last axis of known size. "
                f"Received: a shape of {tuple(inputs_shape)}"
            )
        self._size = inputs_shape[-1]
        self._context_size = 0 if context_shape is None else context_shape[-1]
        self._conditioner.build(self, context_shape)

    def forward_and_log_det(self, x, context=None):
        """Returns y and log |det dy / dx|."""
        by = self._conditioner
        run = by.run if self.sees_inputs else by.run_back
        return run(self, self.elementwise.forward, x, context)

    def reverse_and_log_det(self, y, context=None):
        """Returns x and log |det dx / dy|."""
        by = self._conditioner
        run = by.run_back if self.sees_inputs else by.run
        return run(self, self.elementwise.reverse, y, context)

    def _built_shape(self):
        return None if self._size is None else (self._size,)

    def rows(self, x, context):
        """Inputs of the network, and its context, with one axis of examples."""
        given = 0 if context is None else context.shape[-1]
        if given != self._context_size:
            raise ValueError(
                f"{type(self).__name__} was built for a context of "
                f"{self._context_size} numbers for each example. Received: a context "
                f"of {given}. A layer takes its context from its first call on; a "
                "`bl.Sequential` with layers that take one begins without "
                "`keras.Input`."
            )
        if context is not None:
            shape = (*ops.shape(x)[:-1], self._context_size)
            context = ops.broadcast_to(ops.cast(context, x.dtype), shape)
            context = ops.reshape(context, (-1, self._context_size))
        return ops.reshape(x, (-1, x.shape[-1])), context

    def parameters(self, outputs, like):
        """The parameters of each element, from the outputs of the network."""
        shape = (*ops.shape(like), self.elementwise.size)
        return ops.cast(ops.reshape(outputs, shape), like.dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        network = keras.saving.serialize_keras_object(self.network)
        return {**super().get_config(), "network": network, "parity": self.parity}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a layer from what `get_config` returned."""
        network = keras.saving.deserialize_keras_object(
            config["network"], custom_objects=custom_objects
        )
        return cls(**{**config, "network": network})


class Coupling:
    """Half of the elements are kept, the others mapped by parameters made from them.

    The outputs of the network are mapped linearly to the parameters, by a `Dense` that
    starts at zero: the layer starts as the identity.
    """

    def check(self, layer):
        """Raises for a parity that is none."""
        layer.parity = 0 if layer.parity is None else layer.parity
        if layer.parity not in (0, 1):
            raise ValueError(
                f"{type(layer).__name__} expects `parity` to be 0, to keep the first "
                "half of the elements, or 1, to keep the second. "
                f"Received: parity={layer.parity}"
            )

    def build(self, layer, context_shape):
        """Builds the network, for the elements that are kept."""
        size, half = layer._size, layer._size // 2
        if size < 2:
            raise ValueError(
                f"{type(layer).__name__} expects at least two elements, some to keep "
                f"and some to map. Received: {size}"
            )
        kept = size - half if layer.parity else half
        spec = keras.KerasTensor((None, kept + layer._context_size), layer.input_dtype)
        features = layer.network(spec)
        layer.projection = keras.layers.Dense(
            (size - kept) * layer.elementwise.size,
            kernel_initializer="zeros",
            name="parameters",
            dtype=layer.dtype_policy,
        )
        layer.projection.build(tuple(features.shape))

    def run(self, layer, function, x, context):
        """Returns the value, and the log-determinant."""
        half = layer._size // 2
        kept, mapped = x[..., :half], x[..., half:]
        kept, mapped = (mapped, kept) if layer.parity else (kept, mapped)
        rows, context = layer.rows(kept, context)
        if context is not None:
            rows = ops.concatenate([rows, context], axis=-1)
        outputs = layer.projection(layer.network(rows))
        value, log_slope = function(mapped, layer.parameters(outputs, mapped))
        parts = (value, kept) if layer.parity else (kept, value)
        return ops.concatenate(parts, axis=-1), ops.sum(log_slope, axis=-1)

    # What is kept is there in both directions.
    run_back = run


class Autoregressive:
    """Each element is mapped by parameters made from those before it, by a `MADE`.

    Given what the network sees, one run of it tells the parameters of all elements. The
    other way round they are found one after another, by as many runs as there are
    elements, in one compiled loop.
    """

    def check(self, layer):
        """Raises for a parity, and asks the network for as many outputs as needed."""
        if layer.parity is not None:
            raise ValueError(
                f"{type(layer).__name__} with a `MADE` maps all elements, in the order "
                "of the MADE; `parity` belongs to couplings. "
                f"Received: parity={layer.parity}"
            )
        layer.network.ask(layer.elementwise.size, type(layer).__name__)

    def build(self, layer, context_shape):
        """Builds the network."""
        if not layer.network.built:
            layer.network.build((None, layer._size), context_shape)

    def _parameters(self, layer, x, context):
        rows, context = layer.rows(x, context)
        given = {} if context is None else {"context": context}
        return layer.parameters(layer.network(rows, **given), x)

    def run(self, layer, function, x, context):
        """Returns the value, and the log-determinant, of what the network sees."""
        value, log_slope = function(x, self._parameters(layer, x, context))
        return value, ops.sum(log_slope, axis=-1)

    def run_back(self, layer, function, y, context):
        """Returns what the network sees, and the log-determinant, of the value."""
        indices = ops.arange(layer._size)

        def step(carry, index):
            # What is not known yet is zero, and does not matter.
            x, log_slope = carry
            values, slopes = function(y, self._parameters(layer, x, context))
            here = ops.equal(indices, index)
            carry = ops.where(here, values, x), ops.where(here, slopes, log_slope)
            return carry, None

        order = ops.convert_to_tensor(layer.network.element_order, "int32")
        start = ops.zeros_like(y)
        (x, log_slope), _ = ops.scan(step, (start, start), order)
        return x, ops.sum(log_slope, axis=-1)
