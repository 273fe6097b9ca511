"""Exact Gaussian processes, against scikit-learn."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

import bayesian_layers as bl
from tests.layers.functions.processes import (
    NEW,
    NOISE,
    X,
    Y,
    array,
    gradients,
)

AMPLITUDE, LENGTHSCALE = 1.3, np.array([0.7, 1.6])


def covariance(**kwargs):
    return bl.covariances.ExponentiatedQuadratic(AMPLITUDE, LENGTHSCALE, **kwargs)


def process(units=2, **kwargs):
    kwargs = {"covariance_fn": covariance(), "noise_variance": NOISE, **kwargs}
    return bl.layers.GaussianProcess(units, **kwargs)


def oracle():
    kernel = kernels.ConstantKernel(AMPLITUDE**2) * kernels.RBF(LENGTHSCALE)
    kernel = kernel + kernels.WhiteKernel(NOISE)
    regressor = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
    return regressor.fit(X.astype("float64"), Y.astype("float64"))


def test_one_observation_gives_the_known_numbers():
    """Given f(0) = 1, at 1: the mean is exp(-1/2), the variance 1 - exp(-1)."""
    layer = bl.layers.GaussianProcess(
        1, conditional_inputs=[[0.0]], conditional_outputs=[[1.0]]
    )
    f = layer(np.array([[1.0]]))
    np.testing.assert_allclose(array(f.mean()), [[0.60653]], atol=1e-5)
    np.testing.assert_allclose(array(f.variance()), [[0.63212]], atol=1e-5)


def test_the_posterior_is_that_of_scikit_learn():
    mean, covariances = oracle().predict(NEW.astype("float64"), return_cov=True)
    layer = process(conditional_inputs=X, conditional_outputs=Y)
    observed = layer(NEW).distribution
    np.testing.assert_allclose(array(observed.mean()), mean, atol=1e-4)
    # scikit-learn counts the white noise of its kernel: observations.
    expected = covariances[..., 0]
    matrix = np.broadcast_to(array(observed.covariance()), (2, 5, 5))
    np.testing.assert_allclose(matrix[0], expected, atol=1e-4)
    np.testing.assert_allclose(matrix[1], expected, atol=1e-4)


def test_without_noise_it_is_the_distribution_of_the_function():
    layer = process(conditional_inputs=X, conditional_outputs=Y)
    noisy = layer(NEW).distribution
    function = layer.distribution(NEW, with_noise=False)
    np.testing.assert_allclose(array(noisy.mean()), array(function.mean()), atol=1e-6)
    difference = array(noisy.variance()) - array(function.variance())
    np.testing.assert_allclose(difference, NOISE, atol=1e-5)
    with pytest.raises(AttributeError):
        layer.with_noise = False


def test_the_log_marginal_likelihood_and_its_gradient_are_those_of_scikit_learn():
    layer = process()
    layer.build(X.shape)
    value, found = gradients(layer, lambda: layer(X).log_prob(Y))
    regressor = oracle()
    expected, by_log = regressor.log_marginal_likelihood(
        regressor.kernel_.theta, eval_gradient=True
    )
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    # By the logs of amplitude**2, of the two lengthscales and of the noise.
    natural = {
        "amplitude": (2.0 * by_log[0] / AMPLITUDE, AMPLITUDE),
        "lengthscale": (by_log[1:3] / LENGTHSCALE, LENGTHSCALE),
        "untransformed_noise": (by_log[3] / NOISE, NOISE),
    }
    for name, (gradient, parameter) in natural.items():
        # d softplus(u) / du = 1 - exp(-softplus(u))
        by_stored = gradient * -np.expm1(-parameter)
        np.testing.assert_allclose(found[name], by_stored, rtol=2e-3)


def test_the_mean_function_is_the_mean_without_data():
    layer = process(mean_fn=keras.layers.Dense(2, kernel_initializer="ones"))
    np.testing.assert_allclose(
        array(layer(NEW).mean()), NEW.sum(axis=1, keepdims=True) @ np.ones((1, 2))
    )
    assert len(layer.trainable_weights) == 5
    layer.condition(X, Y)
    far = array(layer(np.full((1, 2), 50.0, "float32")).mean())
    np.testing.assert_allclose(far, 100.0, rtol=1e-4)


def test_units_may_have_covariance_functions_of_their_own():
    parts = [covariance(), bl.covariances.ExponentiatedQuadratic(0.5, 0.4)]
    layer = process(covariance_fn=parts)
    layer.condition(X, Y)
    joint = layer(NEW).distribution
    for unit, part in enumerate(parts):
        alone = process(1, covariance_fn=part)
        alone.condition(X, Y[:, unit])
        expected = alone(NEW).distribution
        mean = array(joint.mean())[:, unit : unit + 1]
        np.testing.assert_allclose(mean, array(expected.mean()), atol=1e-5)
        matrix = array(expected.covariance()).reshape(5, 5)
        np.testing.assert_allclose(array(joint.covariance())[unit], matrix, atol=1e-5)


def test_fit_learns_the_noise_and_conditions_on_the_data():
    rng = np.random.default_rng(3)
    x = np.linspace(0.0, 10.0, 60)[:, None].astype("float32")
    y = (np.sin(x) + 0.2 * rng.normal(size=x.shape)).astype("float32")
    layer = bl.layers.GaussianProcess(1, noise_variance=0.5)
    history = layer.fit(x, y[:, 0], epochs=60, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    noise = array(ops.softplus(layer.untransformed_noise))
    # The standard error of a variance from 60 numbers is 0.18 of it.
    assert 0.5 * 0.04 < noise < 2.0 * 0.04
    inner = np.array([[2.5], [7.5]], "float32")
    np.testing.assert_allclose(array(layer(inner).mean()), np.sin(inner), atol=0.25)
    log_prob = process(1, noise_variance=0.5, covariance_fn=None)(x).log_prob(y)
    np.testing.assert_allclose(
        history.history["loss"][0], -array(log_prob) / 60, rtol=1e-4
    )


def test_a_model_that_predicted_before_sees_the_data():
    """Also where what it compiled would not notice."""
    layer = process()
    model = keras.Sequential([keras.Input((2,)), layer])
    model.predict(NEW, verbose=0)
    layer.condition(X, Y)
    layer.convert = "mean"
    expected = array(layer(NEW).mean())
    np.testing.assert_allclose(model.predict(NEW, verbose=0), expected, atol=1e-5)


def test_training_on_batches_warns():
    model = keras.Sequential([keras.Input((2,)), process()])
    model.compile("sgd", bl.losses.NegativeLogLikelihood())
    with pytest.warns(UserWarning, match="trained on 3 batches an epoch"):
        model.fit(X, Y, batch_size=4, verbose=0)


def test_training_on_all_data_does_not_warn():
    model = keras.Sequential([keras.Input((2,)), process()])
    model.compile("sgd", bl.losses.NegativeLogLikelihood())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y, batch_size=12, verbose=0)


def test_training_a_conditioned_process_warns():
    layer = process(conditional_inputs=X, conditional_outputs=Y)
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile("sgd", bl.losses.NegativeLogLikelihood())
    with pytest.warns(UserWarning, match="it has seen the targets"):
        model.fit(X, Y, batch_size=12, verbose=0)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({}, ["amplitude", "lengthscale", "untransformed_noise"]),
        ({"trainable_noise": False}, ["amplitude", "lengthscale"]),
        (
            {"covariance_fn": covariance(fixed=("amplitude",))},
            ["lengthscale", "untransformed_noise"],
        ),
        (
            {
                "trainable_conditional_inputs": True,
                "trainable_conditional_outputs": True,
                "covariance_fn": covariance(trainable=False),
            },
            ["conditional_inputs", "conditional_outputs", "untransformed_noise"],
        ),
    ],
)
def test_each_part_is_trained_by_choice(choice, names):
    layer = process(conditional_inputs=X, conditional_outputs=Y, **choice)
    assert sorted(v.name for v in layer.trainable_variables) == names
    assert not layer.losses


def test_a_file_keeps_the_conditioning_data(tmp_path):
    layer = process(conditional_inputs=X, conditional_outputs=Y)
    model = keras.Sequential([keras.Input((2,)), layer])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = layer(NEW)
    found = loaded.layers[-1](NEW)
    np.testing.assert_allclose(array(found.mean()), array(expected.mean()), atol=1e-6)
    np.testing.assert_allclose(
        array(found.distribution.covariance()),
        array(expected.distribution.covariance()),
        atol=1e-6,
    )


def test_a_clone_without_its_data_says_so():
    layer = process(conditional_inputs=X, conditional_outputs=Y)
    clone = bl.layers.GaussianProcess.from_config(layer.get_config())
    with pytest.raises(ValueError, match="have not been loaded"):
        clone(NEW)
    clone.set_weights(layer.get_weights())
    np.testing.assert_allclose(array(clone(NEW).mean()), array(layer(NEW).mean()))


def test_other_data_take_the_place_of_the_first():
    layer = process(conditional_inputs=X, conditional_outputs=Y)
    layer.condition(X[:3], Y[:3])
    expected = process(conditional_inputs=X[:3], conditional_outputs=Y[:3])(NEW)
    np.testing.assert_allclose(array(layer(NEW).mean()), array(expected.mean()))
    assert len(layer.weights) == 5
    layer.condition(None, None)
    np.testing.assert_allclose(array(layer(NEW).mean()), 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "`units` should be a positive integer"),
        ({"noise_variance": -1.0}, "should not be negative"),
        ({"conditional_inputs": X}, "belong together"),
        (
            {"conditional_inputs": X, "conditional_outputs": Y[:, :1]},
            r"\[N, D\] and \[N, 2\]",
        ),
        (
            {"conditional_inputs": np.nan * X, "conditional_outputs": Y},
            "Expected finite data",
        ),
        ({"mean_fn": "linear"}, "`mean_fn` should be"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        process(**{"units": 2, **arguments})


def test_bad_inputs_are_refused():
    with pytest.raises(ValueError, match=r"expects inputs \[n, D\]"):
        process()(np.ones((2, 3, 2), "float32"))
    layer = process(conditional_inputs=X, conditional_outputs=Y)
    with pytest.raises(ValueError, match="Expected inputs with 2 columns"):
        layer.condition(np.ones((3, 4)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="`batch_size` has no meaning"):
        layer.fit(X, Y, batch_size=3)


@pytest.mark.parametrize("lengthscale", [1e-3, 1.0, 1e3])
def test_duplicated_inputs_and_extreme_lengthscales_give_finite_gradients(lengthscale):
    twice = np.concatenate([X, X])
    targets = np.concatenate([Y, Y + 0.01])
    layer = process(
        covariance_fn=bl.covariances.ExponentiatedQuadratic(1.0, lengthscale),
        noise_variance=0.0,
    )
    layer.build(X.shape)
    value, found = gradients(layer, lambda: layer(twice).log_prob(targets))
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(gradient)) for gradient in found.values())


@pytest.mark.parametrize("lengthscale", [1e-3, 1e3])
def test_two_thousand_points_give_finite_gradients(lengthscale):
    """In float32, with duplicates and without noise."""
    x = np.random.default_rng(0).uniform(-2.0, 2.0, size=(2000, 1)).astype("float32")
    x[1000:1100] = x[:100]
    layer = bl.layers.GaussianProcess(
        1, covariance_fn=bl.covariances.ExponentiatedQuadratic(1.0, lengthscale)
    )
    layer.build(x.shape)
    value, found = gradients(layer, lambda: ops.sum(layer(x).log_prob(np.sin(x))))
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(gradient)) for gradient in found.values())


@pytest.mark.parametrize("units", [1, 2])
def test_where_nothing_is_left_uncertain_it_can_be_drawn(units):
    """At its data, without noise, the covariance is nothing but rounding."""
    layer = process(units, noise_variance=0.0)
    layer.condition(X, Y[:, :units])
    f = layer(X)
    np.testing.assert_allclose(array(f), Y[:, :units], atol=0.02)
    assert np.isfinite(array(f.log_prob(Y[:, :units])))


def test_a_covariance_that_is_none_raises():
    layer = bl.layers.GaussianProcess(
        1, covariance_fn=lambda x, z: -ops.matmul(x, ops.transpose(z))
    )
    with pytest.raises(ValueError, match="positive definite"):
        layer.condition(X, Y[:, 0])
        layer(NEW)
