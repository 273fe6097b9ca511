"""Distributions over weights, registered by name; and all of Keras' initializers."""

import keras

from bayesian_layers.initializers.dependent import (
    ScaledIdentity,
    TrainableLowRankNormal,
    TrainableMultivariateNormal,
    TrainableRadial,
)
from bayesian_layers.initializers.fixed import as_posterior
from bayesian_layers.initializers.location_scale import (
    TrainableCauchy,
    TrainableDeterministic,
    TrainableDropoutNormal,
    TrainableHalfCauchy,
    TrainableLogNormal,
)
from bayesian_layers.initializers.normal import (
    TrainableNormal,
    TrainableNormalFixedStddev,
    TrainableNormalSharedStddev,
)
from bayesian_layers.initializers.posterior import NaturalConstant, Posterior
from bayesian_layers.registry import by_name

__all__ = [
    "NaturalConstant",
    "Posterior",
    "as_posterior",
    "ScaledIdentity",
    "TrainableCauchy",
    "TrainableDeterministic",
    "TrainableDropoutNormal",
    "TrainableHalfCauchy",
    "TrainableLogNormal",
    "TrainableLowRankNormal",
    "TrainableMultivariateNormal",
    "TrainableNormal",
    "TrainableNormalFixedStddev",
    "TrainableNormalSharedStddev",
    "TrainableRadial",
    "get",
]

get = by_name(
    "initializer",
    [
        globals()[name]
        for name in __all__
        if name[0].isupper() and name not in ("NaturalConstant", "Posterior")
    ],
    keras.initializers.get,
)
