"""Slow and obvious distributions of vectors, as loops over the batch."""

import numpy as np
from scipy import special, stats

from tests.distributions.references import Finite


class OneHot:
    """One of k unit vectors."""

    def __init__(self, probs):
        self.finite = Finite(probs)
        self.entropy = self.finite.entropy

    def log_prob(self, x):
        return self.finite.log_prob(np.argmax(x, axis=-1))

    def mean(self):
        return self.finite.probs

    def variance(self):
        return self.finite.probs - np.square(self.finite.probs)

    def draw(self, rng, count):
        return np.eye(self.finite.size)[self.finite.draw(rng, count)]


class Elementwise:
    """A loop over the batch: one multivariate distribution of SciPy for each index."""

    def __init__(self, batch_shape, build):
        self.batch_shape = batch_shape
        self.parts = {i: build(i) for i in np.ndindex(*batch_shape)}

    def _over_batch(self, function):
        results = [function(index, part) for index, part in self.parts.items()]
        stacked = np.stack(results)
        return stacked.reshape(self.batch_shape + stacked.shape[1:])

    def log_prob(self, x):
        leading = x.shape[: x.ndim - 1 - len(self.batch_shape)]
        x = np.broadcast_to(x, (*leading, *self.batch_shape, x.shape[-1]))
        result = np.empty(x.shape[:-1])
        for index, part in self.parts.items():
            log_prob = getattr(part, "logpdf", None) or part.logpmf
            result[(..., *index)] = log_prob(x[(..., *index, slice(None))])
        return result

    def mean(self):
        return self._over_batch(lambda _, part: part.mean())

    def covariance(self):
        return self._over_batch(lambda _, part: part.cov())

    def variance(self):
        return np.diagonal(self.covariance(), axis1=-2, axis2=-1)

    def entropy(self):
        return self._over_batch(lambda _, part: np.asarray(part.entropy()))

    def draw(self, rng, count):
        draws = self._over_batch(
            lambda _, part: part.rvs(count, random_state=rng).reshape(count, -1)
        )
        return np.moveaxis(draws, -2, 0)


class _Normal:
    """`scipy.stats.multivariate_normal`, with methods for its mean and covariance."""

    def __init__(self, loc, covariance):
        self._frozen = stats.multivariate_normal(loc, covariance)
        self.logpdf = self._frozen.logpdf
        self.entropy = self._frozen.entropy
        self.rvs = self._frozen.rvs
        self.mean = lambda: loc
        self.cov = lambda: covariance


def multivariate_normal(loc, covariance):
    batch = np.broadcast_shapes(loc.shape[:-1], covariance.shape[:-2])
    size = loc.shape[-1]
    loc = np.broadcast_to(loc, (*batch, size))
    covariance = np.broadcast_to(covariance, (*batch, size, size))
    return Elementwise(batch, lambda i: _Normal(loc[i], covariance[i]))


class _MatrixNormal:
    """`scipy.stats.matrix_normal`, of matrices with their rows in one vector."""

    def __init__(self, loc, rows, columns):
        shape = len(rows), len(columns)
        self._frozen = stats.matrix_normal(loc.reshape(shape), rows, columns)
        self.entropy = self._frozen.entropy
        self.mean = lambda: loc
        self.cov = lambda: np.kron(rows, columns)
        self.logpdf = lambda x: self._frozen.logpdf(x.reshape(*x.shape[:-1], *shape))

    def rvs(self, count, random_state):
        return self._frozen.rvs(count, random_state=random_state)


def matrix_normal(loc, row_tril, column_tril):
    batch = np.broadcast_shapes(
        loc.shape[:-1], row_tril.shape[:-2], column_tril.shape[:-2]
    )
    loc = np.broadcast_to(loc, (*batch, loc.shape[-1]))
    rows, columns = (
        np.broadcast_to(x @ np.swapaxes(x, -1, -2), (*batch, *x.shape[-2:]))
        for x in (np.tril(row_tril), np.tril(column_tril))
    )
    return Elementwise(batch, lambda i: _MatrixNormal(loc[i], rows[i], columns[i]))


class JointNormal:
    """Normal columns of length n, `[..., n, units]`: a batch of vectors, transposed."""

    def __init__(self, loc, covariance_matrix):
        # A derivative by one of two equal elements is one by their mean.
        transposed = np.swapaxes(covariance_matrix, -1, -2)
        covariance = 0.5 * (covariance_matrix + transposed)
        self.base = multivariate_normal(np.swapaxes(loc, -1, -2), covariance)

    def log_prob(self, x):
        return self.base.log_prob(np.swapaxes(x, -1, -2)).sum(axis=-1)

    def mean(self):
        return np.swapaxes(self.base.mean(), -1, -2)

    def variance(self):
        return np.swapaxes(self.base.variance(), -1, -2)

    def entropy(self):
        return self.base.entropy().sum(axis=-1)

    def draw(self, rng, count):
        return np.swapaxes(self.base.draw(rng, count), -1, -2)


def exact_simplex(x):
    """Rounds so that the sum is exactly one, in float32 as well."""
    x = np.maximum(np.round(x * 2**12), 1.0) / 2**12
    largest = np.argmax(x, axis=-1)[..., None]
    rest = np.take_along_axis(x, largest, -1) + 1.0 - x.sum(axis=-1, keepdims=True)
    np.put_along_axis(x, largest, rest, -1)
    return x


class _Dirichlet:
    """`scipy.stats.dirichlet`, except that finite differences may leave the simplex."""

    def __init__(self, concentration):
        self.frozen = frozen = stats.dirichlet(concentration)
        self.mean, self.entropy, self.cov = frozen.mean, frozen.entropy, frozen.cov
        self.concentration = concentration

    def rvs(self, size, random_state):
        return exact_simplex(self.frozen.rvs(size, random_state=random_state))

    def logpdf(self, x):
        a = self.concentration
        log_beta = np.sum(special.gammaln(a)) - special.gammaln(np.sum(a))
        return np.sum(special.xlogy(a - 1.0, x), axis=-1) - log_beta


def dirichlet(concentration):
    batch = concentration.shape[:-1]
    return Elementwise(batch, lambda i: _Dirichlet(concentration[i]))


class _Multinomial:
    """Not SciPy's, which refuses probabilities that a finite difference has moved."""

    def __init__(self, total_count, probs):
        self.total_count = total_count
        self.probs = probs

    def logpmf(self, x):
        log_ways = special.gammaln(self.total_count + 1.0)
        log_ways = log_ways - special.gammaln(x + 1.0).sum(axis=-1)
        return log_ways + special.xlogy(x, self.probs).sum(axis=-1)

    def mean(self):
        return self.total_count * self.probs

    def cov(self):
        return self.total_count * (
            np.diag(self.probs) - np.outer(self.probs, self.probs)
        )

    def rvs(self, size, random_state):
        probs = self.probs / self.probs.sum()
        return random_state.multinomial(int(self.total_count), probs, size)


def multinomial(total_count, probs):
    batch = np.broadcast_shapes(total_count.shape, probs.shape[:-1])
    total_count = np.broadcast_to(total_count, batch)
    probs = np.broadcast_to(probs, (*batch, probs.shape[-1]))
    return Elementwise(batch, lambda i: _Multinomial(total_count[i], probs[i]))


class Radial:
    """A uniform direction and a half-normal length, in the units of scale_diag."""

    def __init__(self, loc, scale_diag):
        self.loc, self.scale = np.broadcast_arrays(loc, scale_diag)
        self.size = self.loc.shape[-1]

    def log_prob(self, x):
        length = np.linalg.norm((x - self.loc) / self.scale, axis=-1)
        surface = 2.0 * np.pi ** (self.size / 2) / special.gamma(self.size / 2)
        sphere = surface * length ** (self.size - 1)
        log_volume = np.log(self.scale).sum(axis=-1)
        return stats.halfnorm.logpdf(length) - np.log(sphere) - log_volume

    def mean(self):
        return self.loc

    def variance(self):
        return np.square(self.scale) / self.size

    def draw(self, rng, count):
        direction = rng.normal(size=(count, *self.loc.shape))
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        length = rng.normal(size=(count, *self.loc.shape[:-1], 1))
        return self.loc + self.scale * direction * length


class Reshaped:
    """A reference of vectors without batch axes, as one of arrays."""

    def __init__(self, base, shape):
        self.base, self.shape, self.entropy = base, shape, base.entropy

    def log_prob(self, x):
        return self.base.log_prob(x.reshape((*x.shape[: -len(self.shape)], -1)))

    def mean(self):
        return self.base.mean().reshape(self.shape)

    def variance(self):
        return self.base.variance().reshape(self.shape)

    def draw(self, rng, count):
        return self.base.draw(rng, count).reshape((count, *self.shape))
