"""Uncertainty over outputs."""

from bayesian_layers.layers.outputs.categorical import Categorical
from bayesian_layers.layers.outputs.normal import Normal

__all__ = ["Categorical", "Normal"]
