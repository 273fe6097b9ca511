"""Mean functions of Gaussian processes."""

import keras
import numpy as np
from keras import ops


def get(identifier):
    """Returns a mean function.

    Args:
        identifier: `None` or `"zeros"`, for a mean of zero; `"identity"`, for
            m(x) = x; or a function or Keras layer from points `[n, D]` to `[n, units]`,
            whose weights are trained with those of the process.

    Returns:
        A callable, or `None` for zero.
    """
    if identifier is None or identifier == "zeros":
        return None
    if identifier == "identity":
        return keras.layers.Identity()
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if not callable(identifier):
        raise ValueError(
            '`mean_fn` should be `None`, "zeros", "identity", or a function or layer '
            f"from points [n, D] to [n, units]. Received: mean_fn={identifier!r}"
        )
    return identifier


def principal_components(x, units):
    """Returns a mean function for an inner layer of a deep process: a linear map.

    If there are as many `units` as columns of `x` it is the identity. If there are
    fewer, it projects on the principal components of `x`; if there are more, it fills
    up with zeros. It does not train.

    Args:
        x: Points `[n, D]`: the inputs of the layer, as NumPy array.
        units: The number of outputs.

    Returns:
        A Keras layer.

    Reference: Salimbeni and Deisenroth (2017), Doubly stochastic variational inference
    for deep Gaussian processes.

    Example:
    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> mean_fn = bl.layers.principal_components(x, units=2)
    >>> ops.shape(mean_fn(x))
    (20, 2)
    """
    x = np.asarray(x)
    if x.ndim != 2 or not len(x):
        raise ValueError(f"`x` should be points [n, D]. Received: x.shape={x.shape}")
    size = x.shape[1]
    if units == size:
        return keras.layers.Identity()
    if units < size:
        directions = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2]
        matrix = np.zeros((size, units))
        found = directions[:units].T
        matrix[:, : found.shape[1]] = found
    else:
        matrix = np.eye(size, units)
    layer = keras.layers.Dense(units, use_bias=False, trainable=False)
    layer.build((None, size))
    layer.kernel.assign(matrix.astype("float32"))
    return layer


def value_of(mean_fn, x, units, dtype):
    """The mean at points `[n, D]`, of shape `[n, units]`; 0.0 for no mean function."""
    if mean_fn is None:
        return 0.0
    mean = ops.cast(mean_fn(x), dtype)
    if len(mean.shape) != 2 or mean.shape[-1] not in (units, 1):
        raise ValueError(
            f"`mean_fn` should map points [n, D] to [n, {units}]. Received: points of "
            f"shape {tuple(x.shape)} mapped to {tuple(mean.shape)}"
        )
    return mean
