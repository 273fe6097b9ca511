"""One row per public output layer; what its tests share."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
from keras import ops
from scipy import special, stats

import bayesian_layers as bl
from tests.differentiation import run

# What is added to a softplus, so that scales and rates stay away from zero.
FLOOR = 1e-5


@dataclasses.dataclass(frozen=True)
class Row:
    """How to make a small output layer, and what it has to compute.

    The references get `raw`, the columns of parameters `[..., columns]` in float64, and
    are written with SciPy and NumPy.
    """

    units: int
    columns: int  # that the layer takes without units, for that many outputs
    wrong_columns: int  # a number of columns that fits no number of outputs, or 0
    shape: tuple  # of one draw, after the batch axes
    log_prob: Callable  # from raw and targets, as the distribution's
    mean: Callable  # of a draw, as a number: from raw
    variance: Callable
    targets: tuple  # numbers in the support, small and large ones
    conversions: tuple = ("mean", "mode")
    missing: tuple = ()  # the conversions that the family does not have
    arguments: dict = dataclasses.field(default_factory=dict)
    dtype: str = "float32"
    detect: float = 0.25  # errors of moments that 4000 draws must show

    def draw_targets(self, *batch, seed=0):
        rng = np.random.default_rng(seed)
        return rng.choice(np.array(self.targets), (*batch, *self.shape)).astype(
            self.dtype
        )


def softplus(x):
    return np.logaddexp(0.0, x)


def split(raw, *sizes):
    """The columns of each parameter, one after another."""
    return np.split(raw, np.cumsum(sizes)[:-1], axis=-1)


def _of_scipy(frozen):
    """The references of a family that SciPy has: `frozen` is made from raw."""

    def log_prob(raw, y):
        distribution = frozen(raw)
        discrete = isinstance(distribution.dist, stats.rv_discrete)
        return distribution.logpmf(y) if discrete else distribution.logpdf(y)

    return {
        "log_prob": log_prob,
        "mean": lambda raw: frozen(raw).mean(),
        "variance": lambda raw: frozen(raw).var(),
    }


def _normal(raw):
    loc, scale = split(raw, 2, 2)
    return stats.norm(loc, softplus(scale) + FLOOR)


def _class_probabilities(raw):
    return special.softmax(raw, axis=-1)


def _class_log_prob(raw, y):
    index = y.astype(int)[..., None]
    return np.take_along_axis(special.log_softmax(raw, axis=-1), index, -1)[..., 0]


def _class_moment(raw, power):
    return _class_probabilities(raw) @ np.arange(raw.shape[-1]) ** power


ROWS = {
    "Normal": Row(
        units=2,
        columns=4,
        wrong_columns=3,
        shape=(2,),
        **_of_scipy(_normal),
        targets=(-2.0, 0.0, 0.5, 3.0, 200.0),
    ),
    "Categorical": Row(
        units=3,
        columns=3,
        wrong_columns=0,
        shape=(),
        log_prob=_class_log_prob,
        mean=lambda raw: _class_moment(raw, 1),
        variance=lambda raw: _class_moment(raw, 2) - _class_moment(raw, 1) ** 2,
        targets=(0, 1, 2),
        conversions=("mode",),
        missing=("mean",),
        dtype="int32",
    ),
}


def make(name, /, units=None, **kwargs):
    """A layer of the table, not built."""
    return getattr(bl.layers, name)(units, **{**ROWS[name].arguments, **kwargs})


def raw_parameters(name, *batch, scale=1.0, seed=0):
    """Random columns of parameters, for a layer without units."""
    rng = np.random.default_rng(seed)
    raw = scale * rng.normal(size=(*batch, ROWS[name].columns))
    return raw.astype("float32")


def array(x):
    return np.asarray(ops.convert_to_numpy(x))


def parameters_of(distribution):
    """The parameters of a distribution and of its parts, as arrays."""
    return [array(tensor) for tensor in distribution._tensors()]


def log_prob(layer, x, y):
    """log p(y) of each output at inputs, computed by the layer."""
    return run(lambda x, y: layer(x).log_prob(y), x, y)


def sequential(name, **kwargs):
    """A model with a hidden layer and a head that has units."""
    layer = make(name, ROWS[name].units, **kwargs)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), layer])
