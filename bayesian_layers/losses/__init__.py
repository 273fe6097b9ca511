"""Losses that see the distribution of an output."""

from bayesian_layers.losses.negative_log_likelihood import NegativeLogLikelihood

__all__ = ["NegativeLogLikelihood"]
