"""Keras layers that are distributions over functions."""

from bayesian_layers.layers import outputs, weights
from bayesian_layers.layers.outputs import *  # noqa: F403
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.weights import *  # noqa: F403

__all__ = ["ReceivesRandomVariables", *outputs.__all__, *weights.__all__]
