"""Penalties on distributions over weights, registered by name; and all of Keras'."""

import keras

from bayesian_layers.distributions import Distribution
from bayesian_layers.registry import by_name
from bayesian_layers.regularizers.checks import check, of_known_weight
from bayesian_layers.regularizers.families import (
    CauchyKLDivergence,
    HalfCauchyKLDivergence,
    LogNormalKLDivergence,
    LogUniformKLDivergence,
    UniformKLDivergence,
)
from bayesian_layers.regularizers.kl_divergence import KLDivergence
from bayesian_layers.regularizers.normal import (
    AnchoredNormalKLDivergence,
    NormalEmpiricalBayesKLDivergence,
    NormalKLDivergence,
    NormalKLDivergenceWithTiedMean,
    NormalMixtureKLDivergence,
    TrainableNormalKLDivergenceStddev,
)

__all__ = [
    "AnchoredNormalKLDivergence",
    "CauchyKLDivergence",
    "HalfCauchyKLDivergence",
    "KLDivergence",
    "LogNormalKLDivergence",
    "LogUniformKLDivergence",
    "NormalEmpiricalBayesKLDivergence",
    "NormalKLDivergence",
    "NormalKLDivergenceWithTiedMean",
    "NormalMixtureKLDivergence",
    "TrainableNormalKLDivergenceStddev",
    "UniformKLDivergence",
    "check",
    "get",
    "of_known_weight",
]

_by_name = by_name(
    "regularizer",
    [globals()[name] for name in __all__ if name[0].isupper()],
    keras.regularizers.get,
)


def get(identifier):
    """Returns a regularizer.

    Args:
        identifier: A name, a config, an instance, a callable, or `None`. Names are
            those of the classes here, as they are or in snake case, then Keras' own.

    Returns:
        A callable, or `None`.
    """
    if isinstance(identifier, Distribution):
        raise ValueError(
            "A prior is given by its divergence: "
            "`bl.regularizers.KLDivergence(prior)`. "
            f"Received: a distribution as a regularizer, {identifier!r}"
        )
    if identifier in ("kl_divergence", "KLDivergence"):
        raise ValueError(
            "`bl.regularizers.KLDivergence` needs a prior: "
            "`KLDivergence(bl.distributions.Laplace(0.0, 1.0))`, say. The divergence "
            'from a standard normal prior is `"normal_kl_divergence"`. '
            f"Received: {identifier!r}"
        )
    return _by_name(identifier)
