"""Slow and obvious NumPy distributions: what the fast ones are compared with.

All have `log_prob`, `mean`, `variance` and `draw`, and those of `cdf`, `quantile` and
`entropy` that there are. Values have shape `[..., *batch, *event]`.
"""

import numpy as np
from scipy import special


class Scipy:
    """A frozen univariate distribution of SciPy, under our names."""

    def __init__(self, frozen, batch_shape):
        self.frozen = frozen
        self.batch_shape = batch_shape
        self.is_continuous = hasattr(frozen, "pdf")
        self.log_prob = frozen.logpdf if self.is_continuous else frozen.logpmf
        self.cdf = frozen.cdf
        self.log_cdf = frozen.logcdf
        self.log_survival = frozen.logsf
        self.quantile = frozen.ppf
        self.mean = frozen.mean
        self.variance = frozen.var
        self.entropy = frozen.entropy

    def draw(self, rng, count):
        return self.frozen.ppf(rng.uniform(size=(count, *self.batch_shape)))


def scipy(family, *arguments, **named):
    """Freezes a family; what is not given by name is shape parameters."""
    shapes = [np.shape(a) for a in (*arguments, *named.values())]
    return Scipy(family(*arguments, **named), np.broadcast_shapes(*shapes))


class Point:
    """All mass on `loc`."""

    def __init__(self, loc):
        self.loc = np.asarray(loc)

    def log_prob(self, x):
        return np.where(x == self.loc, 0.0, -np.inf)

    def cdf(self, x):
        return np.where(x >= self.loc, 1.0, 0.0)

    def quantile(self, p):
        return self.loc + 0.0 * p

    def mean(self):
        return self.loc

    def variance(self):
        return np.zeros_like(self.loc)

    def entropy(self):
        return np.zeros_like(self.loc)

    def draw(self, rng, count):
        return np.broadcast_to(self.loc, (count, *self.loc.shape))


class Finite:
    """The values 0, 1, ... with the probabilities on the last axis."""

    def __init__(self, probs):
        self.probs = np.asarray(probs)
        self.size = self.probs.shape[-1]

    def _sum_over(self, included):
        return sum(
            np.where(included(value), self.probs[..., value], 0.0)
            for value in range(self.size)
        )

    def log_prob(self, x):
        return np.log(self._sum_over(lambda value: x == value))

    def cdf(self, x):
        return self._sum_over(lambda value: value <= x)

    def mean(self):
        return self.probs @ np.arange(self.size)

    def variance(self):
        deviation = np.arange(self.size) - self.mean()[..., None]
        return np.sum(self.probs * np.square(deviation), axis=-1)

    def entropy(self):
        return special.entr(self.probs).sum(axis=-1)

    def draw(self, rng, count):
        u = rng.uniform(size=(count, *self.probs.shape[:-1], 1))
        return np.sum(u > np.cumsum(self.probs, axis=-1)[..., :-1], axis=-1)


class Independent:
    """The last batch axis of a univariate reference as the event."""

    def __init__(self, base):
        self.base = base
        self.mean, self.variance, self.draw = base.mean, base.variance, base.draw

    def log_prob(self, x):
        return self.base.log_prob(x).sum(axis=-1)

    def entropy(self):
        return self.base.entropy().sum(axis=-1)


class Mixture:
    """Weights on the last axis, components on the last batch axis."""

    def __init__(self, probs, components, event_rank=0):
        self.probs = np.asarray(probs)
        self.components = components
        self.axis = -1 - event_rank

    def _average(self, values, axis):
        weights = self.probs.reshape(self.probs.shape + (1,) * (-1 - axis))
        return np.sum(weights * values, axis=axis)

    def log_prob(self, x):
        log_probs = self.components.log_prob(np.expand_dims(x, self.axis))
        return special.logsumexp(np.log(self.probs) + log_probs, axis=-1)

    def cdf(self, x):
        return self._average(self.components.cdf(x[..., None]), -1)

    def mean(self):
        return self._average(self.components.mean(), self.axis)

    def variance(self):
        second = self.components.variance() + np.square(self.components.mean())
        return self._average(second, self.axis) - np.square(self.mean())

    def draw(self, rng, count):
        draws = self.components.draw(rng, count)
        chosen = np.eye(self.probs.shape[-1])[Finite(self.probs).draw(rng, count)]
        chosen = chosen.reshape(chosen.shape + (1,) * (-1 - self.axis))
        rank = max(draws.ndim, chosen.ndim)
        draws, chosen = (
            x.reshape((count, *(1,) * (rank - x.ndim), *x.shape[1:]))
            for x in (draws, chosen)
        )
        return np.sum(chosen * draws, axis=self.axis)


class Quantized:
    """A continuous reference rounded to the whole numbers from low to high."""

    def __init__(self, base, low, high):
        self.base, self.low, self.high = base, low, high
        self.values = np.arange(low, high + 1)

    def cdf(self, x):
        x = np.asarray(x)
        inside = self.base.cdf(np.floor(x) + 0.5)
        return np.where(x < self.low, 0.0, np.where(x >= self.high, 1.0, inside))

    def log_prob(self, x):
        return np.log(self.cdf(x) - self.cdf(x - 1.0))

    def _expect(self, function):
        return sum(
            np.exp(self.log_prob(np.full(self.base.batch_shape, value)))
            * function(value)
            for value in self.values
        )

    def mean(self):
        return self._expect(lambda value: value)

    def variance(self):
        return self._expect(np.square) - np.square(self.mean())

    def entropy(self):
        shape = self.base.batch_shape
        return sum(
            special.entr(np.exp(self.log_prob(np.full(shape, value))))
            for value in self.values
        )

    def draw(self, rng, count):
        return np.clip(np.round(self.base.draw(rng, count)), self.low, self.high)


def over_normal(loc, scale, reference):
    """The mixture of `reference(f)` over a fine grid of f ~ Normal(loc, scale)."""
    z = np.linspace(-9.0, 9.0, 181)
    weights = np.exp(-0.5 * np.square(z))
    return Mixture(
        weights / weights.sum(), reference(loc[..., None] + scale[..., None] * z)
    )
