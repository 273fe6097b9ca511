"""One row per public output layer; what its tests share."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
from keras import ops
from scipy import special, stats

import bayesian_layers as bl

# What is added to a softplus, so that scales and rates stay away from zero.
FLOOR = 1e-5


@dataclasses.dataclass(frozen=True)
class Row:
    """How to make a small output layer, and what it has to compute.

    The references get `raw`, the columns of parameters `[..., columns]` in float64, and
    are written with SciPy and NumPy.
    """

    layer: str  # the name of the class
    units: int
    columns: int  # that the layer takes without units, for that many outputs
    shape: tuple  # of one draw, after the batch axes
    log_prob: Callable  # from raw and targets, as the distribution's
    mean: Callable  # of a draw, as numbers, from raw [columns]
    variance: Callable
    targets: np.ndarray  # values in the support: [m] of each element, or [m, *shape]
    wrong_columns: int = 0  # a number of columns that fits no number of outputs
    conversions: tuple = ("mean", "mode")
    arguments: Callable = dict  # returns further arguments, new ones each time
    dtype: str = "float32"
    example: tuple = None  # raw at which moments are tested, if random ones will not do

    def make(self, units=None, **kwargs):
        """A layer, not built."""
        layer = getattr(bl.layers, self.layer)
        return layer(units=units, **{**self.arguments(), **kwargs})

    def raw(self, *batch, scale=1.0, seed=0):
        """Random columns of parameters, for a layer without units."""
        rng = np.random.default_rng(seed)
        return (scale * rng.normal(size=(*batch, self.columns))).astype("float32")

    def draw_targets(self, *batch, seed=0):
        rng = np.random.default_rng(seed)
        shape = (*batch, *self.shape) if self.targets.ndim == 1 else batch
        index = rng.integers(0, len(self.targets), shape)
        return self.targets[index].astype(self.dtype)


def array(x):
    return np.asarray(ops.convert_to_numpy(x))


def softplus(x):
    return np.logaddexp(0.0, x)


def positive(x):
    return softplus(x) + FLOOR


def _split(raw, *sizes):
    """The columns of each parameter, one after another."""
    return np.split(raw, np.cumsum(sizes)[:-1], axis=-1)


# References.


def _of_scipy(frozen):
    """Of a family of numbers that SciPy has: `frozen` is made from raw."""

    def log_prob(raw, y):
        distribution = frozen(raw)
        discrete = isinstance(distribution.dist, stats.rv_discrete)
        return distribution.logpmf(y) if discrete else distribution.logpdf(y)

    return {
        "log_prob": log_prob,
        "mean": lambda raw: frozen(raw).mean(),
        "variance": lambda raw: frozen(raw).var(),
    }


def _of_vectors(frozen, mean, variance):
    """Of a family of vectors that SciPy has, one at a time."""

    def log_prob(raw, y):
        result = np.empty(raw.shape[:-1])
        for index in np.ndindex(result.shape):
            result[index] = frozen(raw[index]).logpdf(y[index])
        return result

    return {
        "log_prob": log_prob,
        "mean": lambda raw: mean(frozen(raw)),
        "variance": lambda raw: variance(frozen(raw)),
    }


def _of_normal_vectors(moments):
    """Of multivariate normals: `moments` gives mean and covariance."""
    return _of_vectors(
        lambda raw: stats.multivariate_normal(*moments(raw)),
        lambda frozen: frozen.mean,
        lambda frozen: np.diag(frozen.cov),
    )


def _of_mixture(frozen):
    """Two outputs, two components: `frozen` is made from blocks `[..., 2, 2]`."""

    def parts(raw):
        blocks = raw.reshape(*raw.shape[:-1], -1, 2, 2)
        logits, *parameters = np.moveaxis(blocks, -3, 0)
        return special.log_softmax(logits, axis=-1), frozen(*parameters)

    def log_prob(raw, y):
        log_weights, components = parts(raw)
        values = log_weights + components.logpdf(y[..., None])
        return special.logsumexp(values, axis=-1)

    def mean(raw):
        log_weights, components = parts(raw)
        return np.sum(np.exp(log_weights) * components.mean(), axis=-1)

    def variance(raw):
        log_weights, components = parts(raw)
        squares = components.var() + components.mean() ** 2
        return np.sum(np.exp(log_weights) * squares, axis=-1) - mean(raw) ** 2

    return {"log_prob": log_prob, "mean": mean, "variance": variance}


def _location_scale(family):
    def frozen(raw):
        loc, scale = _split(raw, 2, 2)
        return family(loc, positive(scale))

    return frozen


def _student_t(raw):
    df, loc, scale = _split(raw, 2, 2, 2)
    return stats.t(2.0 + positive(df), loc, positive(scale))


def _gamma(raw):
    concentration, rate = _split(raw, 2, 2)
    return stats.gamma(positive(concentration), scale=1.0 / positive(rate))


def _beta(raw):
    concentration1, concentration0 = _split(raw, 2, 2)
    return stats.beta(positive(concentration1), positive(concentration0))


def _negative_binomial(raw):
    # SciPy counts the other way round.
    total_count, logits = _split(raw, 2, 2)
    return stats.nbinom(positive(total_count), special.expit(-logits))


def _class_log_prob(raw, y):
    index = y.astype(int)[..., None]
    return np.take_along_axis(special.log_softmax(raw, axis=-1), index, -1)[..., 0]


def _class_moment(raw, power):
    return special.softmax(raw, axis=-1) @ np.arange(raw.shape[-1]) ** power


def _diagonal(raw):
    loc, scale = _split(raw, 2, 2)
    return loc, np.diag(positive(scale) ** 2)


def _triangular(raw):
    loc, diagonal, below = _split(raw, 2, 2, 1)
    factor = np.array([[1.0, 0.0], [10.0 * np.tanh(below[0] / 10.0), 1.0]])
    factor = np.diag(positive(diagonal)) @ factor
    return loc, factor @ factor.T


def _low_rank(raw):
    loc, scale, factor = _split(raw, 2, 2, 2)
    scale, factor = np.diag(positive(scale)), 10.0 * np.tanh(factor / 10.0)
    return loc, scale @ (np.eye(2) + np.outer(factor, factor)) @ scale


def _vector_mixture(raw):
    """Logits, mean and standard deviation of two components over two elements."""
    logits, loc, scale = _split(raw, 2, 4, 4)
    blocks = (*raw.shape[:-1], 2, 2)
    log_weights = special.log_softmax(logits, axis=-1)
    return log_weights, loc.reshape(blocks), positive(scale).reshape(blocks)


def _vector_mixture_log_prob(raw, y):
    log_weights, loc, scale = _vector_mixture(raw)
    values = stats.norm.logpdf(y[..., None, :], loc, scale).sum(axis=-1)
    return special.logsumexp(log_weights + values, axis=-1)


def _vector_mixture_moments(raw):
    log_weights, loc, scale = _vector_mixture(raw)
    weights = np.exp(log_weights)[:, None]
    mean = (weights * loc).sum(axis=0)
    return mean, (weights * (scale**2 + loc**2)).sum(axis=0) - mean**2


# The table.

REALS = np.array([-2.0, 0.0, 0.5, 3.0, 200.0])
POSITIVE = np.array([1e-3, 0.5, 2.0, 50.0])
UNIT = np.array([0.01, 0.5, 0.95])
COUNTS = np.array([0.0, 1.0, 3.0, 40.0])
VECTORS = np.array([[0.0, 0.0], [1.0, -2.0], [30.0, 0.5]])
SIMPLEX = np.array([[0.2, 0.3, 0.5], [0.01, 0.01, 0.98], [1 / 3, 1 / 3, 1 / 3]])
NUMBERS = {"units": 2, "shape": (2,)}
TWO_PARAMETERS = {**NUMBERS, "columns": 4, "wrong_columns": 3}
MIXTURE = {
    **NUMBERS,
    "columns": 12,
    "wrong_columns": 10,
    "conversions": ("mean",),
    "arguments": lambda: {"num_components": 2},
}


def _row(layer, references, targets, **kwargs):
    return Row(layer=layer, **references, targets=targets, **kwargs)


ROWS = {
    "Normal": _row(
        "Normal", _of_scipy(_location_scale(stats.norm)), REALS, **TWO_PARAMETERS
    ),
    "LogNormal": _row(
        "LogNormal",
        _of_scipy(
            _location_scale(lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc)))
        ),
        POSITIVE,
        # Small scales: the variance of 4000 draws is far off in a heavy tail.
        example=(0.2, -0.3, -1.0, -2.0),
        **TWO_PARAMETERS,
    ),
    "Laplace": _row(
        "Laplace", _of_scipy(_location_scale(stats.laplace)), REALS, **TWO_PARAMETERS
    ),
    "Logistic": _row(
        "Logistic", _of_scipy(_location_scale(stats.logistic)), REALS, **TWO_PARAMETERS
    ),
    "StudentT": _row(
        "StudentT",
        _of_scipy(_student_t),
        REALS,
        **NUMBERS,
        columns=6,
        wrong_columns=4,
        example=(20.0, 15.0, 0.2, -0.3, 0.5, -0.5),
    ),
    "Gamma": _row("Gamma", _of_scipy(_gamma), POSITIVE, **TWO_PARAMETERS),
    "Beta": _row("Beta", _of_scipy(_beta), UNIT, **TWO_PARAMETERS),
    "Exponential": _row(
        "Exponential",
        _of_scipy(lambda raw: stats.expon(scale=1.0 / positive(raw))),
        POSITIVE,
        **NUMBERS,
        columns=2,
    ),
    "Poisson": _row(
        "Poisson",
        _of_scipy(lambda raw: stats.poisson(positive(raw))),
        COUNTS,
        **NUMBERS,
        columns=2,
    ),
    "NegativeBinomial": _row(
        "NegativeBinomial", _of_scipy(_negative_binomial), COUNTS, **TWO_PARAMETERS
    ),
    "Bernoulli": _row(
        "Bernoulli",
        _of_scipy(lambda raw: stats.bernoulli(special.expit(raw))),
        np.array([0, 1]),
        **NUMBERS,
        columns=2,
        conversions=("mode",),
        dtype="int32",
    ),
    "Categorical": _row(
        "Categorical",
        {
            "log_prob": _class_log_prob,
            "mean": lambda raw: _class_moment(raw, 1),
            "variance": lambda raw: _class_moment(raw, 2) - _class_moment(raw, 1) ** 2,
        },
        np.arange(3),
        units=3,
        columns=3,
        shape=(),
        conversions=("mode",),
        dtype="int32",
    ),
    "OneHotCategorical": _row(
        "OneHotCategorical",
        {
            "log_prob": lambda raw, y: _class_log_prob(raw, y.argmax(axis=-1)),
            "mean": lambda raw: special.softmax(raw),
            "variance": lambda raw: stats.bernoulli(special.softmax(raw)).var(),
        },
        np.eye(3),
        units=3,
        columns=3,
        shape=(3,),
        conversions=("mode",),
        dtype="int32",
    ),
    "Dirichlet": _row(
        "Dirichlet",
        _of_vectors(
            lambda raw: stats.dirichlet(positive(raw)),
            lambda frozen: frozen.mean(),
            lambda frozen: frozen.var(),
        ),
        SIMPLEX,
        units=3,
        columns=3,
        shape=(3,),
    ),
    "MultivariateNormalDiag": _row(
        "MultivariateNormalDiag",
        _of_normal_vectors(_diagonal),
        VECTORS,
        **TWO_PARAMETERS,
    ),
    "MultivariateNormalTriL": _row(
        "MultivariateNormalTriL",
        _of_normal_vectors(_triangular),
        VECTORS,
        **NUMBERS,
        columns=5,
        wrong_columns=4,
    ),
    "MultivariateNormalLowRank": _row(
        "MultivariateNormalLowRank",
        _of_normal_vectors(_low_rank),
        VECTORS,
        **NUMBERS,
        columns=6,
        wrong_columns=4,
        arguments=lambda: {"rank": 1},
    ),
    "MixtureNormal": _row(
        "MixtureNormal",
        _of_mixture(lambda loc, scale: stats.norm(loc, positive(scale))),
        REALS,
        **MIXTURE,
    ),
    "MixtureLogistic": _row(
        "MixtureLogistic",
        _of_mixture(lambda loc, scale: stats.logistic(loc, positive(scale))),
        REALS,
        **MIXTURE,
    ),
    "Mixture": _row(
        "Mixture",
        _of_mixture(lambda a, b: stats.gamma(positive(a), scale=1.0 / positive(b))),
        POSITIVE,
        **{
            **MIXTURE,
            "arguments": lambda: {"num_components": 2, "component": bl.layers.Gamma()},
        },
    ),
    "MixtureOfVectors": _row(
        "Mixture",
        {
            "log_prob": _vector_mixture_log_prob,
            "mean": lambda raw: _vector_mixture_moments(raw)[0],
            "variance": lambda raw: _vector_mixture_moments(raw)[1],
        },
        VECTORS,
        **NUMBERS,
        columns=10,
        wrong_columns=8,
        conversions=("mean",),
        arguments=lambda: {
            "num_components": 2,
            "component": bl.layers.MultivariateNormalDiag(),
        },
    ),
}
# Not of the common contract: they have tests of their own.
OTHERS = {
    "Deterministic",
    "Discretize",
    "DistributionLambda",
    "FamilyLayer",
    "OutputLayer",
}


def model_of(names, **kwargs):
    """One hidden layer, and a head for each row: one compilation for all of them."""
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, activation="tanh")(inputs)
    heads = {n: ROWS[n].make(ROWS[n].units, name=n, **kwargs) for n in names}
    return keras.Model(inputs, {name: head(hidden) for name, head in heads.items()})
