"""Keras layers that are distributions over functions."""

from bayesian_layers.layers import weights
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.weights import *  # noqa: F403

__all__ = ["ReceivesRandomVariables", *weights.__all__]
