"""Uncertainty over functions: Gaussian processes."""

from bayesian_layers.layers.functions.gaussian_process import GaussianProcess
from bayesian_layers.layers.functions.inducing import inducing_inputs
from bayesian_layers.layers.functions.mean_functions import principal_components
from bayesian_layers.layers.functions.sparse_gaussian_process import (
    SparseGaussianProcess,
)

__all__ = [
    "GaussianProcess",
    "SparseGaussianProcess",
    "inducing_inputs",
    "principal_components",
]
