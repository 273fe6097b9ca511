"""Gaussian processes that are held: one function of x."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.functions.processes import NEW, NOISE, X, Y, array

COUNT = 400


def exact(**kwargs):
    kwargs = {"with_noise": False, **kwargs}
    return bl.layers.GaussianProcess(2, noise_variance=NOISE, seed=0, **kwargs)


def conditioned(**kwargs):
    return exact(conditional_inputs=X, conditional_outputs=Y, **kwargs)


def sparse(**kwargs):
    layer = bl.layers.SparseGaussianProcess(
        2, 5, inducing_inputs=X[:5], seed=0, **kwargs
    )
    layer.condition(X, Y, NOISE)
    return layer


LAYERS = {
    "prior": exact,
    "exact": conditioned,
    "sparse": sparse,
    "unwhitened": lambda: sparse(whiten=False, mean_fn="identity"),
    "separate": lambda: sparse(
        separate_inducing=True,
        covariance_fn=bl.covariances.ExponentiatedQuadratic(batch_shape=(2,)),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_it_is_one_function_over_calls_batches_and_orders(name):
    layer = LAYERS[name]()
    layer(NEW)
    with bl.weights(layer, seed=7):
        values = array(layer(NEW))
        np.testing.assert_allclose(array(layer(NEW[::-1]))[::-1], values, atol=1e-5)
        for i in range(2):
            one = array(layer(NEW[i : i + 1]))
            np.testing.assert_allclose(one, values[i : i + 1], atol=1e-5)
    with bl.weights(layer, seed=8):
        assert np.max(np.abs(array(layer(NEW)) - values)) > 0.01


@pytest.mark.parametrize("name", LAYERS)
def test_at_the_mean_it_is_the_mean(name):
    layer = LAYERS[name]()
    expected = array(layer(NEW).mean())
    with bl.weights(layer, "mean"):
        np.testing.assert_allclose(array(layer(NEW)), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["exact", "sparse", "unwhitened"])
def test_functions_have_the_moments_of_the_process(name):
    """Of 400 functions: bounds of 5 standard errors, 3e-6 false failures altogether."""
    layer = LAYERS[name]()
    model = keras.Sequential([keras.Input((2,)), layer])
    prediction = bl.predict(model, NEW, num_samples=COUNT, seed=1, verbose=0)
    mean, variance = array(layer(NEW).mean()), array(layer(NEW).variance())
    error = np.sqrt(variance / COUNT)
    assert np.all(np.abs(prediction.mean - mean) < 5.0 * error)
    ratio = np.square(prediction.stddev) / variance
    assert np.all(np.abs(ratio - 1.0) < 5.0 * np.sqrt(2.0 / COUNT))
    # What is not noise is uncertainty about the function.
    np.testing.assert_allclose(prediction.aleatoric, 0.0, atol=1e-7)


def test_functions_have_the_covariance_of_the_process():
    """The correlation of two near points, whose standard error is below 0.05."""
    layer = conditioned()
    near = np.array([[2.3, 2.3], [2.4, 2.2]], "float32")
    model = keras.Sequential([keras.Input((2,)), layer])
    samples = bl.predict(model, near, num_samples=COUNT, seed=1, verbose=0).samples
    matrix = array(layer(near).distribution.covariance()).reshape(-1, 2, 2)[0]
    expected = matrix[0, 1] / np.sqrt(matrix[0, 0] * matrix[1, 1])
    found = np.corrcoef(samples[:, 0, 0], samples[:, 1, 0])[0, 1]
    np.testing.assert_allclose(found, expected, atol=5 * (1 - expected**2) / 20)
    # Units are independent.
    found = np.corrcoef(samples[:, 0, 0], samples[:, 0, 1])[0, 1]
    assert abs(found) < 5 / 20


def test_observations_of_a_held_function_are_noisy():
    layer = conditioned(with_noise=True)
    with bl.weights(layer, seed=7):
        f = layer(NEW)
        np.testing.assert_allclose(array(f.variance()), NOISE, rtol=1e-5)
        np.testing.assert_allclose(array(layer(NEW).mean()), array(f.mean()))


def test_equal_seeds_are_equal_functions_after_loading(tmp_path):
    model = keras.Sequential([keras.Input((2,)), sparse(), sparse()])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    with bl.weights(model, seed=3):
        expected = array(model(NEW))
        np.testing.assert_allclose(model.predict(NEW, verbose=0), expected, atol=1e-4)
    with bl.weights(loaded, seed=3):
        np.testing.assert_allclose(array(loaded(NEW)), expected, atol=1e-5)


def test_a_deep_process_is_one_function():
    model = keras.Sequential([keras.Input((2,)), sparse(), sparse()])
    prediction = bl.predict(model, NEW, num_samples=3, seed=2, verbose=0)
    again = bl.predict(model, NEW[::-1], num_samples=3, seed=2, batch_size=2, verbose=0)
    np.testing.assert_allclose(again.samples[:, ::-1], prediction.samples, atol=1e-4)


def test_without_random_features_it_refuses_to_be_held():
    layer = exact(
        covariance_fn=bl.covariances.ExponentiatedQuadratic() + bl.covariances.White()
    )
    layer(NEW)
    with (
        pytest.raises(ValueError, match="cannot be one function over several calls"),
        bl.weights(layer, seed=7),
    ):
        layer(NEW)
