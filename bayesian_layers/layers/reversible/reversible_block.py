"""Reversible residual networks, whose training memory does not grow with depth."""

import keras
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.channels import ChannelsLayer
from bayesian_layers.layers.reversible.recomputation import AdditiveCouplings
from bayesian_layers.trace import is_tracing


class _AdditiveLayer(ChannelsLayer):
    """Base of layers that are additive couplings, one after another."""

    def pairs(self):
        """Returns the pairs of layers, (f, g) for each block."""
        raise NotImplementedError

    def build(self, inputs_shape, context_shape=None):
        """Builds the layers for half of the channels each."""
        super().build(inputs_shape)
        if self.num_channels % 2:
            raise ValueError(
                f"{type(self).__name__} splits channels in half: their number should "
                f"be even. Received: a shape of {tuple(inputs_shape)}"
            )
        half = (*inputs_shape[:-1], self.num_channels // 2)
        for pair in self.pairs():
            for layer in pair:
                self._build_part(layer, half)

    def _build_part(self, layer, shape):
        outputs = layer(keras.KerasTensor(shape, self.input_dtype))
        if tuple(outputs.shape) != tuple(shape):
            raise ValueError(
                f"The layers of a ReversibleBlock should keep the shape of their "
                f"inputs, half of the channels: {tuple(shape)}. Received: layer "
                f"{layer.name!r}, whose outputs have shape {tuple(outputs.shape)}"
            )

    def forward_and_log_det(self, x):
        """Returns y and zeros: volumes stay the same."""
        first, second = ops.split(self.merged(x), 2, axis=-1)
        training = keras_contact.is_training()
        if is_tracing():
            # Handlers see draws as they are made, and only here.
            for f, g in self.pairs():
                first = first + _value(f, second, training)
                second = second + _value(g, first, training)
        else:
            couplings = AdditiveCouplings(self.pairs(), training)
            first, second, losses = couplings(first, second)
            for loss in losses:
                self.add_loss(loss)
        y = ops.concatenate([first, second], axis=-1)
        return ops.reshape(y, ops.shape(x)), self.no_change(x)

    def reverse_and_log_det(self, y):
        """Returns x and zeros."""
        first, second = ops.split(self.merged(y), 2, axis=-1)
        training = keras_contact.is_training()
        for f, g in reversed(self.pairs()):
            second = second - _value(g, first, training)
            first = first - _value(f, second, training)
        x = ops.concatenate([first, second], axis=-1)
        return ops.reshape(x, ops.shape(y)), self.no_change(y)


def _value(layer, x, training):
    return ops.cast(ops.convert_to_tensor(layer(x, training=training)), x.dtype)


@register
class ReversibleBlock(_AdditiveLayer):
    """A residual block that can be undone, and so need not keep its activations.

    Half of the channels changes the other, one after the other:

        y1 = x1 + f(x2),  y2 = x2 + g(y1);    x2 = y2 - g(y1),  x1 = y1 - f(x2)

    It keeps volumes: its log-determinant is zero. Its backward pass computes from y
    what x was, and what f and g need for their gradients. For that to save memory over
    the depth of a network put the blocks into a `bl.layers.ReversibleStack`: a block
    alone, in a `keras.Sequential` say, keeps its output, but nothing that is inside of
    f and g.

    f and g may be any layers or models that keep shapes. Dropout masks and draws of
    random weights are the same in the backward pass as they were; statistics, such as
    those of `keras.layers.BatchNormalization`, are updated once. What they draw, they
    have to draw by seed generators of their own, as Keras' layers do. `reverse` undoes
    a call only if they draw nothing: with random weights, within `bl.weights`. Where
    handlers such as `bl.tape` or `bl.weights` are in force the block is differentiated
    like any other layer, and keeps its activations. The gradients of a block can be
    differentiated in turn on JAX only; there it has no derivatives in forward mode.

    Args:
        f: A layer that keeps the shape of its inputs, half of the channels.
        g: Another.
        event_rank: The number of trailing axes that are one example. Defaults to all
            axes of the inputs but the first. Channels are the last.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> block = bl.layers.ReversibleBlock(
    ...     keras.layers.Dense(2, activation="tanh"), keras.layers.Dense(2)
    ... )
    >>> x = np.ones((3, 4), "float32")
    >>> bool(ops.all(ops.abs(ops.subtract(block.reverse(block(x)), x)) < 1e-5))
    True

    Reference: Gomez, Ren, Urtasun and Grosse (2017), The reversible residual network:
    backpropagation without storing activations.
    """

    def __init__(self, f, g, event_rank=None, **kwargs):
        super().__init__(event_rank=event_rank, **kwargs)
        for name, layer in (("f", f), ("g", g)):
            if not isinstance(layer, keras.Layer):
                raise TypeError(
                    f"`{name}` should be a Keras layer or model. Received: {layer!r}"
                )
        self.f = f
        self.g = g

    def pairs(self):
        """Returns the one pair of layers."""
        return [(self.f, self.g)]

    def get_config(self):
        """Returns the constructor's arguments."""
        serialize = keras.saving.serialize_keras_object
        parts = {"f": serialize(self.f), "g": serialize(self.g)}
        return {**super().get_config(), **parts}

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        parts = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("f", "g")
        }
        return cls(**{**config, **parts})


@register
class ReversibleStack(_AdditiveLayer):
    """A deep residual network that trains in the memory of one of its blocks.

    It is `bl.layers.ReversibleBlock`s one after another, differentiated together: of
    all activations only the output of the last block is kept, and the backward pass
    walks back from it, block by block. It costs one more forward pass. For the price of
    rounding: what is recomputed differs from what was in the last digits, by more the
    deeper the stack. Under mixed precision the sums are therefore kept in float32.

    Args:
        blocks: A list of `bl.layers.ReversibleBlock`s.
        event_rank: The number of trailing axes that are one example. Defaults to all
            axes of the inputs but the first. Channels are the last.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> def part():
    ...     return keras.layers.Conv2D(2, 3, padding="same", activation="relu")
    >>> stack = bl.layers.ReversibleStack(
    ...     [bl.layers.ReversibleBlock(part(), part()) for _ in range(3)]
    ... )
    >>> ops.shape(stack(np.ones((1, 5, 5, 4))))
    (1, 5, 5, 4)

    Reference: Gomez, Ren, Urtasun and Grosse (2017), The reversible residual network:
    backpropagation without storing activations.
    """

    def __init__(self, blocks, event_rank=None, **kwargs):
        super().__init__(event_rank=event_rank, **kwargs)
        blocks = list(blocks)
        if not blocks or not all(isinstance(b, ReversibleBlock) for b in blocks):
            raise TypeError(
                "`blocks` should be a list of `bl.layers.ReversibleBlock`s, at least "
                f"one. Received: blocks={blocks!r}"
            )
        self.blocks = blocks

    def build(self, inputs_shape, context_shape=None):
        """Builds the blocks."""
        for block in self.blocks:
            if not block.built:
                block.build(inputs_shape)
        super().build(inputs_shape)

    def pairs(self):
        """Returns the pairs of layers of the blocks."""
        return [(block.f, block.g) for block in self.blocks]

    def get_config(self):
        """Returns the constructor's arguments."""
        blocks = [keras.saving.serialize_keras_object(block) for block in self.blocks]
        return {**super().get_config(), "blocks": blocks}

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        blocks = keras.saving.deserialize_keras_object(config["blocks"])
        return cls(**{**config, "blocks": blocks})
