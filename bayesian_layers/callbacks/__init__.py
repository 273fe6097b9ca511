"""Callbacks for `fit`."""

from bayesian_layers.callbacks.kl_schedule import KLSchedule

__all__ = ["KLSchedule"]
