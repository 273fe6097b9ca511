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
from bayesian_layers.layers.reversible.flows import (
    AdditiveCoupling,
    InverseAutoregressiveFlow,
    MaskedAutoregressiveFlow,
    RealNVP,
    SplineAutoregressiveFlow,
    SplineCoupling,
)
from bayesian_layers.layers.reversible.made import MADE
from bayesian_layers.layers.reversible.reverse import Reverse
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer
from bayesian_layers.layers.reversible.sequential import Sequential

__all__ = [
    "AdditiveCoupling",
    "Affine",
    "BaseDistribution",
    "Exp",
    "InverseAutoregressiveFlow",
    "LeakyReLU",
    "Logit",
    "MADE",
    "MaskedAutoregressiveFlow",
    "Permute",
    "RealNVP",
    "Reshape",
    "Reverse",
    "ReversibleLayer",
    "Scale",
    "Sequential",
    "Shift",
    "Sigmoid",
    "Softplus",
    "SplineAutoregressiveFlow",
    "SplineCoupling",
    "Tanh",
]
