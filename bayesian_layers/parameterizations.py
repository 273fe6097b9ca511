"""Parameterizations: maps from any real number to an allowed one.

A trained parameter is stored untransformed and read through such a map. Each has an
inverse, `reverse`, which says what to store for a wanted value.
"""

import keras
from keras import ops

from bayesian_layers.distributions.transforms import Exp, Softplus
from bayesian_layers.registry import by_name

__all__ = ["Exp", "Softplus", "get", "untransformed"]

_get = by_name("constraint", [Exp, Softplus], keras.constraints.get)


def get(identifier):
    """Returns a parameterization.

    Args:
        identifier: A name (`"softplus"`, `"exp"`, or that of a Keras constraint), a
            config, an instance, a callable, or `None`.

    Returns:
        A callable, or `None`.
    """
    name = identifier
    if isinstance(identifier, dict):
        name = identifier.get("class_name")
    if isinstance(name, str) and name.lower() == "positive":
        raise ValueError(
            "max(x, epsilon) is no parameterization: where it is epsilon it has no "
            'gradient, and stays there. Use "softplus", or "exp". '
            f"Received: {identifier!r}"
        )
    return _get(identifier)


def untransformed(parameterization, value, dtype="float32"):
    """Returns the number to store for a parameter that is to start at `value`.

    Args:
        parameterization: What the stored number is read through, or `None`.
        value: A Python number, in natural units.
        dtype: The dtype of the stored number.

    Returns:
        A scalar tensor x with `parameterization(x) == value`, but for rounding. Layers
        may be built while a function is traced: there is no Python number then.

    Raises:
        ValueError: If the parameterization has no `reverse`.

    Example:
    >>> softplus = bl.parameterizations.get("softplus")
    >>> round(float(bl.parameterizations.untransformed(softplus, 0.048587)), 3)
    -3.0
    """
    value = ops.convert_to_tensor(value, dtype)
    if parameterization is None:
        return value
    if not hasattr(parameterization, "reverse"):
        raise ValueError(
            "A parameterization without `reverse` does not say what to store for a "
            "wanted value: give the untransformed number, or use one of "
            f"`bl.distributions.transforms`. Received: {parameterization!r}"
        )
    return parameterization.reverse(value)
