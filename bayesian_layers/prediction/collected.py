"""What the groups of batches gave, put together on the host."""

import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.prediction.moments import Moments


class Collected:
    """The totals and the stored distributions of one output, from all groups.

    Args:
        family: The class of the distributions.
    """

    def __init__(self, family):
        self.family = family
        self._totals = {}
        self._structure = None
        self._draws = []
        self._groups = []

    def add_draws(self, distribution, sizes):
        """Adds some draws of a group, with parameters `[draws, count, batch, ...]`."""
        leaves, self._structure = backend.flatten(distribution)
        self._draws.append([_examples(leaf, sizes, 1) for leaf in leaves])

    def add_totals(self, totals, sizes):
        """Adds the totals `[count, batch, ...]` of all draws of a group, and ends it.

        Returns:
            The means, `[examples, ...]`.
        """
        for name, values in totals.items():
            rows = self._totals.setdefault(name, Rows())
            rows.append(_examples(values, sizes, 0))
        if self._draws:
            self._groups.append(_concatenated(self._draws, axis=0))
            self._draws = []
        return self._totals["mean"].array[-sum(sizes) :]

    def moments(self, num_samples):
        """Returns the `Moments` of all examples."""
        totals = {name: rows.array for name, rows in self._totals.items()}
        return Moments(self.family, num_samples, totals)

    def distribution(self):
        """Returns the distributions `[draws, examples, ...]`, or `None`."""
        if self._structure is None:
            return None
        leaves = map(ops.convert_to_tensor, _concatenated(self._groups, axis=1))
        return backend.unflatten(self._structure, leaves)


class Rows:
    """An array that grows by rows where it is: there is never a second copy."""

    def __init__(self):
        self.array = None

    def append(self, rows):
        """Adds rows `[n, ...]`."""
        if self.array is None:
            self.array = np.array(rows)
            return
        before = len(self.array)
        if rows.shape[1:] != self.array.shape[1:]:
            raise ValueError(
                "Expected outputs of one shape for all examples. Received outputs of "
                f"shapes {self.array.shape[1:]} and {rows.shape[1:]}: predict them "
                "apart."
            )
        self.array.resize((before + len(rows), *rows.shape[1:]), refcheck=False)
        self.array[before:] = rows


def _examples(values, sizes, axis):
    """Joins the axes of batches and of examples, without what filled the batches up."""
    values = ops.convert_to_numpy(values)
    before = (slice(None),) * axis
    rows = [values[(*before, i, slice(size))] for i, size in enumerate(sizes)]
    return np.concatenate(rows, axis=axis)


def _concatenated(parts, axis):
    """Joins lists of arrays, one after another, and empties them."""
    if len(parts) == 1:
        return parts[0]
    joined = []
    for _ in range(len(parts[0])):
        joined.append(np.concatenate([part.pop(0) for part in parts], axis=axis))
    return joined
