"""The columns of its inputs that a covariance depends on."""

import operator

from keras import ops


class ActiveDims:
    """Some columns of an array.

    Args:
        given: A list of integers, a slice, or `None` for all columns.
    """

    def __init__(self, given):
        if isinstance(given, dict):
            given = slice(given["start"], given["stop"], given["step"])
        if given is not None and not isinstance(given, slice):
            given = _integers(given)
        self.given = given

    def count(self, num_columns):
        """Returns how many there are among `num_columns`; raises if one is not."""
        if num_columns is None:
            raise ValueError(
                "Expected inputs whose last axis has a known size. Received: None"
            )
        if self.given is None:
            return num_columns
        if isinstance(self.given, slice):
            count = len(range(*self.given.indices(num_columns)))
            inside = count > 0 and (self.given.stop or 0) <= num_columns
        else:
            count = len(self.given)
            inside = all(-num_columns <= i < num_columns for i in self.given)
        if not inside:
            raise ValueError(
                "`active_dims` should be columns of the inputs, of which there are "
                f"{num_columns}. Received: active_dims={self.given}"
            )
        return count

    def select(self, x):
        """Returns these columns of a tensor."""
        if self.given is None:
            return x
        if isinstance(self.given, slice):
            return x[..., self.given]
        columns = [i % x.shape[-1] for i in self.given]
        return ops.take(x, columns, axis=-1)

    def get_config(self):
        """Returns what makes an equal one."""
        if not isinstance(self.given, slice):
            return self.given
        return {name: getattr(self.given, name) for name in ("start", "stop", "step")}


def _integers(given):
    try:
        columns = [operator.index(i) for i in given]
    except TypeError:
        columns = []
    if not columns or len(set(columns)) != len(columns):
        raise ValueError(
            "`active_dims` should be a list of different integers, or a slice. "
            f"Received: active_dims={given!r}"
        )
    return columns
