"""Moments of a mixture of equally probable distributions, gathered in parts."""

import numpy as np
from keras import ops

from bayesian_layers.distributions import (
    Bernoulli,
    Categorical,
    Deterministic,
    OneHotCategorical,
)

CLASSIFIERS = (Bernoulli, Categorical, OneHotCategorical)


def array(x):
    """Returns a tensor as a NumPy array."""
    return ops.convert_to_numpy(x)


class Moments:
    """Means over draws: `[draws, examples, ...]` come in parts, `[examples, ...]` stay.

    By the law of total variance the variance of the mixture is the variance of the
    means (epistemic) plus the mean of the variances (aleatoric). Of classifiers the
    entropy of the mean probabilities is the mutual information (epistemic) plus the
    mean of the entropies (aleatoric).
    """

    def __init__(self):
        self.count = 0
        self.family = None
        self._means = {}
        self._spread = 0.0

    @classmethod
    def joined(cls, moments):
        """Returns the moments of all examples, from those of parts of them."""
        joined = cls()
        joined.count, joined.family = moments[0].count, moments[0].family
        joined._means = {
            name: np.concatenate([m._means[name] for m in moments])
            for name in moments[0]._means
        }
        joined._spread = np.concatenate([m._spread for m in moments])
        return joined

    def add(self, distribution):
        """Adds a part: a distribution with batch axes `[draws, examples, ...]`."""
        self.family = type(distribution)
        values = dict(self._values(distribution))
        centre = values["mean"]
        count = centre.shape[0]
        total = self.count + count
        before = self._means.get("mean", 0.0)
        shift = centre.mean(axis=0) - before
        # Chan, Golub and LeVeque: sums of squares around the means of the parts.
        self._spread = (
            self._spread
            + np.square(centre - centre.mean(axis=0)).sum(axis=0)
            + np.square(shift) * self.count * count / total
        )
        for name, value in values.items():
            old = self._means.get(name, 0.0)
            self._means[name] = old + (value.mean(axis=0) - old) * count / total
        self.count = total

    @staticmethod
    def _values(distribution):
        if isinstance(distribution, CLASSIFIERS):
            yield "mean", array(distribution.probs).astype("float64")
            yield "entropy", array(distribution.entropy()).astype("float64")
        elif isinstance(distribution, Deterministic):
            yield "mean", array(distribution.mean()).astype("float64")
        else:
            yield "mean", array(distribution.mean()).astype("float64")
            yield "variance", array(distribution.variance()).astype("float64")

    @property
    def mean(self):
        """The mean; of classifiers the class probabilities."""
        return self._means["mean"]

    @property
    def variance_of_means(self):
        """The variance of the means of the draws."""
        return self._spread / self.count

    @property
    def mean_of_variances(self):
        """The mean of the variances of the draws."""
        return self._means.get("variance", np.zeros_like(self.mean))

    @property
    def mean_of_entropies(self):
        """The mean of the entropies of the draws, of classifiers."""
        return self._means["entropy"]
