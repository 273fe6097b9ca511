"""Uncertainty over functions."""

from bayesian_layers.layers.functions.random_feature_gaussian_process import (
    RandomFeatureGaussianProcess,
)
from bayesian_layers.layers.functions.random_fourier_features import (
    RandomFourierFeatures,
)
from bayesian_layers.layers.functions.spectral_normalization import (
    SpectralNormalization,
)

__all__ = [
    "RandomFeatureGaussianProcess",
    "RandomFourierFeatures",
    "SpectralNormalization",
]
