"""Callbacks for `fit`."""

from bayesian_layers.callbacks.collect_draws import CollectDraws
from bayesian_layers.callbacks.kl_schedule import KLSchedule
from bayesian_layers.callbacks.reset_precision import ResetPrecision

__all__ = ["CollectDraws", "KLSchedule", "ResetPrecision"]
