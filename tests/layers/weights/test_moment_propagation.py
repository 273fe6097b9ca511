"""Moments of activations, against closed forms and Monte Carlo by NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers.distributions import MultivariateNormalFullCovariance
from bayesian_layers.layers.weights import moments
from tests.layers.weights.table import ELSEWHERE, array

NUMPY = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "leaky_relu": lambda x: np.where(x > 0.0, x, 0.2 * x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "gelu": None,
    "silu": lambda x: x / (1.0 + np.exp(-x)),
}
EXACT = ("linear", "relu", "leaky_relu")
DRAWS = 400_000


def function(name):
    return keras.activations.get(name)


def test_relu_of_a_standard_normal_variable():
    mean, variance = moments.activated(
        keras.activations.relu, ops.zeros((1, 1)), ops.ones((1, 1))
    )
    np.testing.assert_allclose(array(mean), 0.398942, atol=1e-5)
    np.testing.assert_allclose(array(variance), 0.340845, atol=1e-5)


@pytest.mark.parametrize("name", NUMPY)
def test_moments_of_an_activation_are_integrals(name):
    """On a fine grid of a standard normal variable, at narrow and wide inputs."""
    mean = np.array([[-2.0, -0.3, 0.0, 0.5, 3.0, 1.0]], "float32")
    stddev = np.array([[0.5, 1.0, 2.0, 0.1, 1.5, 3.0]], "float32")
    z = np.linspace(-9.0, 9.0, 20_001)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi) * (z[1] - z[0])
    values = array(
        function(name)(
            ops.convert_to_tensor(
                mean[..., None] + stddev[..., None] * z.astype("float32")
            )
        )
    )
    expected_mean = values @ density
    expected = ((values - expected_mean[..., None]) ** 2) @ density
    new_mean, variance = moments.activated(
        function(name), ops.convert_to_tensor(mean), ops.convert_to_tensor(stddev**2)
    )
    # 32 nodes are short of a bend that is narrow beside the inputs.
    tolerance = 2e-4 if name in EXACT else 0.02
    np.testing.assert_allclose(array(new_mean), expected_mean, atol=tolerance)
    np.testing.assert_allclose(array(variance), expected, atol=tolerance, rtol=1e-3)


CORRELATION = np.array([[1.0, 0.9, -0.7], [0.9, 1.0, -0.5], [-0.7, -0.5, 1.0]])
STDDEV = np.array([1.0, 0.6, 1.5])
COVARIANCE = CORRELATION * STDDEV[:, None] * STDDEV
LOC = np.array([0.3, -0.4, 0.5])


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "tanh"])
def test_covariances_of_correlated_inputs_are_those_of_monte_carlo(name):
    """400000 draws: a covariance has a standard error below 0.003; 6 of them pass.

    To that comes what the series leaves out: 0.01 of the variances.
    """
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(LOC, COVARIANCE, size=DRAWS)
    values = NUMPY[name](x)
    mean, covariance = moments.activated(
        function(name),
        ops.convert_to_tensor(LOC[None], "float32"),
        ops.convert_to_tensor(COVARIANCE[None], "float32"),
    )
    np.testing.assert_allclose(array(mean)[0], values.mean(axis=0), atol=0.012)
    centred = values - values.mean(axis=0)
    products = centred[:, :, None] * centred[:, None, :]
    allowed = 6.0 * products.std(axis=0) / np.sqrt(DRAWS)
    allowed = allowed + 0.01 * np.sqrt(np.outer(*2 * [np.var(values, axis=0)]))
    error = array(covariance)[0] - np.cov(values.T)
    assert np.all(np.abs(error) < allowed), error
    assert np.linalg.eigvalsh(array(covariance)[0]).min() > 0.0


def arc_cosine(correlation):
    """Cov(relu(x), relu(y)) of standard normal variables (Cho and Saul, 2009)."""
    angle = np.arccos(correlation)
    second = np.sin(angle) + (np.pi - angle) * np.cos(angle)
    return (second - 1.0) / (2.0 * np.pi)


@pytest.mark.parametrize("correlation", [-1.0, -0.95, -0.3, 0.2, 0.8, 0.99, 1.0])
def test_the_series_of_relu_is_the_arc_cosine_kernel(correlation):
    matrix = np.array([[[1.0, correlation], [correlation, 1.0]]], "float32")
    _, covariance = moments.activated(
        keras.activations.relu, ops.zeros((1, 2)), ops.convert_to_tensor(matrix)
    )
    error = abs(array(covariance)[0, 0, 1] - arc_cosine(correlation))
    assert error < 0.007 * 0.3408


def with_stddev(layer, stddev):
    for weight in layer.random_weights.values():
        if "scale" in weight.variables:
            scale = weight.variables["scale"]
            scale.assign(np.full(scale.shape, np.log(np.expm1(stddev))))


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_an_affine_map_of_correlated_inputs_is_exact(covariance):
    """Against Cov(y) = E Cov(y | w) + Cov E(y | w), in NumPy loops over elements."""
    layer = bl.layers.DenseMomentPropagation(
        2, bias_initializer="trainable_normal", covariance=covariance
    )
    inputs = bl.RandomVariable(
        MultivariateNormalFullCovariance(
            LOC[None].astype("float32"), COVARIANCE[None].astype("float32")
        )
    )
    layer.build((None, 3))
    with_stddev(layer, 0.4)
    output = layer(inputs)
    kernel = array(layer.kernel)
    expected = np.zeros((2, 2))
    for j in range(2):
        for k in range(2):
            for a in range(3):
                for b in range(3):
                    product = kernel[a, j] * kernel[b, k]
                    if (a, j) == (b, k):
                        product += 0.16
                    second = COVARIANCE[a, b] + LOC[a] * LOC[b]
                    expected[j, k] += product * second
            expected[j, k] -= (LOC @ kernel)[j] * (LOC @ kernel)[k]
            expected[j, k] += 0.16 * (j == k)
    np.testing.assert_allclose(array(output.mean())[0], LOC @ kernel, atol=1e-5)
    if covariance == "full":
        found = array(output.distribution.covariance())[0]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        # Only what each input varies by itself is passed on.
        np.testing.assert_allclose(
            array(output.variance())[0],
            0.16 * (1.0 + np.sum(STDDEV**2 + LOC**2)) + STDDEV**2 @ kernel**2,
            atol=1e-5,
        )


def test_a_convolution_has_the_variance_of_independent_inputs():
    rng = np.random.default_rng(0)
    layer = bl.layers.Conv2DMomentPropagation(2, 2)
    layer.build((None, 3, 3, 1))
    with_stddev(layer, 0.4)
    mean = rng.normal(size=(1, 3, 3, 1)).astype("float32")
    stddev = rng.uniform(0.5, 1.5, size=(1, 3, 3, 1)).astype("float32")
    output = layer(bl.Normal(mean, stddev))
    kernel = array(layer.kernel)
    for i in range(2):
        for j in range(2):
            window = np.s_[0, i : i + 2, j : j + 2, 0]
            for c in range(2):
                weights = kernel[:, :, 0, c]
                np.testing.assert_allclose(
                    array(output.mean())[0, i, j, c],
                    np.sum(mean[window] * weights),
                    atol=1e-5,
                )
                np.testing.assert_allclose(
                    array(output.variance())[0, i, j, c],
                    np.sum(
                        stddev[window] ** 2 * weights**2
                        + 0.16 * (mean[window] ** 2 + stddev[window] ** 2)
                    ),
                    rtol=1e-5,
                )


def network(**kwargs):
    layers = [
        bl.layers.DenseMomentPropagation(6, activation="relu", seed=1, **kwargs),
        bl.layers.DropoutMomentPropagation(0.2),
        bl.layers.DenseMomentPropagation(6, activation="tanh", seed=2, **kwargs),
        bl.layers.DenseMomentPropagation(1, seed=3, **kwargs),
        bl.layers.GaussianLikelihood(0.1),
    ]
    return keras.Sequential([keras.Input((3,)), *layers])


X = np.random.default_rng(3).normal(size=(16, 3)).astype("float32")
Y = np.sin(X[:, :1])


def draws_of(model, count, stddev):
    """Draws of the network's function, of weights and masks, by NumPy."""
    rng = np.random.default_rng(0)
    first, _, second, last = model.layers[:4]
    x = np.repeat(X[None], count, axis=0)
    for layer, activation in ((first, "relu"), (second, "tanh"), (last, "linear")):
        kernel = array(layer.kernel)
        kernel = kernel + stddev * rng.normal(size=(count, *kernel.shape))
        x = NUMPY[activation](x @ kernel + array(layer.bias))
        if layer is first:
            x = x * (rng.random((count, 1, x.shape[-1])) > 0.2) / 0.8
    return x[..., 0]


def test_a_network_has_nearly_the_moments_of_draws():
    """20000 draws, a standard error of 0.5%; the rest is that sums of six are not
    quite normal: 25% of a standard deviation at most, 5% on average."""
    model = network()
    for layer in model.layers[:4]:
        with_stddev(layer, 0.2)
    latent = model(X).distribution.latent
    draws = draws_of(model, 20_000, 0.2)
    stddev = draws.std(axis=0)
    ratio = array(latent.stddev())[:, 0] / stddev
    np.testing.assert_allclose(ratio, 1.0, atol=0.25)
    np.testing.assert_allclose(ratio.mean(), 1.0, atol=0.05)
    error = np.abs(array(latent.mean())[:, 0] - draws.mean(axis=0))
    assert np.all(error < 0.25 * stddev)


def test_training_has_no_noise_and_learns():
    histories = []
    for _ in range(2):
        keras.utils.set_random_seed(0)
        model = network()
        bl.scale_kl(model, dataset_size=1000)
        model.compile(keras.optimizers.Adam(0.02), bl.losses.NegativeLogLikelihood())
        fitted = model.fit(X, Y, batch_size=16, epochs=15, verbose=0)
        histories.append(fitted.history["loss"])
        losses = [model.evaluate(X, Y, batch_size=16, verbose=0) for _ in range(2)]
        assert losses[0] == losses[1]
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-6)
    assert histories[0][-1] < histories[0][0] - 0.5
    # Without noise there is nothing that could go up again at this rate.
    assert np.max(np.diff(histories[0])) < 0.5


def test_the_head_has_the_expected_log_likelihood_in_closed_form():
    model = network()
    output = model(X)
    latent = output.distribution.latent
    mean, variance = array(latent.mean()), array(latent.variance())
    noise = array(model.layers[-1].noise_variance)
    expected = -0.5 * (np.log(2 * np.pi * noise) + ((Y - mean) ** 2 + variance) / noise)
    np.testing.assert_allclose(
        array(output.expected_log_prob(Y)), expected, rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(array(output.variance()), variance + noise, rtol=1e-4)


def test_an_image_network_trains():
    layers = [
        bl.layers.Conv2DMomentPropagation(3, 2, activation="relu"),
        bl.layers.AveragePooling2DMomentPropagation(2),
        bl.layers.Conv2DMomentPropagation(3, 2, activation="leaky_relu"),
        bl.layers.FlattenMomentPropagation(),
        bl.layers.DenseMomentPropagation(1),
        bl.layers.GaussianLikelihood(),
    ]
    model = keras.Sequential([keras.Input((7, 7, 1)), *layers])
    bl.scale_kl(model, dataset_size=100)
    model.compile("adam", bl.losses.NegativeLogLikelihood())
    x = np.random.default_rng(0).normal(size=(8, 7, 7, 1)).astype("float32")
    before = [array(w) for w in model.trainable_weights]
    model.fit(x, x.mean(axis=(1, 2)), verbose=0, epochs=2)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.any(array(weight) != old), weight.path
    assert len(model.losses) == 3


@pytest.mark.parametrize(
    "between",
    [
        keras.layers.Dense(2),
        keras.layers.Activation("relu"),
        keras.layers.BatchNormalization(),
        bl.layers.DenseFlipout(2),
        bl.layers.Normal(1),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_layer_that_knows_no_moments_raises(between):
    first = bl.layers.DenseMomentPropagation(4)
    model = keras.Sequential([keras.Input((3,)), first, between])
    with pytest.raises(Exception, match="known by its moments, and has no value"):
        model(X)
    with bl.weights(model, seed=1):
        assert ops.shape(model(X))[0] == 16


def test_a_loss_of_values_raises():
    model = keras.Sequential([keras.Input((3,)), bl.layers.DenseMomentPropagation(1)])
    bl.scale_kl(model, dataset_size=16)
    model.compile("sgd", "mse")
    with pytest.raises(Exception, match="no value"):
        model.fit(X, Y, verbose=0)
    prediction = bl.predict(model, X, num_samples=3, verbose=0)
    assert prediction.mean.shape == (16, 1)


def test_held_it_is_the_keras_network_at_one_draw(tmp_path):
    model = network()
    with bl.weights(model, seed=3):
        outputs = array(model(X).mean())
        np.testing.assert_allclose(
            array(model(X[::-1]).mean())[::-1], outputs, atol=1e-5
        )
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    with bl.weights(loaded, seed=3):
        np.testing.assert_allclose(array(loaded(X).mean()), outputs, atol=1e-5)
    np.testing.assert_allclose(
        array(loaded(X).variance()), array(model(X).variance()), rtol=1e-4
    )
    with bl.weights(model, "mean"):
        x = X
        for layer, activation in zip(
            (model.layers[0], model.layers[2], model.layers[3]),
            ("relu", "tanh", "linear"),
            strict=True,
        ):
            x = NUMPY[activation](x @ array(layer.kernel) + array(layer.bias))
        np.testing.assert_allclose(array(model(X).mean()), x, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_in_mixed_precision_moments_are_float32(policy):
    layer = bl.layers.DenseMomentPropagation(4, activation="relu", dtype=policy)
    last = bl.layers.DenseMomentPropagation(2, dtype=policy)
    output = last(layer(X))
    assert keras.backend.standardize_dtype(output.variance().dtype) == "float32"
    assert np.all(np.isfinite(array(output.distribution.covariance())))


def test_what_has_no_moments_is_refused():
    with pytest.raises(ValueError, match="knows the moments.*'tanh'"):
        bl.layers.DenseMomentPropagation(2, activation="softmax")
    with pytest.raises(ValueError, match="rank two.*FlattenMomentPropagation"):
        bl.layers.DenseMomentPropagation(2).build((None, 3, 4))
    layer = bl.layers.DenseMomentPropagation(2, kernel_initializer="trainable_cauchy")
    with pytest.raises(ValueError, match="normal elements.*Cauchy"):
        layer.build((None, 3))
    with pytest.raises(ValueError, match="padding='same'"):
        bl.layers.AveragePooling2DMomentPropagation(2, padding="same")
    with pytest.raises(ValueError, match="`Normal` or"):
        bl.layers.DenseMomentPropagation(2)(bl.Gamma(np.ones((2, 3)), 1.0))
    with pytest.raises(ValueError, match='"full" or "diagonal"'):
        bl.layers.DenseMomentPropagation(2, covariance="low_rank")


def test_every_layer_of_moments_is_tested_here():
    assert {name for name in ELSEWHERE if "Moment" in name} == {
        name for name in bl.layers.weights.__all__ if "Moment" in name
    }
