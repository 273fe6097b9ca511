"""Metrics that see the distribution of an output."""

from bayesian_layers.metrics.accuracy import Accuracy
from bayesian_layers.metrics.negative_log_likelihood import NegativeLogLikelihood

__all__ = ["Accuracy", "NegativeLogLikelihood"]
