"""Keras layers that are distributions over functions."""

from bayesian_layers.layers import functions, outputs, weights
from bayesian_layers.layers.functions import *  # noqa: F403
from bayesian_layers.layers.outputs import *  # noqa: F403
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.weights import *  # noqa: F403
from bayesian_layers.random_weights import RandomWeights

__all__ = [
    "RandomWeights",
    "ReceivesRandomVariables",
    *functions.__all__,
    *outputs.__all__,
    *weights.__all__,
]
