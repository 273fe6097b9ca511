"""Covariance functions: layers whose weights are hyperparameters."""

from bayesian_layers.covariances.compositions import Product, Stacked, Sum
from bayesian_layers.covariances.covariance import Covariance
from bayesian_layers.covariances.identifiers import get, known
from bayesian_layers.covariances.one_draw import one_draw
from bayesian_layers.covariances.radial import ExponentiatedQuadratic
from bayesian_layers.covariances.simple import Constant, White

__all__ = [
    "Constant",
    "Covariance",
    "ExponentiatedQuadratic",
    "Product",
    "Stacked",
    "Sum",
    "White",
    "get",
    "one_draw",
]

known(Constant, ExponentiatedQuadratic, Product, Stacked, Sum, White)
