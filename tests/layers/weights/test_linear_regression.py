"""One dense layer with a normal prior and normal noise: the posterior is known.

p(w | X, y) = Normal(mean, precision^-1), with precision = X^T X / s**2 + I and
mean = precision^-1 X^T y / s**2. The best normal distribution is the posterior; the
best with independent elements has its mean, and variances that are the inverse of the
precision's diagonal.

Training follows noisy gradients; what is compared is an average over about the last
100 steps. From n draws the best mean is known to 1 / sqrt(n) posterior standard
deviations, and the best covariance to sqrt(2 / n) of itself: 0.035 and 0.05 for 8 draws
in a step, 0.025 and, for standard deviations, 0.018 for 16. Over seeds and backends the
errors varied by 0.03 and 0.06, by 0.02 and 0.01. The tolerances are five of these. A
factor of two in the weight of the divergence would show as about one in the covariance,
and the variances of one test are 2.7 times those of the other.
"""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.table import array

EXAMPLES, STEPS, NOISE = 24, 300, 0.5


@pytest.fixture(scope="module")
def data():
    """Inputs of which the two columns are correlated, and targets."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(EXAMPLES, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]])
    y = x @ np.array([[1.0], [-0.5]]) + NOISE * rng.normal(size=(EXAMPLES, 1))
    return x.astype("float32"), y.astype("float32")


@pytest.fixture(scope="module")
def posterior(data):
    x, y = (values.astype("float64") for values in data)
    precision = x.T @ x / NOISE**2 + np.eye(2)
    return np.linalg.solve(precision, x.T @ y / NOISE**2), precision


def train(model, x, y):
    """Fits a model of the weights of one layer to the posterior."""

    def negative_log_likelihood(target, output):
        return 0.5 * ops.square((target - output) / NOISE)

    bl.scale_kl(model, dataset_size=EXAMPLES)
    schedule = keras.optimizers.schedules.CosineDecay(0.1, STEPS, alpha=0.05)
    optimizer = keras.optimizers.Adam(schedule, use_ema=True, ema_momentum=0.98)
    model.compile(optimizer, negative_log_likelihood)
    # All steps in one epoch: an epoch costs more than a step.
    batches = [np.tile(values, (STEPS, 1)) for values in (x, y)]
    model.fit(*batches, batch_size=len(x), shuffle=False, verbose=0)


def layer_and_input(cls, **kwargs):
    return cls(1, use_bias=False, seed=2, **kwargs), keras.Input((2,))


def test_a_full_covariance_recovers_the_posterior(data, posterior):
    layer, inputs = layer_and_input(
        bl.layers.DenseReparameterization,
        kernel_initializer=bl.initializers.TrainableMultivariateNormal("zeros"),
    )
    # Eight draws in a step, one for each call; the divergence counts once.
    draws = [layer(inputs) for _ in range(8)]
    train(keras.Model(inputs, keras.layers.Concatenate()(draws)), *data)
    mean, precision = posterior
    found = layer.random_weights["kernel"].posterior
    covariance = array(found.distribution.covariance())
    stddev = np.sqrt(np.diag(np.linalg.inv(precision)))
    error = array(found.mean()) - mean
    # Relative to the posterior in every direction: eigenvalues of one.
    tril = np.linalg.cholesky(precision)
    ratios = np.linalg.eigvalsh(tril.T @ covariance @ tril)
    np.testing.assert_allclose(error / stddev[:, None], 0.0, atol=0.15)
    np.testing.assert_allclose(ratios, 1.0, atol=0.3)


def test_independent_elements_recover_their_optimum(data, posterior):
    layer, inputs = layer_and_input(
        bl.layers.DenseLocalReparameterization,
        kernel_initializer=bl.initializers.TrainableNormal("zeros"),
    )
    # Sixteen draws in a step: the layer has one for each row of the batch.
    x, y = (np.tile(values, (16, 1)) for values in data)
    train(keras.Model(inputs, layer(inputs)), x, y)
    mean, precision = posterior
    found = layer.random_weights["kernel"].posterior
    stddev = 1.0 / np.sqrt(np.diag(precision))[:, None]
    np.testing.assert_allclose((array(found.loc) - mean) / stddev, 0.0, atol=0.1)
    np.testing.assert_allclose(array(found.scale) / stddev, 1.0, atol=0.05)
