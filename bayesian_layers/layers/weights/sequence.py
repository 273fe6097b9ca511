"""The draws of one sequence: what a recurrent cell keeps from step to step."""

import weakref

import keras
from keras import ops
from keras.src.backend.common import global_state

from bayesian_layers import trace

# The distance between the seeds of two streams.
_STREAM = 0x3C6EF372


class SequenceSeed(keras.random.SeedGenerator):
    """A seed that stays until it is renewed: every `replay` of it gives equal draws.

    As a seed generator it is state of its layer like any other: Keras carries it
    through `jit`, and does not save it.
    """

    def renew(self, source):
        """Takes a new seed from a seed generator."""
        key = keras.random.randint((1,), 0, 2**31 - 1, dtype="int32", seed=source)
        key = ops.cast(key, self.state.dtype)
        self.state.assign(ops.concatenate([key, ops.zeros_like(key)]))

    def replay(self, stream=0):
        """Returns a seed for draws that are the same in each replay of a stream."""
        return Replay(self.state, stream * _STREAM)


class Replay(keras.random.SeedGenerator):
    """A seed generator that counts on from a state, which it leaves as it is.

    Args:
        state: The state of a seed generator, two integers.
        offset: Integer below 2**31 that is added to the first.
    """

    def __init__(self, state, offset):
        # Not Keras' own, which makes a variable.
        self._state = ops.convert_to_tensor(state)
        self._offset = offset
        self._count = 0

    def next(self, ordered=True):  # noqa: FBT002 (Keras' signature)
        """Returns the next seed."""
        step = [self._offset, self._count]
        self._count += 1
        return self._state + ops.convert_to_tensor(step, dtype=self._state.dtype)


class Held:
    """Values that end with the call of a model, or the `trace` block, they belong to.

    Keyed by weak references to what Keras and `trace` keep for just as long: after an
    exception nothing is left, and threads do not see the values of each other.
    """

    def __init__(self):
        self._values = weakref.WeakKeyDictionary()

    def hold(self, scope, value):
        """Keeps a value while `scope` lives; nothing is kept where it is `None`."""
        if scope is not None:
            self._values[scope] = value

    def get(self, *scopes):
        """Returns the value of the first of the scopes that has one, or `None`."""
        for scope in scopes:
            if scope is not None and scope in self._values:
                return self._values[scope]
        return None

    def release(self, *scopes):
        """Forgets the values of scopes."""
        for scope in scopes:
            if scope is not None:
                self._values.pop(scope, None)


def model_call():
    """Returns what lives as long as the outermost layer call under way, or `None`."""
    return global_state.get_global_attribute("current_call_ctx")


def handlers():
    """Returns what lives as long as the innermost handler, or `None`."""
    return trace.innermost_block()
