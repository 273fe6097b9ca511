"""Random weights for any layer: the mechanism under the rooms of layers."""

from bayesian_layers.random_weights.deterministic import load_deterministic_weights
from bayesian_layers.random_weights.held import weights
from bayesian_layers.random_weights.kl import scale_kl, total_kl
from bayesian_layers.random_weights.random_weight import RandomWeight
from bayesian_layers.random_weights.random_weights import RandomWeights
from bayesian_layers.random_weights.role import role

__all__ = [
    "RandomWeight",
    "RandomWeights",
    "load_deterministic_weights",
    "role",
    "scale_kl",
    "total_kl",
    "weights",
]
