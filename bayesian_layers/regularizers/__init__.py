"""Penalties on distributions over weights, registered by name; and all of Keras'."""

import keras

from bayesian_layers.registry import by_name
from bayesian_layers.regularizers.families import (
    CauchyKLDivergence,
    HalfCauchyKLDivergence,
    LogNormalKLDivergence,
    LogUniformKLDivergence,
    UniformKLDivergence,
)
from bayesian_layers.regularizers.kl_divergence import KLDivergence
from bayesian_layers.regularizers.normal import (
    NormalEmpiricalBayesKLDivergence,
    NormalKLDivergence,
    NormalKLDivergenceWithTiedMean,
    NormalMixtureKLDivergence,
    TrainableNormalKLDivergenceStddev,
)

__all__ = [
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
    "get",
]

get = by_name(
    "regularizer",
    [globals()[name] for name in __all__ if name != "get"],
    keras.regularizers.get,
)
