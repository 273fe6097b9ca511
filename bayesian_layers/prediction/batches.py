"""Batches of the data that `predict` was given, in groups of one shape."""

import itertools
import math

import keras
import numpy as np

from bayesian_layers import keras_contact

# What a group may take in memory: draws of weights are shared by its batches.
GROUP_BYTES = 2**25


class Batches:
    """Batches of anything that `keras.Model.predict` takes.

    Args:
        x: Arrays, tensors, a `tf.data.Dataset`, a `DataLoader`, a generator, ...
        batch_size: The number of examples of a batch, for arrays and tensors.
    """

    def __init__(self, x, batch_size):
        self.count, batches = keras_contact.batches_of(x, batch_size)
        self.first = next(iter(batches), None)
        if self.first is None:
            raise ValueError(
                "Expected data with at least one batch. Received: no data."
            )
        self._batches = itertools.chain([self.first], batches)

    def groups(self, bytes_of):
        """Yields stacked batches `[count, batch, ...]` and the size of each.

        A batch that is smaller than those before is filled up with its last example,
        and a group that is smaller with its last batch: shapes that differ would have
        to be compiled again.

        Args:
            bytes_of: A function that returns what a batch takes in memory.
        """
        done, last = 0, None
        group, room = [], 0
        for batch in self._batches:
            if group and not (len(group) < room and _joins(batch, group[0])):
                last = _stack(group, last)
                yield last, [_size(batch) for batch in group]
                done += len(group)
                group = []
            if not group:
                room = self._room(bytes_of(batch), done)
            group.append(batch)
        yield _stack(group, last), [_size(batch) for batch in group]

    def _room(self, size, done):
        """How many batches of a size make a group; groups should be equally large."""
        room = max(1, GROUP_BYTES // max(1, size))
        if self.count is None or self.count <= done:
            return room
        left = self.count - done
        return math.ceil(left / math.ceil(left / room))


def _size(batch):
    return keras.tree.flatten(batch)[0].shape[0]


def _joins(batch, first):
    """Whether a batch can be filled up to the shape of another."""
    arrays, others = keras.tree.flatten(batch), keras.tree.flatten(first)
    same = [a.shape[1:] for a in arrays] == [b.shape[1:] for b in others]
    return same and _size(batch) <= _size(first)


def _stack(group, last):
    """Returns batches stacked, in the shape of the last group if it is close."""
    count, size = len(group), _size(group[0])
    if last is not None:
        first = keras.tree.map_structure(lambda array: array[0], last)
        # To compute a few batches for nothing is cheaper than to compile.
        if _joins(group[0], first) and count <= _size(last) <= 2 * count:
            count, size = _size(last), _size(first)
    group = [_fill(batch, size) for batch in group]
    return keras.tree.map_structure(
        lambda *arrays: _filled(np.stack(arrays), count), *group
    )


def _fill(batch, size):
    return keras.tree.map_structure(lambda array: _filled(array, size), batch)


def _filled(array, size):
    """An array with its last row repeated, up to a number of rows."""
    missing = size - len(array)
    if not missing:
        return array
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])
