"""Uncertainty over functions."""

from bayesian_layers.layers.functions.spectral_normalization import (
    SpectralNormalization,
)

__all__ = ["SpectralNormalization"]
