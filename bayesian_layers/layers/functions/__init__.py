"""Uncertainty over functions."""

from bayesian_layers.layers.functions.likelihoods import (
    BernoulliLikelihood,
    CategoricalLikelihood,
    GaussianLikelihood,
    Likelihood,
    PoissonLikelihood,
    StudentTLikelihood,
)
from bayesian_layers.layers.functions.poisson_process import PoissonProcess

__all__ = [
    "BernoulliLikelihood",
    "CategoricalLikelihood",
    "GaussianLikelihood",
    "Likelihood",
    "PoissonLikelihood",
    "PoissonProcess",
    "StudentTLikelihood",
]
