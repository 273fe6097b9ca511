"""Predictions made of given numbers, without a model."""

import numpy as np
from scipy import special

import bayesian_layers as bl
from bayesian_layers.prediction.moments import Moments


def of_normal(loc, scale):
    """The prediction of draws of `Normal(loc, scale)`, [samples, examples, ...]."""
    loc = np.asarray(loc, "float32")
    scale = np.broadcast_to(np.float32(scale), loc.shape).copy()
    totals = {
        "mean": loc.mean(axis=0),
        "squares": len(loc) * loc.var(axis=0),
        "variance": np.sum(scale**2, axis=0),
    }
    moments = Moments(bl.distributions.Normal, len(loc), totals)
    return bl.Prediction(moments, bl.distributions.Normal(loc, scale))


def of_poisson(rate):
    """The prediction of draws of `Poisson(rate)`."""
    rate = np.asarray(rate, "float32")
    totals = {
        "mean": rate.mean(axis=0),
        "squares": len(rate) * rate.var(axis=0),
        "variance": rate.sum(axis=0),
    }
    moments = Moments(bl.distributions.Poisson, len(rate), totals)
    return bl.Prediction(moments, bl.distributions.Poisson(rate))


def of_values(values):
    """The prediction of a model with plain outputs."""
    values = np.asarray(values, "float32")
    totals = {"mean": values.mean(axis=0), "squares": len(values) * values.var(axis=0)}
    moments = Moments(bl.distributions.Deterministic, len(values), totals)
    return bl.Prediction(moments, bl.distributions.Deterministic(values))


def of_classes(probs, family=bl.distributions.Categorical):
    """The prediction of a classifier, from probabilities [samples, examples, ...]."""
    probs = np.asarray(probs, "float32")
    entropies = special.entr(probs)
    if family is bl.distributions.Bernoulli:
        entropies = entropies + special.entr(1.0 - probs)
    else:
        entropies = entropies.sum(axis=-1)
    totals = {"mean": probs.mean(axis=0), "entropy": entropies.sum(axis=0)}
    return bl.Prediction(Moments(family, len(probs), totals), family(probs=probs))


def labels(ax):
    """The texts of a legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    """The numbers of the line of a label, [2, n]."""
    [found] = [line for line in ax.lines if line.get_label() == label]
    return np.array(found.get_data())
