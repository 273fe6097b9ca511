"""All arithmetic with seeds.

Keras takes for a seed an integer, `None` or a `keras.random.SeedGenerator`. An integer
gives the same noise each time, so it is never handed on as it is: it is hashed into as
many independent integers as there are uses for it.
"""

import keras
import numpy as np
from keras import ops

# The distance between the seeds of two streams.
_STREAM = 0x3C6EF372


def split(seed, count):
    """Returns `count` seeds for draws that must be independent of each other.

    A `SeedGenerator` moves on at each draw and `None` is fresh at each, so both serve
    as they are. Integers are hashed: on torch Keras adds a counter to the seed, so that
    the seeds 1 and 2 as they are would share their noise, one draw apart.
    """
    if not isinstance(seed, (int, np.integer)):
        return [seed] * count
    return [int(number) for number in integers([seed % 2**64], count)]


def generator(seed):
    """Returns a seed generator for a layer, from its argument `seed`."""
    (hashed,) = split(seed, 1)
    return keras.random.SeedGenerator(hashed)


def integers(seed, *shape):
    """Returns an array of integers below 2**31, hashed from a list of integers."""
    states = np.random.SeedSequence(seed).generate_state(int(np.prod(shape)))
    return (states & 0x7FFFFFFF).astype("int32").reshape(shape)


def at_position(seed, position):
    """Returns the seed of one weight, an integer, from that of a model's weights."""
    return int(integers([seed % 2**64, position], 1)[0])


def table(seed, count, size):
    """Returns integers below 2**31, `[count, size]`, from several integers.

    More of them, along either axis, begin with the same.
    """
    columns = [
        np.random.SeedSequence([*seed, column]).generate_state(count)
        for column in range(size)
    ]
    states = np.reshape(columns, (size, count)).T
    return (states.astype("uint32") & 0x7FFFFFFF).astype("int32")


def key_data(seed):
    """Two random integers, as a tensor, from anything Keras takes for a seed.

    `keras.random.randint` advances a `SeedGenerator`, refuses `seed=None` under
    `jax.jit`, and gives the same numbers for the same integer: exactly what a sampler
    that Keras does not have should do too.
    """
    return keras.random.randint((2,), 0, 2**31 - 1, dtype="int32", seed=seed)


class Replay(keras.random.SeedGenerator):
    """A seed generator that counts on from a state, which it leaves as it is.

    Args:
        state: The state of a seed generator, two integers.
        stream: Integer: equal states give independent noise in different streams.
    """

    def __init__(self, state, stream=0):
        # Not Keras' own, which makes a variable.
        self._state = ops.convert_to_tensor(state)
        self._offset = (stream * _STREAM) & 0x7FFFFFFF
        self._count = 0

    def next(self, ordered=True):  # noqa: FBT002 (Keras' signature)
        """Returns the next seed."""
        step = [self._offset, self._count]
        self._count += 1
        return self._state + ops.convert_to_tensor(step, dtype=self._state.dtype)


class Keyed(Replay):
    """The seed of one draw, chosen from outside by a key: no handler changes it.

    Args:
        state: The state of a seed generator, two integers.
        position: Integer: which draw.
    """

    def __init__(self, state, position):
        # One draw hashes it: torch adds the two numbers of a seed, and neighbouring
        # keys would share their noise.
        hashed = key_data(Replay(state, position + 1))
        super().__init__(ops.cast(hashed, state.dtype))


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
        return Replay(self.state, stream)
