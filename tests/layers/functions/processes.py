"""What the tests of Gaussian process layers share."""

import keras
import numpy as np
from keras import ops

from tests.differentiation import value_and_grad

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(12, 2)).astype("float32")
Y = np.stack([np.sin(2.0 * X[:, 0]), X[:, 1] * X[:, 0]], axis=1).astype("float32")
NEW = RNG.uniform(-2.5, 2.5, size=(5, 2)).astype("float32")
NOISE = 0.1


def array(tensor):
    return ops.convert_to_numpy(tensor)


def gradients(layer, function):
    """The value of `function()` and its gradients by the layer's trainable weights."""
    variables = layer.trainable_variables

    def at(*values):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return function()

    value, found = value_and_grad(at, *[array(v) for v in variables])
    return value, dict(zip([v.name for v in variables], found, strict=True))


def expected_log_likelihood(distribution, y, noise_variance):
    """The sum of E log N(y | f, noise) over independent normal f, by NumPy."""
    mean, variance = array(distribution.mean()), array(distribution.variance())
    squares = np.square(y - mean) + variance
    return -0.5 * np.sum(np.log(2 * np.pi * noise_variance) + squares / noise_variance)


def joint_log_density(mean, covariance, y):
    """log N(y | mean, covariance) of columns, by NumPy in float64."""
    deviation = y.astype("float64") - mean
    covariance = covariance.astype("float64")
    squares = np.sum(deviation * np.linalg.solve(covariance, deviation))
    log_det = np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    return -0.5 * (squares + y.shape[1] * log_det)
