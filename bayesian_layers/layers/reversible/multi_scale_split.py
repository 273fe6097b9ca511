"""The multi-scale architecture of flows on images."""

import math

import keras
from keras import ops

from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible import protocol
from bayesian_layers.layers.reversible.channels import ChannelsLayer


@register
class MultiScaleSplit(ChannelsLayer):
    """Lets half of the channels leave a flow; the other half goes on.

        y1 = layer(x1),  y2 = (x2 - shift) / scale,  (shift, log scale) = network(x1)

    The last channels x2 leave: given the first ones they are taken for normal
    variables, whose mean and standard deviation a network tells, and are standardized.
    The first ones x1 go through `layer`, the rest of the flow, at the end of which its
    numbers take their places again: `y1` is `layer(x1)` in the shape of x1. So the
    whole is one reversible map that keeps the shape of its inputs, however often
    splits are nested, and independent standard normal variables are what to compare
    its output with.

    log |det| = log |det layer| - sum(log scale)

    Args:
        layer: A reversible layer, as `bl.Sequential`, of the first half of the
            channels; it may change shapes (`bl.layers.Squeeze`) but not the number of
            elements.
        network: A layer from the first half of the channels to twice as many as leave:
            shifts, then logarithms of scales. Defaults to one that starts at zero: a
            convolution of 3 by 3 pixels for images, else a dense layer.
        event_rank: The number of trailing axes that are one example. Defaults to all
            axes of the inputs but the first. Channels are the last.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> fine = bl.Sequential([bl.layers.Squeeze(), bl.layers.ActNorm()])
    >>> flow = bl.Sequential([bl.layers.Squeeze(), bl.layers.MultiScaleSplit(fine)])
    >>> ops.shape(flow(np.ones((5, 8, 8, 3), "float32")))
    (5, 4, 4, 12)

    References: Dinh, Sohl-Dickstein and Bengio (2017), Density estimation using
    Real NVP, section 3.6; Kingma and Dhariwal (2018), Glow: generative flow with
    invertible 1x1 convolutions.
    """

    def __init__(self, layer, network=None, event_rank=None, **kwargs):
        super().__init__(event_rank=event_rank, **kwargs)
        given = {"layer": layer} | ({} if network is None else {"network": network})
        for name, value in given.items():
            if not isinstance(value, keras.Layer):
                raise TypeError(
                    f"`{name}` should be a Keras layer. Received: {name}={value!r}"
                )
        self.layer = layer
        self.network = network
        self._is_default = network is None

    @property
    def takes_context(self):
        """As the layer."""
        return protocol.takes_context(self.layer)

    def build(self, inputs_shape, context_shape=None):
        """Builds the layer and the network for half of the channels."""
        super().build(inputs_shape)
        if self.num_channels < 2:
            raise ValueError(
                "MultiScaleSplit expects two channels or more. "
                f"Received: a shape of {tuple(inputs_shape)}"
            )
        self._leaving = self.num_channels // 2
        shape = (*inputs_shape[:-1], self.num_channels - self._leaving)
        protocol.build(self.layer, shape, context_shape)
        self._check_layer(shape)
        if self.network is None:
            self.network = self._default_network()
        parameters = self.network(keras.KerasTensor(shape, self.input_dtype))
        expected = (*shape[:-1], 2 * self._leaving)
        if tuple(parameters.shape) != expected:
            raise ValueError(
                f"`network` should make outputs of shape {expected} of inputs of shape "
                f"{tuple(shape)}: two numbers for each of {self._leaving} channels. "
                f"Received: outputs of shape {tuple(parameters.shape)}"
            )

    def _check_layer(self, shape):
        outputs = protocol.forward_shape(self.layer, shape)
        sizes = [
            math.prod(1 if side is None else side for side in sides)
            for sides in (shape, outputs)
        ]
        if sizes[0] != sizes[1]:
            raise ValueError(
                "`layer` should keep the number of elements of its inputs. Received: "
                f"a layer that makes {tuple(outputs)} of {tuple(shape)}"
            )

    def _default_network(self):
        settings = {"kernel_initializer": "zeros", "dtype": self.input_dtype}
        if self.event_rank == 3:
            return keras.layers.Conv2D(2 * self._leaving, 3, padding="same", **settings)
        return keras.layers.Dense(2 * self._leaving, **settings)

    def forward_and_log_det(self, x, context=None):
        """Returns y and the log-determinant."""
        first, last = x[..., : -self._leaving], x[..., -self._leaving :]
        shift, log_scale = self._shift_and_log_scale(first)
        last = (last - shift) * ops.exp(-log_scale)
        value, log_det = protocol.forward_and_log_det(self.layer, first, context)
        y = ops.concatenate([ops.reshape(value, ops.shape(first)), last], axis=-1)
        return y, self._of_examples(log_det, x) - self._of_examples(log_scale, x)

    def reverse_and_log_det(self, y, context=None):
        """Returns x and the log-determinant."""
        value, last = y[..., : -self._leaving], y[..., -self._leaving :]
        shape = protocol.forward_shape(self.layer, tuple(value.shape))
        batch = ops.shape(y)[: len(y.shape) - self.event_rank]
        inner = shape[len(batch) :]
        value = ops.reshape(value, (*batch, *inner))
        first, log_det = protocol.reverse_and_log_det(self.layer, value, context)
        shift, log_scale = self._shift_and_log_scale(first)
        x = ops.concatenate([first, last * ops.exp(log_scale) + shift], axis=-1)
        return x, self._of_examples(log_det, y) + self._of_examples(log_scale, y)

    def _shift_and_log_scale(self, first):
        parameters = ops.cast(self.network(self.merged(first)), first.dtype)
        parameters = ops.reshape(parameters, (*ops.shape(first)[:-1], -1))
        return parameters[..., : self._leaving], parameters[..., self._leaving :]

    def _of_examples(self, log_det, x):
        """The sum over all axes of an example."""
        axes = tuple(range(len(x.shape) - self.event_rank, len(log_det.shape)))
        return ops.sum(log_det, axis=axes) if axes else log_det

    def get_config(self):
        """Returns the constructor's arguments."""
        serialize = keras.saving.serialize_keras_object
        network = None if self._is_default else serialize(self.network)
        parts = {"layer": serialize(self.layer), "network": network}
        return {**super().get_config(), **parts}

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        parts = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("layer", "network")
        }
        return cls(**{**config, **parts})
