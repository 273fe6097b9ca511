"""Outputs whose examples depend on each other: one log-probability for all."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2)).astype("float32")
Y = RNG.normal(size=(6, 1)).astype("float32")


@keras.saving.register_keras_serializable("tests")
class Process(bl.layers.OutputLayer):
    """Noise of one level for all examples, and noise for each."""

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def distribution(self, inputs):
        rows = ops.shape(inputs)[0]
        covariance = ops.square(self.scale) * (ops.ones((rows, rows)) + ops.eye(rows))
        return bl.distributions.JointNormal(inputs[:, :1], covariance)


def expected_loss(x=X, y=Y, scale=1.0):
    covariance = scale**2 * (np.ones((len(x), len(x))) + np.eye(len(x)))
    log_prob = stats.multivariate_normal(x[:, 0], covariance).logpdf(y[:, 0])
    return -log_prob / len(x)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "none"])
def test_each_example_has_an_equal_part(reduction):
    loss = bl.losses.NegativeLogLikelihood(reduction=reduction)
    # Targets of shape [n] are taken for [n, 1].
    value = ops.convert_to_numpy(loss(Y[:, 0], Process()(X)))
    expected = {
        "sum": len(X) * expected_loss(),
        "sum_over_batch_size": expected_loss(),
        "none": np.full(len(X), expected_loss()),
    }[reduction]
    assert value.shape == np.shape(expected)
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_weights_and_masks_are_refused():
    y_pred = Process()(X)
    loss = bl.losses.NegativeLogLikelihood()
    with pytest.raises(ValueError, match="all examples together.*sample_weight"):
        loss(Y, y_pred, np.ones(6))
    with pytest.raises(ValueError, match="all examples together.*sample_weight"):
        bl.metrics.NegativeLogLikelihood().update_state(Y, y_pred, np.ones(6))
    with pytest.raises(ValueError, match="`beta` needs"):
        bl.losses.NegativeLogLikelihood(beta=0.5)(Y, y_pred)
    y_pred._keras_mask = ops.ones((6,), "bool")
    with pytest.raises(ValueError, match="all examples together.*a mask"):
        loss(Y, y_pred)


def test_fit_and_evaluate_and_a_file(tmp_path):
    model = keras.Sequential([keras.Input((2,)), Process()])
    model.compile(
        keras.optimizers.SGD(0.05),
        bl.losses.NegativeLogLikelihood(),
        metrics=[bl.metrics.NegativeLogLikelihood()],
    )
    (loss,) = model.fit(X, Y, batch_size=6, epochs=1, verbose=0).history["loss"]
    np.testing.assert_allclose(loss, expected_loss(), rtol=1e-5)
    # d loss / d log scale is 1 - (mean squared standardized deviation).
    step = 1e-4
    slope = expected_loss(scale=1.0 + step) - expected_loss(scale=1.0 - step)
    scale = 1.0 - 0.05 * slope / (2.0 * step)
    np.testing.assert_allclose(
        ops.convert_to_numpy(model.layers[-1].scale), scale, rtol=1e-4
    )
    results = model.evaluate(X, Y, batch_size=6, verbose=0, return_dict=True)
    np.testing.assert_allclose(results["nll"], expected_loss(scale=scale), rtol=1e-4)
    assert model.predict(X, batch_size=4, verbose=0).shape == (6, 1)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.evaluate(X, Y, batch_size=6, verbose=0, return_dict=True)["nll"],
        results["nll"],
        rtol=1e-6,
    )
