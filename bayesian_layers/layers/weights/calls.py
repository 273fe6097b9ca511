"""Layers that know whether they were called, or only their `call` was."""

import contextlib
import contextvars

# The layers whose `__call__` is under way, in this thread.
_called = contextvars.ContextVar("bayesian_layers_called", default=())


class MarksCalls:
    """Stands before a Keras layer, and marks that its `__call__` is under way."""

    def __call__(self, *args, **kwargs):
        with self._under_way():
            return super().__call__(*args, **kwargs)

    def stateless_call(self, *args, **kwargs):
        """Calls the layer without side effects, as in Keras."""
        with self._under_way():
            return super().stateless_call(*args, **kwargs)

    @contextlib.contextmanager
    def _under_way(self):
        token = _called.set((*_called.get(), self))
        try:
            yield
        finally:
            _called.reset(token)

    def is_under_way(self):
        """Whether a call of the layer is under way in this thread."""
        return any(layer is self for layer in _called.get())

    def check_called(self):
        """Raises `ValueError` if no call of the layer is under way."""
        if not self.is_under_way():
            raise ValueError(
                f"Layer {self.name!r} was not called, only its `call` was: by "
                "`keras.layers.TimeDistributed`, which runs it anew for each step and "
                "so would draw new weights for each. Give the layer inputs with a time "
                "axis instead, or reshape them so that time is part of the batch."
            )
