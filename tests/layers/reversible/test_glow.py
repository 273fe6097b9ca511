"""The parts of Glow: their start, their formulas, and a flow made of them."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from tests.layers.reversible.table import array
from tests.statistics import assert_distributed_as

RNG = np.random.default_rng(0)
IMAGES = RNG.normal([1.0, -2.0], [3.0, 0.5], size=(12, 4, 4, 2)).astype("float32")


# ActNorm.


def channel_moments(images):
    axes = tuple(range(images.ndim - 1))
    return images.mean(axis=axes), images.std(axis=axes)


def test_the_first_batch_in_training_has_mean_zero_and_variance_one():
    layer = bl.layers.ActNorm()
    # Not in training: the identity, and nothing is remembered.
    np.testing.assert_array_equal(array(layer(IMAGES)), IMAGES)
    y = array(layer(IMAGES, training=True))
    np.testing.assert_allclose(channel_moments(y)[0], 0.0, atol=1e-5)
    np.testing.assert_allclose(channel_moments(y)[1], 1.0, atol=1e-5)
    mean, stddev = channel_moments(IMAGES)
    # From then on it is one map, in training and out of it.
    other = 5.0 * IMAGES[:3] + 1.0
    expected = (other - mean) / stddev
    for training in (True, False):
        y = array(layer(other, training=training))
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    log_det = array(layer.log_det_jacobian(other))
    np.testing.assert_allclose(log_det, np.full(3, -16.0 * np.log(stddev).sum()), 1e-4)


@pytest.mark.parametrize("in_loss", [False, True])
def test_fit_initializes_by_its_first_batch(in_loss):
    """Where the data go in: in the call of a model, or in the loss of a density."""
    layer = bl.layers.ActNorm()
    layers = [keras.Input((4, 4, 2)), layer]
    if in_loss:
        layers[1:] = [bl.layers.BaseDistribution(), bl.layers.Reverse(layer)]
    model = keras.Sequential(layers)
    loss = bl.losses.NegativeLogLikelihood() if in_loss else "mse"
    model.compile(keras.optimizers.SGD(1e-3), loss)
    model.fit(IMAGES, IMAGES, batch_size=4, epochs=2, shuffle=False, verbose=0)
    mean, stddev = channel_moments(IMAGES[:4])
    np.testing.assert_allclose(array(layer.data_mean), mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(array(layer.data_stddev), stddev, rtol=1e-4)
    assert np.all(array(layer.log_scale) != 0.0)


def test_the_statistics_are_saved(tmp_path):
    model = keras.Sequential([keras.Input((4, 4, 2)), bl.layers.ActNorm(epsilon=1e-5)])
    model(IMAGES, training=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = array(loaded(3.0 * IMAGES, training=True))
    np.testing.assert_allclose(again, array(model(3.0 * IMAGES)), rtol=1e-5, atol=1e-5)


# The convolution.


def test_the_convolution_starts_as_a_rotation_and_stays_invertible():
    layer = bl.layers.InvertibleConv1x1(seed=3)
    x = RNG.normal(size=(2, 3, 3, 5)).astype("float32")
    y = array(layer(x))
    kernel = array(layer.kernel)
    np.testing.assert_allclose(kernel @ kernel.T, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(y, np.einsum("bhwc,dc->bhwd", x, kernel), atol=1e-5)
    for variable in layer.trainable_variables:
        variable.assign(array(variable) + RNG.normal(size=variable.shape))
    expected = 9.0 * np.linalg.slogdet(array(layer.kernel).astype("float64"))[1]
    np.testing.assert_allclose(array(layer.log_det_jacobian(x)), expected, rtol=1e-4)


def test_seeds_make_the_rotation():
    kernels = []
    for seed in (1, 1, 2):
        layer = bl.layers.InvertibleConv1x1(seed=seed)
        layer.build((None, 4))
        kernels.append(array(layer.kernel))
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert np.max(np.abs(kernels[0] - kernels[2])) > 0.1


# Squeeze and split.


def test_squares_of_pixels_become_channels():
    x = RNG.normal(size=(2, 4, 6, 3)).astype("float32")
    y = array(bl.layers.Squeeze()(x))
    assert y.shape == (2, 2, 3, 12)
    for i, j in np.ndindex(2, 3):
        square = x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].reshape(2, 12)
        np.testing.assert_array_equal(y[:, i, j], square)


def test_what_leaves_is_standardized_given_what_stays():
    network = keras.layers.Dense(4)
    layer = bl.layers.MultiScaleSplit(bl.layers.Affine(1.0, 2.0), network)
    x = RNG.normal(size=(3, 5)).astype("float32")
    y = array(layer(x))
    parameters = array(network(x[:, :3]))
    shift, scale = parameters[:, :2], np.exp(parameters[:, 2:])
    np.testing.assert_allclose(y[:, :3], 1.0 + 2.0 * x[:, :3], rtol=1e-5)
    np.testing.assert_allclose(y[:, 3:], (x[:, 3:] - shift) / scale, rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "shape", "message"),
    [
        (lambda: bl.layers.MultiScaleSplit(bl.layers.Exp()), (2, 1), "two channels"),
        (
            lambda: bl.layers.MultiScaleSplit(bl.layers.Exp(), keras.layers.Dense(3)),
            (2, 4),
            r"\(2, 4\).*\(2, 3\)",
        ),
        (bl.layers.Squeeze, (2, 3, 4, 1), "multiple of 2"),
        (lambda: bl.layers.ActNorm(event_rank=3), (2, 4), "3 axes or more"),
    ],
)
def test_what_does_not_fit_is_refused(make, shape, message):
    with pytest.raises(ValueError, match=message):
        make()(np.ones(shape, "float32"))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: bl.layers.ActNorm(epsilon=0.0), ValueError),
        (lambda: bl.layers.ActNorm(event_rank=0), ValueError),
        (lambda: bl.layers.Squeeze(0), ValueError),
        (lambda: bl.layers.UniformDequantization(1), ValueError),
        (lambda: bl.layers.MultiScaleSplit(ops.exp), TypeError),
        (lambda: bl.layers.MultiScaleSplit(bl.layers.Exp(), "conv"), TypeError),
    ],
)
def test_arguments_that_mean_nothing_are_refused(make, error):
    with pytest.raises(error, match="Received"):
        make()


# Dequantization.


@pytest.mark.parametrize("levels", [2, 10, 256, 1000])
def test_integers_come_back_exactly(levels):
    layer = bl.layers.UniformDequantization(levels, seed=1)
    x = np.tile(np.arange(levels, dtype="float32"), (20, 1))
    y = array(layer(x))
    assert np.all((y > 0.0) & (y < 1.0))
    np.testing.assert_array_equal(array(layer.reverse(y)), x)
    expected = np.full(20, -levels * np.log(levels))
    np.testing.assert_allclose(array(layer.log_det_jacobian(x)), expected, rtol=1e-5)


def test_the_noise_is_uniform_and_new_in_each_call():
    """20,000 draws show a distance of 4%."""
    layer = bl.layers.UniformDequantization(4, seed=1)
    x = np.full((10_000, 1), 2.0, "float32")
    with bl.tape() as tape:
        one = array(layer(x))
    assert list(tape) == [layer.name]
    two = array(layer(x))
    assert not np.any(one == two)
    noise = np.concatenate([one, two]).ravel() * 4.0 - 2.0
    assert_distributed_as(noise, stats.uniform.cdf, detect=0.04)


def test_it_is_saved_with_its_arguments():
    layer = bl.layers.UniformDequantization(16, seed=3)
    again = bl.layers.UniformDequantization.from_config(layer.get_config())
    assert (again.levels, again.seed) == (16, 3)


# All together.


def glow():
    """Two scales of one step each, from images to noise."""
    parts = [keras.layers.Conv2D(2, 3, padding="same") for _ in range(2)]
    fine = bl.Sequential([bl.layers.ActNorm(), bl.layers.InvertibleConv1x1(seed=2)])
    return bl.Sequential(
        [
            bl.layers.Logit(),
            bl.layers.Squeeze(),
            bl.layers.ActNorm(),
            bl.layers.InvertibleConv1x1(seed=1),
            bl.layers.ReversibleBlock(*parts),
            bl.layers.MultiScaleSplit(fine),
        ]
    )


def test_a_small_glow_is_fitted_draws_images_and_is_saved(tmp_path):
    pixels = RNG.binomial(7, 0.3, size=(16, 4, 4, 1)).astype("float32")
    data = array(bl.layers.UniformDequantization(8, seed=1)(pixels))
    flow = glow()
    model = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            bl.layers.BaseDistribution((2, 2, 4)),
            bl.layers.Reverse(flow),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), bl.losses.NegativeLogLikelihood())
    losses = model.fit(data, data, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    noise = array(flow(data))
    np.testing.assert_allclose(array(flow.reverse(noise)), data, rtol=1e-3, atol=1e-3)
    draws = array(model(data))
    assert draws.shape == data.shape
    assert np.all((draws > 0.0) & (draws < 1.0))
    expected = stats.norm.logpdf(noise).reshape(16, -1).sum(axis=1)
    expected = expected + array(flow.log_det_jacobian(data))
    log_prob = array(model(data).log_prob(data))
    np.testing.assert_allclose(log_prob, expected, rtol=1e-3, atol=1e-2)
    model.save(tmp_path / "glow.keras")
    loaded = keras.saving.load_model(tmp_path / "glow.keras")
    again = array(loaded(data).log_prob(data))
    np.testing.assert_allclose(again, log_prob, rtol=1e-4, atol=1e-4)
