"""Uncertainty over outputs."""

from bayesian_layers.layers.outputs.classes import (
    Bernoulli,
    Categorical,
    OneHotCategorical,
)
from bayesian_layers.layers.outputs.discretize import Discretize
from bayesian_layers.layers.outputs.distribution_lambda import DistributionLambda
from bayesian_layers.layers.outputs.family_layer import FamilyLayer
from bayesian_layers.layers.outputs.mixtures import (
    Mixture,
    MixtureLogistic,
    MixtureNormal,
)
from bayesian_layers.layers.outputs.numbers import (
    Beta,
    Deterministic,
    Exponential,
    Gamma,
    Laplace,
    Logistic,
    LogNormal,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
)
from bayesian_layers.layers.outputs.output_layer import OutputLayer
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
    "DistributionLambda",
    "Exponential",
    "FamilyLayer",
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
    "OutputLayer",
    "Poisson",
    "StudentT",
]
