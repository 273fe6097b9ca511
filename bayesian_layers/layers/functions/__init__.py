"""Uncertainty over functions: Gaussian processes, and likelihoods of functions."""

from bayesian_layers.layers.functions.deep import deep_gaussian_process
from bayesian_layers.layers.functions.gaussian_process import GaussianProcess
from bayesian_layers.layers.functions.inducing import inducing_inputs
from bayesian_layers.layers.functions.likelihoods import (
    BernoulliLikelihood,
    CategoricalLikelihood,
    GaussianLikelihood,
    Likelihood,
    PoissonLikelihood,
    StudentTLikelihood,
)
from bayesian_layers.layers.functions.mean_functions import principal_components
from bayesian_layers.layers.functions.poisson_process import PoissonProcess
from bayesian_layers.layers.functions.sparse_gaussian_process import (
    SparseGaussianProcess,
)

__all__ = [
    "BernoulliLikelihood",
    "CategoricalLikelihood",
    "GaussianLikelihood",
    "GaussianProcess",
    "Likelihood",
    "PoissonLikelihood",
    "PoissonProcess",
    "SparseGaussianProcess",
    "StudentTLikelihood",
    "deep_gaussian_process",
    "inducing_inputs",
    "principal_components",
]
