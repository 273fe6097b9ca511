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
from bayesian_layers.layers.functions.random_feature_gaussian_process import (
    RandomFeatureGaussianProcess,
)
from bayesian_layers.layers.functions.random_fourier_features import (
    RandomFourierFeatures,
)
from bayesian_layers.layers.functions.sparse_gaussian_process import (
    SparseGaussianProcess,
)
from bayesian_layers.layers.functions.spectral_normalization import (
    SpectralNormalization,
)

__all__ = [
    "BernoulliLikelihood",
    "CategoricalLikelihood",
    "GaussianLikelihood",
    "GaussianProcess",
    "Likelihood",
    "PoissonLikelihood",
    "PoissonProcess",
    "RandomFeatureGaussianProcess",
    "RandomFourierFeatures",
    "SpectralNormalization",
    "SparseGaussianProcess",
    "StudentTLikelihood",
    "deep_gaussian_process",
    "inducing_inputs",
    "principal_components",
]
