"""Distributions over weights, registered by name; and all of Keras' initializers."""

import keras

from bayesian_layers.initializers.dependent import (
    ScaledIdentity,
    TrainableKroneckerNormal,
    TrainableLowRankNormal,
    TrainableMultivariateNormal,
    TrainableMultivariateNormalRows,
    TrainableRadial,
)
from bayesian_layers.initializers.fixed import as_posterior
from bayesian_layers.initializers.flow import TrainableFlow
from bayesian_layers.initializers.location_scale import (
    TrainableCauchy,
    TrainableDeterministic,
    TrainableDropoutNormal,
    TrainableHalfCauchy,
    TrainableLogNormal,
)
from bayesian_layers.initializers.normal import (
    TrainableNormal,
    TrainableNormalFanIn,
    TrainableNormalFixedStddev,
    TrainableNormalSharedStddev,
)
from bayesian_layers.initializers.posterior import (
    FanInConstant,
    NaturalConstant,
    Posterior,
)
from bayesian_layers.registry import by_name

__all__ = [
    "FanInConstant",
    "NaturalConstant",
    "Posterior",
    "as_posterior",
    "ScaledIdentity",
    "TrainableCauchy",
    "TrainableDeterministic",
    "TrainableDropoutNormal",
    "TrainableFlow",
    "TrainableHalfCauchy",
    "TrainableLogNormal",
    "TrainableKroneckerNormal",
    "TrainableLowRankNormal",
    "TrainableMultivariateNormal",
    "TrainableMultivariateNormalRows",
    "TrainableNormal",
    "TrainableNormalFanIn",
    "TrainableNormalFixedStddev",
    "TrainableNormalSharedStddev",
    "TrainableRadial",
    "get",
]

_NOT_BY_NAME = ("FanInConstant", "NaturalConstant", "Posterior")

get = by_name(
    "initializer",
    [
        globals()[name]
        for name in __all__
        if name[0].isupper() and name not in _NOT_BY_NAME
    ],
    keras.initializers.get,
)
