"""Inference for probabilistic programs, in which layers take part."""

from bayesian_layers.programs.bound import BoundProgram, latent_variables
from bayesian_layers.programs.elbo import elbo
from bayesian_layers.programs.guides import FullRankGuide, MeanFieldGuide
from bayesian_layers.programs.log_joint import LogJoint, make_log_joint_fn
from bayesian_layers.programs.mcmc import mcmc
from bayesian_layers.programs.variational_inference import VariationalInference

__all__ = [
    "BoundProgram",
    "FullRankGuide",
    "LogJoint",
    "MeanFieldGuide",
    "VariationalInference",
    "elbo",
    "latent_variables",
    "make_log_joint_fn",
    "mcmc",
]
