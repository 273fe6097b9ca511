"""The weights of what a metric counts."""

import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import shapes
from bayesian_layers.keras_contact import in_symbolic_scope
from bayesian_layers.losses.alignment import weights_of


def weights_like(values, y_pred, sample_weight, dtype):
    """Returns weights of the shape of `values`, 0 where `y_pred` is masked."""
    ones = ops.ones_like(values, dtype=dtype)
    weights = weights_of(y_pred, sample_weight, shapes.static(values), dtype)
    return ones if weights is None else weights * ones


def checked(weights, is_right, message):
    """Returns the weights; raises if something that has one is wrong.

    In a compiled function nobody can look: what is wrong has a weight of NaN there, and
    so is the result.

    Args:
        weights: An array `[...]`.
        is_right: Booleans of that shape.
        message: A function from the position of the first that is wrong, in the
            flattened array, to the message.
    """
    is_right = ops.logical_or(is_right, ops.equal(weights, 0.0))
    # In the symbolic scope PyTorch has arrays of ones in place of data.
    if backend.is_concrete(is_right) and not in_symbolic_scope():
        if not bool(ops.all(is_right)):
            position = int(np.argmin(ops.convert_to_numpy(is_right)))
            raise ValueError(message(position))
    return ops.where(is_right, weights, np.nan)
