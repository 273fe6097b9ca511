"""Moments of a mixture of equally probable distributions, gathered draw by draw."""

import numpy as np
from keras import ops

from bayesian_layers.distributions import (
    Bernoulli,
    Categorical,
    Deterministic,
    OneHotCategorical,
)

CLASSIFIERS = (Bernoulli, Categorical, OneHotCategorical)


def moments_of(distribution):
    """Returns the moments of one draw, a dictionary of tensors."""
    if isinstance(distribution, CLASSIFIERS):
        return {"mean": distribution.probs, "entropy": distribution.entropy()}
    if isinstance(distribution, Deterministic):
        return {"mean": distribution.mean()}
    return {"mean": distribution.mean(), "variance": distribution.variance()}


def no_totals(spec, count):
    """Returns the totals of no draws, for `count` batches with moments of this spec."""
    if "entropy" not in spec:
        spec = {**spec, "squares": spec["mean"]}
    return {
        name: ops.zeros((count, *moment.shape), dtype=moment.dtype)
        for name, moment in spec.items()
    }


def add_draw(totals, count, moments):
    """Returns the totals of `count + 1` draws, from those of `count` and one more.

    The mean runs, with the sum of squares around it (`squares`, by Welford); the others
    are sums.
    """
    mean = totals["mean"]
    count = ops.cast(count, mean.dtype)
    shift = moments["mean"] - mean
    added = {"mean": mean + shift / (count + 1.0)}
    if "squares" in totals:
        change = ops.square(shift) * (count / (count + 1.0))
        added["squares"] = totals["squares"] + change
    for name in moments.keys() - {"mean"}:
        added[name] = totals[name] + moments[name]
    return added


class Moments:
    """The moments of all examples, NumPy arrays `[examples, ...]`.

    By the law of total variance the variance of the mixture is the variance of the
    means (epistemic) plus the mean of the variances (aleatoric). Of classifiers the
    entropy of the mean probabilities is the mutual information (epistemic) plus the
    mean of the entropies (aleatoric).

    Args:
        family: The class of the distributions.
        count: The number of draws.
        totals: What `add_draw` returned for the last of them, as arrays.
    """

    def __init__(self, family, count, totals):
        self.family = family
        self.count = count
        self.mean = totals["mean"]
        for name in totals.keys() - {"mean"}:
            totals[name] /= count
        self._means = totals

    @property
    def variance_of_means(self):
        """The variance of the means of the draws."""
        return self._means["squares"]

    @property
    def mean_of_variances(self):
        """The mean of the variances of the draws."""
        return self._means.get("variance", np.zeros_like(self.mean))

    @property
    def mean_of_entropies(self):
        """The mean of the entropies of the draws, of classifiers."""
        return self._means["entropy"]
