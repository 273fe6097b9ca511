"""Batches of the data that `predict` was given, in groups of one shape."""

import keras
import numpy as np
from keras.src.trainers.data_adapters import get_data_adapter
from keras.src.trainers.data_adapters.data_adapter_utils import (
    unpack_x_y_sample_weight,
)

# What a group may take in memory: draws are shared by the batches of a group.
GROUP_BYTES = 2**26


class Batches:
    """Batches of anything that `keras.Model.predict` takes.

    Args:
        x: Arrays, tensors, a `tf.data.Dataset`, a `DataLoader`, a generator, ...
        batch_size: The number of examples of a batch, for arrays and tensors.
    """

    def __init__(self, x, batch_size):
        self._adapter = get_data_adapter(x, batch_size=batch_size, shuffle=False)
        self.count = self._adapter.num_batches

    def _batches(self):
        for batch in self._adapter.get_numpy_iterator():
            x, _, _ = unpack_x_y_sample_weight(batch)
            yield keras.tree.map_structure(np.asarray, x)

    def groups(self):
        """Yields stacked batches `[count, batch, ...]` and the sizes of each.

        A batch that is smaller than those before is filled up with its last example.
        """
        group, sizes = [], []
        for batch in self._batches():
            if group and not self._joins(batch, group):
                yield _stack(group), sizes
                group, sizes = [], []
            group.append(_fill(batch, _size(group[0])) if group else batch)
            sizes.append(_size(batch))
        if group:
            yield _stack(group), sizes

    def _joins(self, batch, group):
        arrays, others = keras.tree.flatten(batch), keras.tree.flatten(group[0])
        same = [a.shape[1:] for a in arrays] == [b.shape[1:] for b in others]
        room = GROUP_BYTES // max(1, sum(array.nbytes for array in others))
        return same and _size(batch) <= _size(group[0]) and len(group) < room


def _size(batch):
    return keras.tree.flatten(batch)[0].shape[0]


def _fill(batch, size):
    def fill(array):
        missing = size - len(array)
        return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])

    return batch if _size(batch) == size else keras.tree.map_structure(fill, batch)


def _stack(group):
    return keras.tree.map_structure(lambda *arrays: np.stack(arrays), *group)
