"""Room 4: reversible layers, which carry uncertainty from input to output."""

from bayesian_layers.layers.reversible.affine import Affine, Scale, Shift
from bayesian_layers.layers.reversible.base_distribution import BaseDistribution
from bayesian_layers.layers.reversible.elementwise import (
    Exp,
    LeakyReLU,
    Logit,
    Permute,
    Reshape,
    Sigmoid,
    Softplus,
    Tanh,
)
from bayesian_layers.layers.reversible.reverse import Reverse
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer
from bayesian_layers.layers.reversible.sequential import Sequential

__all__ = [
    "Affine",
    "BaseDistribution",
    "Exp",
    "LeakyReLU",
    "Logit",
    "Permute",
    "Reshape",
    "Reverse",
    "ReversibleLayer",
    "Scale",
    "Sequential",
    "Shift",
    "Sigmoid",
    "Softplus",
    "Tanh",
]
