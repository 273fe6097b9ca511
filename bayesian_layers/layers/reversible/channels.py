"""The base of reversible layers of vectors and images alike."""

import math

from keras import ops

from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer


class ChannelsLayer(ReversibleLayer):
    """Base of layers of examples `[..., channels]`: vectors, sequences, images.

    Args:
        event_rank: The number of trailing axes that are one example. Defaults to all
            axes of the inputs but the first.
        **kwargs: As in `keras.Layer`.
    """

    def __init__(self, event_rank=None, **kwargs):
        super().__init__(**kwargs)
        if event_rank is not None and not (
            isinstance(event_rank, int) and event_rank > 0
        ):
            raise ValueError(
                "`event_rank` should be a positive integer. "
                f"Received: event_rank={event_rank!r}"
            )
        self._event_rank = event_rank
        self._event = None

    @property
    def event_rank(self):
        """The number of trailing axes that are one example."""
        if self._event_rank is not None:
            return self._event_rank
        return 1 if self._event is None else len(self._event)

    def build(self, inputs_shape, context_shape=None):
        """Checks the shape, and keeps that of an example. Subclasses call this."""
        rank = self._event_rank or len(inputs_shape) - 1
        if not 0 < rank <= len(inputs_shape) or inputs_shape[-1] is None:
            raise ValueError(
                f"{type(self).__name__} expects examples of {self._event_rank or 'one'}"
                " axes or more, of which the last, that of channels, has a known "
                f"size. Received: a shape of {tuple(inputs_shape)}"
            )
        self._event = tuple(inputs_shape[len(inputs_shape) - rank :])
        super().build(inputs_shape)

    @property
    def num_channels(self):
        """The size of the last axis."""
        return self._event[-1]

    def _built_shape(self):
        # Images may have any size, unless a subclass says otherwise.
        return None if self._event is None else self._event[-1:]

    def merged(self, x):
        """Returns x with one axis before those of an example, as Keras' layers ask."""
        shape = ops.shape(x)
        if len(shape) == self.event_rank + 1:
            return x
        return ops.reshape(x, (-1, *shape[len(shape) - self.event_rank :]))

    def no_change(self, x):
        """Returns zeros, the log-determinant of a map that keeps volumes."""
        return ops.zeros(self._batch_shape(x), dtype=x.dtype)

    def at_each_position(self, log_det, x):
        """Returns the log-determinant of a map of the channels at each position.

        Args:
            log_det: Its log-determinant at one position, a scalar.
            x: The inputs.
        """
        positions = ops.shape(x)[len(x.shape) - self.event_rank : -1]
        count = math.prod(positions) if positions else 1
        total = log_det * ops.cast(count, log_det.dtype)
        return ops.broadcast_to(total, self._batch_shape(x))

    def _batch_shape(self, x):
        return ops.shape(x)[: len(x.shape) - self.event_rank]

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "event_rank": self._event_rank}
