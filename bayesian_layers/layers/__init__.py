"""Keras layers that are distributions over functions."""

from bayesian_layers.layers.receiving import ReceivesRandomVariables

__all__ = ["ReceivesRandomVariables"]
