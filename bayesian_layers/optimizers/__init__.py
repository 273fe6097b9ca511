"""Optimizers that draw: weights from their posterior, by `fit`."""

from bayesian_layers.optimizers.langevin import SGHMC, SGLD

__all__ = ["SGHMC", "SGLD"]
