"""Small networks, data, and what members do alone."""

import keras
import numpy as np
from keras import ops

import bayesian_layers as bl
from bayesian_layers import backend

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype("float32")
Y = np.sin(X[:, :1]) + 0.1 * RNG.normal(size=(24, 1)).astype("float32")
CLASSES = (X[:, 0] > 0.0).astype("int32") + (X[:, 1] > 0.0).astype("int32")
NLL = bl.losses.NegativeLogLikelihood


def plain():
    return keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)]
    )


def normalized():
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "tanh"),
            keras.layers.BatchNormalization(),
            bl.layers.Normal(1),
        ]
    )


def bayesian():
    return keras.Sequential(
        [
            keras.Input((3,)),
            bl.layers.DenseReparameterization(4, activation="tanh"),
            bl.layers.DenseReparameterization(1),
            bl.layers.Normal(homoscedastic=True),
        ]
    )


def classifier():
    return keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, "tanh"), bl.layers.Categorical(3)]
    )


def numpy_of(tensor):
    return ops.convert_to_numpy(tensor)


def copies(ensemble):
    """Models of their own with the state of the members, seeds included."""
    models = [keras.models.clone_model(member) for member in ensemble.members]
    for model, member in zip(models, ensemble.members, strict=True):
        for own, other in zip(model.variables, member.variables, strict=True):
            own.assign(other.numpy())
    return models


def compile_all(models, loss, metrics=None, optimizer=None):
    for model in models:
        model.compile(
            keras.optimizers.Adam(0.05) if optimizer is None else optimizer(),
            loss,
            metrics=metrics() if metrics else None,
            # What is compared with need not be compiled; on JAX that is faster.
            run_eagerly=not isinstance(model, bl.Ensemble) and not backend.maps_models,
        )


def fit(model, x=X, y=Y, **kwargs):
    options = {"epochs": 3, "batch_size": 8, "shuffle": False, "verbose": 0, **kwargs}
    return model.fit(x, y, **options).history


def assert_same_weights(models, others, atol=1e-5):
    for model, other in zip(models, others, strict=True):
        for ours, theirs in zip(model.weights, other.weights, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=atol)


def mean_of(histories, name):
    return np.mean([history[name] for history in histories], axis=0)
