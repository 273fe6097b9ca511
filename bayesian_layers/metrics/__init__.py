"""Metrics that see the distribution of an output."""

from bayesian_layers.metrics.accuracy import Accuracy

__all__ = ["Accuracy"]
