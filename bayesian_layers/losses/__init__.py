"""Losses that see the distribution of an output."""

from bayesian_layers.losses.distribution_loss import DistributionLoss
from bayesian_layers.losses.function_of_distribution import of_distribution
from bayesian_layers.losses.negative_log_likelihood import NegativeLogLikelihood

__all__ = ["DistributionLoss", "NegativeLogLikelihood", "of_distribution"]
