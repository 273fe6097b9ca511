"""Room 4: reversible layers, which carry uncertainty from input to output."""

from bayesian_layers.layers.reversible.act_norm import ActNorm
from bayesian_layers.layers.reversible.affine import Affine, Scale, Shift
from bayesian_layers.layers.reversible.base_distribution import BaseDistribution
from bayesian_layers.layers.reversible.dequantization import UniformDequantization
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
from bayesian_layers.layers.reversible.invertible_conv import InvertibleConv1x1
from bayesian_layers.layers.reversible.kl_from_prior import KLFromPrior
from bayesian_layers.layers.reversible.made import MADE
from bayesian_layers.layers.reversible.multi_scale_split import MultiScaleSplit
from bayesian_layers.layers.reversible.reverse import Reverse
from bayesian_layers.layers.reversible.reversible_block import (
    ReversibleBlock,
    ReversibleStack,
)
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer
from bayesian_layers.layers.reversible.sequential import Sequential
from bayesian_layers.layers.reversible.squeeze import Squeeze

__all__ = [
    "ActNorm",
    "AdditiveCoupling",
    "Affine",
    "BaseDistribution",
    "Exp",
    "InverseAutoregressiveFlow",
    "InvertibleConv1x1",
    "KLFromPrior",
    "LeakyReLU",
    "Logit",
    "MADE",
    "MaskedAutoregressiveFlow",
    "MultiScaleSplit",
    "Permute",
    "RealNVP",
    "Reshape",
    "Reverse",
    "ReversibleBlock",
    "ReversibleLayer",
    "ReversibleStack",
    "Scale",
    "Sequential",
    "Shift",
    "Sigmoid",
    "Softplus",
    "SplineAutoregressiveFlow",
    "SplineCoupling",
    "Squeeze",
    "Tanh",
    "UniformDequantization",
]
