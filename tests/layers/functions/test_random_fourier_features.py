"""Random features with distributions over frequencies and weights."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.statistics import assert_mean

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10, 2)).astype("float32")


def layer_of(units=2, **arguments):
    arguments = {"num_features": 16, "seed": 1, **arguments}
    layer = bl.layers.RandomFourierFeatures(units, **arguments)
    layer.build((None, 2))
    return layer


def numpy(x):
    return ops.convert_to_numpy(x)


def test_the_prior_tends_to_the_gaussian_process():
    """Given Omega, the covariance of f is phi(x) . phi(z).

    Its error is the mean of F independent ones. Its root mean square, over groups of F
    features of 40,000 and over pairs of inputs, is 1 / sqrt(F) times a constant; within
    10%, which is five standard errors of the smaller number of groups.
    """
    count = 40000
    covariance = bl.covariances.ExponentiatedQuadratic(1.5, [0.7, 1.3])
    expected = numpy(covariance(X))
    layer = layer_of(num_features=count, covariance_fn=covariance)
    projection = np.random.default_rng(3).normal(size=(2, count)).astype("float32")
    phi = np.sqrt(count) * numpy(layer.features(X, projection))
    assert_mean(np.einsum("if,jf->fij", phi, phi), expected, detect=0.2)
    errors = {}
    for size in (20, 500):
        groups = phi.reshape(len(X), -1, size)
        means = np.einsum("igf,jgf->gij", groups, groups) / size
        errors[size] = np.sqrt(np.mean((means - expected) ** 2))
    assert errors[20] / errors[500] == pytest.approx(5.0, rel=0.1)
    assert errors[500] < 1.5**2 / np.sqrt(500)


def test_a_call_is_the_function_of_its_weights():
    layer = layer_of()
    with bl.tape() as tape:
        y = numpy(layer(X))
    values = {name.split("/")[-1]: numpy(tape[name].value) for name in tape}
    assert set(values) == {"projection", "kernel"}
    angles = X @ values["projection"] + numpy(layer.phases)
    expected = np.sqrt(2 / 16) * np.cos(angles) @ values["kernel"]
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-5)
    assert np.any(numpy(layer(X)) != y)


def test_the_divergences_are_in_the_losses_once():
    layer = layer_of(kl_scale=0.5)
    layer(X), layer(X)
    expected = 0.0
    for weight in layer.random_weights.values():
        mean, scale = numpy(weight.posterior.mean()), numpy(weight.posterior.stddev())
        expected += np.sum(0.5 * (mean**2 + scale**2 - 1.0) - np.log(scale))
    assert len(layer.losses) == 2
    assert float(numpy(sum(layer.losses))) == pytest.approx(0.5 * expected, rel=1e-4)
    assert float(numpy(bl.total_kl(layer))) == pytest.approx(expected, rel=1e-4)


def test_the_projection_starts_at_a_draw_from_its_prior():
    layer = layer_of(num_features=2000)
    mean = numpy(layer.projection)
    assert np.mean(mean**2) == pytest.approx(1.0, abs=0.15)
    assert numpy(layer.random_weights["projection"].posterior.stddev()).max() < 0.05
    np.testing.assert_array_equal(mean, numpy(layer_of(num_features=2000).projection))


def test_held_weights_are_one_function():
    model = keras.Sequential([keras.Input((2,)), layer_of(), layer_of(1)])
    with bl.weights(model, seed=7):
        first = numpy(model(X))
        np.testing.assert_allclose(numpy(model(X[::-1]))[::-1], first, atol=1e-5)
    with bl.weights(model, "mean"):
        np.testing.assert_allclose(numpy(model(X)), numpy(model(X)))


def test_a_random_lengthscale_is_drawn_with_the_function():
    covariance = bl.covariances.ExponentiatedQuadratic(
        lengthscale=bl.initializers.TrainableLogNormal()
    )
    layer = layer_of(covariance_fn=covariance)
    layer(X)
    assert len(layer.losses) == 3
    with bl.weights(layer, seed=3):
        np.testing.assert_allclose(numpy(layer(X)), numpy(layer(X)))


def test_a_projection_of_one_value():
    fixed = {
        "projection_initializer": keras.initializers.RandomNormal(stddev=1.0, seed=2),
        "projection_regularizer": None,
    }
    layer = layer_of(**fixed)
    assert list(layer.random_weights) == ["kernel"]
    names = [v.name for v in layer.trainable_variables]
    assert names == ["projection", "kernel", "kernel_scale", "amplitude", "lengthscale"]
    layer = layer_of(train_projection=False)
    assert len(layer.losses) == 1
    assert not any("projection" in v.name for v in layer.trainable_variables)


def test_active_dims():
    covariance = bl.covariances.ExponentiatedQuadratic(active_dims=[1])
    layer = layer_of(covariance_fn=covariance)
    assert tuple(layer.projection.shape) == (1, 16)
    with bl.weights(layer, seed=1):
        np.testing.assert_array_equal(
            numpy(layer(X)), numpy(layer(X * np.array([0.0, 1.0], "float32")))
        )


def test_it_trains_saves_and_loads(tmp_path):
    """With default arguments; a deep Gaussian process of two layers."""
    x = np.linspace(-2.0, 2.0, 128, dtype="float32")[:, None]
    y = np.sin(3.0 * x)
    model = keras.Sequential(
        [
            keras.Input((1,)),
            bl.layers.RandomFourierFeatures(3, 32, seed=1),
            bl.layers.RandomFourierFeatures(1, 32, seed=2),
        ]
    )
    model.compile(keras.optimizers.Adam(0.05), "mse")
    bl.scale_kl(model, dataset_size=100 * len(x))
    model.fit(x, y, epochs=80, batch_size=128, verbose=0)
    with bl.weights(model, "mean"):
        assert np.mean((numpy(model(x)) - y) ** 2) < 0.1 * np.var(y)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for held in ({"value": "mean"}, {"seed": 3}):
        with bl.weights(model, **held), bl.weights(loaded, **held):
            np.testing.assert_allclose(numpy(loaded(x)), numpy(model(x)), atol=1e-5)


def test_half_precision_has_its_angles_in_single_precision():
    layer, half = layer_of(), layer_of(dtype="mixed_bfloat16")
    half.set_weights(layer.get_weights())
    x = 100.0 + X
    with bl.weights(layer, "mean"), bl.weights(half, "mean"):
        y, z = layer(x), half(x)
    assert keras.backend.standardize_dtype(z.dtype) == "bfloat16"
    np.testing.assert_allclose(numpy(ops.cast(z, "float32")), numpy(y), atol=0.01)


def test_what_is_refused():
    sum_of_two = bl.covariances.ExponentiatedQuadratic() + bl.covariances.Constant()
    with pytest.raises(ValueError, match="function of the distance"):
        bl.layers.RandomFourierFeatures(2, covariance_fn=sum_of_two)
    with pytest.raises(ValueError, match="units=0"):
        bl.layers.RandomFourierFeatures(0)
    wrapped = keras.layers.TimeDistributed(layer_of())
    with pytest.raises(ValueError, match="TimeDistributed"):
        wrapped(X[None])
