"""Covariances by name."""

from typing import Any

import keras

from bayesian_layers.covariances.covariance import Covariance
from bayesian_layers.registry import snake_case

_KNOWN = {}


def known(*classes):
    """Makes covariances known by name, as it is and in snake case."""
    for cls in classes:
        _KNOWN[cls.__name__] = _KNOWN[snake_case(cls.__name__)] = cls


def get(identifier: Any) -> Covariance:
    """Returns a covariance.

    Args:
        identifier: A name, `"ExponentiatedQuadratic"` or `"exponentiated_quadratic"`;
            a config; a covariance, which is returned; a function `(x, z) -> matrix`
            (see `bl.covariances.FromFunction`); or a list of these, one for each
            function (see `bl.covariances.Stacked`).

    Example:
    >>> bl.covariances.get("matern32")
    Matern32(amplitude=1., lengthscale=1.)
    """
    if isinstance(identifier, Covariance):
        return identifier
    if isinstance(identifier, str) and identifier in _KNOWN:
        return _KNOWN[identifier]()
    if isinstance(identifier, (list, tuple)):
        return _KNOWN["Stacked"](identifier)
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
        return get(identifier)
    if callable(identifier):
        return _KNOWN["FromFunction"](identifier)
    raise ValueError(
        "Expected a covariance, the name or config of one, a function (x, z) -> "
        "matrix, or a list of these. Names are "
        f"{sorted(name for name in _KNOWN if name.islower())}. "
        f"Received: {identifier!r}"
    )
