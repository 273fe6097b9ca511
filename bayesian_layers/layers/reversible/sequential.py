"""Reversible layers one after another."""

import keras

from bayesian_layers.distributions import constraints
from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible import protocol
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer
from bayesian_layers.random_variable import RandomVariable


@register
class Sequential(ReversibleLayer, keras.Sequential):
    """Layers one after another, which carry distributions and can be reversed.

    y = layer_n(... layer_1(x)), and x = layer_1.reverse(... layer_n.reverse(y))

    It is `keras.Sequential` with `reverse`, `log_det_jacobian` and random variables as
    inputs: `flow(bl.Normal(...))` is a random variable with a density. The layers can
    be any of Keras; those without `reverse` raise when the model is reversed. It can be
    nested, compiled, trained and saved. `context` goes to the layers that take one;
    such a model is built with the shapes of both, at its first call.

    Args:
        layers: The layers.
        trainable: As in `keras.Sequential`.
        name: As in `keras.Sequential`.

    Example:
    >>> flow = bl.Sequential([bl.layers.Scale(2.0), bl.layers.Exp()])
    >>> y = flow(bl.Normal(0.0, 1.0))
    >>> round(float(y.log_prob(2.0)), 4)
    -2.3653
    """

    def __init__(self, layers=None, trainable=True, name=None):  # noqa: FBT002
        super().__init__(layers=layers, trainable=trainable, name=name)

    # Keras makes models of configs by its own rules.
    get_config = keras.Sequential.get_config

    def in_order(self):
        """Returns the layers, with those of nested models in the place of these."""
        parts = []
        for layer in self.layers:
            is_nested = isinstance(layer, Sequential)
            parts += layer.in_order() if is_nested else [layer]
        return parts

    @property
    def takes_context(self):
        """Whether any of the layers takes a context."""
        return any(protocol.takes_context(layer) for layer in self.layers)

    # The ranks follow from those of the layers. A layer that does not state its own
    # raises an AttributeError: then they are found out for a shape.

    @property
    def event_rank(self):
        """The number of trailing axes of the input that belong together."""
        rank = 0
        for layer in reversed(self.layers):
            rank = max(rank + layer.event_rank - layer.output_rank, layer.event_rank)
        return rank

    @property
    def output_rank(self):
        """The number of trailing axes of the output that belong together."""
        changes = [layer.output_rank - layer.event_rank for layer in self.layers]
        return self.event_rank + sum(changes)

    @property
    def domain(self):
        """Where the first layer is defined."""
        return getattr(self.layers[0], "domain", constraints.real)

    @property
    def image(self):
        """The values of the layers on what the earlier ones reach."""
        image = constraints.real
        for layer in self.layers:
            own = getattr(layer, "image", constraints.real)
            everything = image is getattr(layer, "domain", constraints.real)
            image = own if everything else constraints.ImageOf(image, layer)
        return image

    @property
    def increasing(self):
        """Whether the map is increasing; an AttributeError if it is not monotone."""
        return [layer.increasing for layer in self.layers].count(False) % 2 == 0

    def build(self, inputs_shape=None, context_shape=None):
        """Builds the layers, one after another."""
        has_batch = inputs_shape is not None and self._has_batch_axis(inputs_shape)
        if context_shape is None and has_batch:
            return super(ReversibleLayer, self).build(inputs_shape)
        x, context = keras.KerasTensor(inputs_shape, self.input_dtype), None
        if context_shape is not None:
            context = keras.KerasTensor(context_shape, self.input_dtype)
        for layer in self.layers:
            x = protocol.forward(layer, x, context)

    def _has_batch_axis(self, shape):
        ranks = [getattr(layer, "event_rank", 0) for layer in self.layers[:1]]
        return isinstance(shape, (list, tuple)) and len(shape) > max([0, *ranks])

    def call(self, inputs, context=None, training=None, mask=None):
        """Returns y: a tensor of a tensor, a random variable of a random variable."""
        if isinstance(inputs, RandomVariable):
            return super().call(inputs, context)
        self._check_context(context)
        return self._forward(inputs, context)

    def _forward(self, x, context):
        for layer in self.layers:
            x = protocol.forward(layer, x, context)
        return x

    def _reverse(self, y, context):
        for layer in reversed(self.layers):
            y = protocol.reverse(layer, y, context)
        return y

    def forward_and_log_det(self, x, context=None):
        """Returns the last layer's value, and the sum of the log-determinants."""
        log_dets = []
        for layer in self.layers:
            x, log_det = protocol.forward_and_log_det(layer, x, context)
            log_dets.append(log_det)
        return x, protocol.total_log_det(log_dets)

    def reverse_and_log_det(self, y, context=None):
        """Returns what leads to y, and the sum of the log-determinants."""
        log_dets = []
        for layer in reversed(self.layers):
            y, log_det = protocol.reverse_and_log_det(layer, y, context)
            log_dets.append(log_det)
        return y, protocol.total_log_det(log_dets)

    def forward_shape(self, shape):
        """Returns the shape of the last layer's value."""
        for layer in self.layers:
            shape = protocol.forward_shape(layer, shape)
        return tuple(shape)

    def reverse_shape(self, shape):
        """Returns the shape of the first layer's input."""
        for layer in reversed(self.layers):
            shape = protocol.reverse_shape(layer, shape)
        return tuple(shape)

    def _check_rank(self, shape):
        pass  # The layers do.

    def check_shape(self, shape, is_output=False):  # noqa: FBT002
        """Does nothing: the layers that it is made of check what they get."""

    def compute_output_shape(self, inputs_shape, context_shape=None):
        """Returns the shape of the output."""
        return keras.Sequential.compute_output_shape(self, inputs_shape)

    def compute_output_spec(self, inputs, context=None, training=None, mask=None):
        """Returns the shape and dtype of the output."""
        self._check_context(context)
        for layer in self.layers:
            given = protocol.given(layer, layer.call, context)
            inputs = layer.compute_output_spec(inputs, **given)
        return inputs
