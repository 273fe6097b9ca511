"""What pictures are drawn of, as arrays, and the checks on it."""

import numpy as np
from keras import ops

from bayesian_layers.prediction import Prediction


def to_array(value):
    """Returns a NumPy array of a tensor, of an array or of numbers."""
    if hasattr(value, "shape") and not isinstance(value, np.ndarray):
        return ops.convert_to_numpy(value)
    return np.asarray(value)


def check_prediction(prediction):
    """Raises unless it is a `Prediction`."""
    if not isinstance(prediction, Prediction):
        raise TypeError(
            "Expected a `bl.Prediction`, which `bl.predict` returns. "
            f"Received: {type(prediction).__name__}"
        )


def check_finite(name, values):
    """Raises unless there are numbers, and all of them finite."""
    if not (np.issubdtype(values.dtype, np.number) or values.dtype == bool):
        raise TypeError(
            f"`{name}` should hold numbers. Received: an array of dtype {values.dtype}"
        )
    if values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(
            f"`{name}` should hold at least one number, and none that is not finite. "
            f"Received: shape {values.shape} with "
            f"{np.sum(~np.isfinite(values))} numbers that are not finite"
        )


def one_column(name, values):
    """Returns an array `[n]` of numbers `[n]` or `[n, 1]`, all of them finite."""
    values = to_array(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"`{name}` should have the shape [n] or [n, 1]. "
            f"Received: shape {values.shape}"
        )
    check_finite(name, values)
    return values


def check_integer(name, value, least):
    """Raises unless `value` is an integer of at least `least`."""
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not (is_integer and value >= least):
        raise ValueError(
            f"`{name}` should be an integer of at least {least}. "
            f"Received: {name}={value!r}"
        )


def probabilities(name, values):
    """Returns numbers between 0 and 1, both excluded, as an array `[n]`."""
    array = np.atleast_1d(np.asarray(values, "float64"))
    if array.ndim != 1 or not array.size or not np.all((array > 0.0) & (array < 1.0)):
        raise ValueError(
            f"`{name}` should be a number between 0 and 1, or several such. "
            f"Received: {name}={values!r}"
        )
    return array
