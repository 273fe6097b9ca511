"""Uncertainty over outputs."""

from bayesian_layers.layers.outputs.classes import (
    Bernoulli,
    Categorical,
    OneHotCategorical,
)
from bayesian_layers.layers.outputs.deterministic import Deterministic
from bayesian_layers.layers.outputs.discretize import Discretize
from bayesian_layers.layers.outputs.location_scale import (
    Laplace,
    Logistic,
    LogNormal,
    Normal,
    StudentT,
)
from bayesian_layers.layers.outputs.mixtures import (
    Mixture,
    MixtureLogistic,
    MixtureNormal,
)
from bayesian_layers.layers.outputs.positive_values import (
    Beta,
    Exponential,
    Gamma,
    NegativeBinomial,
    Poisson,
)
from bayesian_layers.layers.outputs.vectors import (
    Dirichlet,
    MultivariateNormalDiag,
    MultivariateNormalLowRank,
    MultivariateNormalTriL,
)

__all__ = [
    "Bernoulli",
    "Beta",
    "Categorical",
    "Deterministic",
    "Dirichlet",
    "Discretize",
    "Exponential",
    "Gamma",
    "Laplace",
    "LogNormal",
    "Logistic",
    "Mixture",
    "MixtureLogistic",
    "MixtureNormal",
    "MultivariateNormalDiag",
    "MultivariateNormalLowRank",
    "MultivariateNormalTriL",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "StudentT",
]
