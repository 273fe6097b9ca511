"""Keras layers that are distributions over functions."""

from bayesian_layers.layers import functions, outputs, reversible, weights
from bayesian_layers.layers.functions import *  # noqa: F403
from bayesian_layers.layers.outputs import *  # noqa: F403
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.returning import ReturnsRandomVariables
from bayesian_layers.layers.reversible import *  # noqa: F403
from bayesian_layers.layers.weights import *  # noqa: F403
from bayesian_layers.random_weights import RandomWeights

__all__ = [
    "RandomWeights",
    "ReceivesRandomVariables",
    "ReturnsRandomVariables",
    *functions.__all__,
    *outputs.__all__,
    *reversible.__all__,
    *weights.__all__,
]
