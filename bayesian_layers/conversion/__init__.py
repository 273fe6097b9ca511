"""From deterministic models to Bayesian ones, and back."""

from bayesian_layers.conversion.to_bayesian import to_bayesian
from bayesian_layers.conversion.to_deterministic import to_deterministic

__all__ = ["to_bayesian", "to_deterministic"]
