"""One row per public layer of the room of functions; what its tests share."""

import dataclasses
import inspect
from collections.abc import Callable

import keras
import numpy as np

import bayesian_layers as bl
from bayesian_layers.layers import functions

BATCH = 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, 3)).astype("float32")


@dataclasses.dataclass(frozen=True)
class Row:
    """How to make a small layer, and a model around it that can be trained.

    `make(**kwargs)` makes the layer, `before` and `after` the layers around it;
    `targets` are what `fit` gets, and `divergences` how many losses the layer has.
    """

    make: Callable
    before: Callable = list
    after: Callable = list
    targets: np.ndarray = dataclasses.field(
        default_factory=lambda: np.sin(X[:, :2]).astype("float32")
    )
    divergences: int = 0
    is_function: bool = True  # held, it is one function
    inputs: np.ndarray = dataclasses.field(default_factory=lambda: X)
    loss: Callable = bl.losses.NegativeLogLikelihood

    def model(self, **kwargs):
        """A model with the layer, and the layer."""
        layer = self.make(**kwargs)
        layers = [keras.Input(self.inputs.shape[1:]), *self.before(), layer]
        return keras.Sequential([*layers, *self.after()]), layer


def _gaussian_process(**kwargs):
    return bl.layers.GaussianProcess(2, noise_variance=0.1, **kwargs)


def _conditioned(**kwargs):
    return _gaussian_process(
        conditional_inputs=X,
        conditional_outputs=X[:, :2],
        trainable_conditional_inputs=True,
        trainable_conditional_outputs=True,
        **kwargs,
    )


def _sparse(**kwargs):
    return bl.layers.SparseGaussianProcess(2, 4, inducing_inputs=X[:4], **kwargs)


def _process():
    return [_sparse(seed=1)]


def _gaussian():
    return [bl.layers.GaussianLikelihood()]


COUNTS = RNG.integers(0, 3, size=(BATCH, 2)).astype("float32")

ROWS = {
    "GaussianProcess": Row(_gaussian_process),
    "GaussianProcess, conditioned": Row(_conditioned),
    "SparseGaussianProcess": Row(_sparse, after=_gaussian, divergences=1),
    "SparseGaussianProcess, unwhitened": Row(
        lambda **kwargs: _sparse(
            whiten=False,
            mean_fn=keras.layers.Dense(2),
            covariance_fn=bl.covariances.Matern32(ard=True),
            **kwargs,
        ),
        after=_gaussian,
        divergences=1,
    ),
    "SparseGaussianProcess, joint": Row(
        lambda **kwargs: _sparse(full_covariance=True, **kwargs),
        after=_gaussian,
        divergences=1,
    ),
    "RandomFourierFeatures": Row(
        lambda **kwargs: bl.layers.RandomFourierFeatures(2, 5, **kwargs),
        after=_gaussian,
        divergences=2,
    ),
    "GaussianLikelihood": Row(
        lambda **kwargs: bl.layers.GaussianLikelihood(shared=False, **kwargs), _process
    ),
    "StudentTLikelihood": Row(bl.layers.StudentTLikelihood, _process),
    "PoissonLikelihood": Row(bl.layers.PoissonLikelihood, _process, targets=COUNTS),
    "BernoulliLikelihood": Row(
        bl.layers.BernoulliLikelihood, _process, targets=np.minimum(COUNTS, 1.0)
    ),
    "CategoricalLikelihood": Row(
        bl.layers.CategoricalLikelihood,
        _process,
        targets=np.minimum(COUNTS[:, 0], 1.0),
    ),
}

# Bases, which the tests of their subclasses run.
BASES = ("Likelihood",)
LAYERS = [
    name
    for name in functions.__all__
    if inspect.isclass(getattr(functions, name))
    and issubclass(getattr(functions, name), keras.Layer)
    and name not in BASES
]
# What these take or return is of another kind: files of their own test them.
ELSEWHERE = (
    "PoissonProcess",
    "RandomFeatureGaussianProcess",
    "SpectralNormalization",
)
