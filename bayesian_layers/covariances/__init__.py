"""Covariance functions: layers whose weights are hyperparameters."""

from bayesian_layers.covariances.compositions import Product, Stacked, Sum
from bayesian_layers.covariances.covariance import Covariance
from bayesian_layers.covariances.deep_kernel import DeepKernel
from bayesian_layers.covariances.dot_products import ArcCosine, Linear, Polynomial
from bayesian_layers.covariances.from_function import FromFunction
from bayesian_layers.covariances.identifiers import get, known
from bayesian_layers.covariances.matern import (
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
)
from bayesian_layers.covariances.one_draw import one_draw
from bayesian_layers.covariances.periodic import Cosine, Periodic
from bayesian_layers.covariances.radial import ExponentiatedQuadratic
from bayesian_layers.covariances.simple import Constant, White

__all__ = [
    "ArcCosine",
    "Constant",
    "Cosine",
    "Covariance",
    "DeepKernel",
    "ExponentiatedQuadratic",
    "FromFunction",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Stacked",
    "Sum",
    "White",
    "get",
    "one_draw",
]

known(
    ArcCosine,
    Constant,
    Cosine,
    ExponentiatedQuadratic,
    FromFunction,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Stacked,
    White,
)
