"""From deterministic models to Bayesian ones, and back."""

from bayesian_layers.conversion.to_bayesian import to_bayesian

__all__ = ["to_bayesian"]
