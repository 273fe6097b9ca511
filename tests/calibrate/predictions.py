"""Predictions made of arrays, without a model."""

import numpy as np

import bayesian_layers as bl
from bayesian_layers.prediction.moments import Moments


def of_normals(mean, stddev):
    """Of a model with a normal distribution for each output."""
    totals = {"mean": mean, "squares": np.zeros_like(mean), "variance": stddev**2}
    return bl.Prediction(Moments(bl.distributions.Normal, 1, totals))


def of_values(values, num_samples=1, seed=0):
    """Of a plain model."""
    totals = {"mean": values, "squares": np.zeros_like(values)}
    moments = Moments(bl.distributions.Deterministic, num_samples, totals)
    return bl.Prediction(moments, seed=seed)


def of_classes(probs):
    """Of a classifier, `[n, classes]`."""
    totals = {"mean": probs, "entropy": np.zeros(probs.shape[:-1])}
    return bl.Prediction(Moments(bl.distributions.Categorical, 1, totals))


def of_zeros_and_ones(probs):
    """Of a classifier of two classes, `[n, outputs]`."""
    totals = {"mean": probs, "entropy": np.zeros_like(probs)}
    return bl.Prediction(Moments(bl.distributions.Bernoulli, 1, totals))
