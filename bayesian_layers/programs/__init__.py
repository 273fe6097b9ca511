"""Inference for probabilistic programs, in which layers take part."""

from bayesian_layers.programs.bound import BoundProgram, latent_variables
from bayesian_layers.programs.log_joint import LogJoint, make_log_joint_fn
from bayesian_layers.programs.mcmc import mcmc

__all__ = [
    "BoundProgram",
    "LogJoint",
    "latent_variables",
    "make_log_joint_fn",
    "mcmc",
]
