"""Invertible maps: one contract for distributions, parameters and reversible layers."""

from bayesian_layers.distributions.transforms.arrays import (
    LowerTriangular,
    StickBreaking,
)
from bayesian_layers.distributions.transforms.composition import (
    Chain,
    Elementwise,
    Reverse,
)
from bayesian_layers.distributions.transforms.contract import Map, Transform
from bayesian_layers.distributions.transforms.elementwise import (
    Affine,
    Bounded,
    Exp,
    Identity,
    Sigmoid,
    Softplus,
    Tanh,
)
from bayesian_layers.distributions.transforms.transform_to import transform_to

__all__ = [
    "Affine",
    "Bounded",
    "Chain",
    "Elementwise",
    "Exp",
    "Identity",
    "LowerTriangular",
    "Map",
    "Reverse",
    "Sigmoid",
    "Softplus",
    "StickBreaking",
    "Tanh",
    "Transform",
    "transform_to",
]
