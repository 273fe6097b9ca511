"""A reversible layer the other way round."""

import keras

from bayesian_layers.distributions import constraints
from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible import protocol
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer


@register
class Reverse(ReversibleLayer):
    """A reversible layer the other way round: y = layer.reverse(x).

    Its weights are those of the layer. The layer may be any Keras layer with a method
    `reverse(y)`; densities ask for `log_det_jacobian(x)` too. A layer without `reverse`
    raises when it is called.

    A map that is fast in one direction only, as that of `bl.layers.RealNVP` around a
    `bl.layers.MADE`, is trained by maximum likelihood the other way round.

    Args:
        layer: The layer.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> log = bl.layers.Reverse(bl.layers.Exp())
    >>> round(float(log(np.ones(1, "float32"))[0]), 4)
    0.0
    """

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(layer, keras.Layer):
            raise TypeError(
                f"Reverse expects a Keras layer. Received: layer={layer!r} of type "
                f"{type(layer).__name__}"
            )
        self.layer = layer

    event_rank = property(lambda self: self.layer.output_rank)
    output_rank = property(lambda self: self.layer.event_rank)
    image = property(lambda self: getattr(self.layer, "domain", constraints.real))
    domain = property(lambda self: getattr(self.layer, "image", constraints.real))
    # An AttributeError says that it is not monotone.
    increasing = property(lambda self: self.layer.increasing)

    @property
    def takes_context(self):
        """As the layer."""
        return protocol.takes_context(self.layer)

    def build(self, inputs_shape, context_shape=None):
        """Builds the layer, for the shape that its inputs then have."""
        shape = self.forward_shape(tuple(inputs_shape))
        protocol.build(self.layer, shape, context_shape)

    def forward_and_log_det(self, x, context=None):
        """Returns what the layer takes to x, and the log-determinant."""
        return protocol.reverse_and_log_det(self.layer, x, context)

    def reverse_and_log_det(self, y, context=None):
        """Returns the layer's value at y, and its log-determinant."""
        return protocol.forward_and_log_det(self.layer, y, context)

    def _forward(self, x, context):
        return protocol.reverse(self.layer, x, context)

    def _reverse(self, y, context):
        return protocol.forward(self.layer, y, context)

    def forward_shape(self, shape):
        """Returns the shape of the layer's input."""
        return protocol.reverse_shape(self.layer, shape)

    def reverse_shape(self, shape):
        """Returns the shape of the layer's output."""
        return protocol.forward_shape(self.layer, shape)

    def _check_rank(self, shape):
        pass  # The layer does.

    def check_shape(self, shape, is_output=False):  # noqa: FBT002
        """Does nothing: the layers that it is made of check what they get."""

    def get_config(self):
        """Returns the constructor's arguments."""
        layer = keras.saving.serialize_keras_object(self.layer)
        return {**super().get_config(), "layer": layer}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a layer from what `get_config` returned."""
        layer = keras.saving.deserialize_keras_object(
            config["layer"], custom_objects=custom_objects
        )
        return cls(**{**config, "layer": layer})
