"""Dropout as a distribution: moments, masks, and the divergence of concrete dropout."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import integrate, stats

import bayesian_layers as bl
from tests.layers.weights.table import OTHERS, array
from tests.statistics import assert_mean

DROPOUT = [name for name in OTHERS if name.startswith("MonteCarlo")]


@pytest.mark.parametrize("name", DROPOUT)
@pytest.mark.parametrize("is_held", [False, True])
def test_factors_have_mean_one_and_the_variance_of_the_rate(name, is_held):
    """Of 6000 factors; an error of 0.1 in either moment is seen (rate 1e-7)."""
    row = OTHERS[name]
    rate = 0.3
    layer = getattr(bl.layers, name)(rate, seed=5)
    shape = (*[1] * (len(row.input_shape) - 1), 6000 if is_held else 3)
    x = np.ones((1 if is_held else 2000, *shape), "float32")
    model = keras.Sequential([keras.Input(x.shape[1:]), layer])
    if is_held:
        with bl.weights(model, seed=3):
            factors = array(model(x)).reshape(-1, 1)
    else:
        factors = array(model(x)).reshape(-1, 1)
    assert_mean(factors, 1.0, detect=0.1)
    assert_mean((factors - 1.0) ** 2, rate / (1.0 - rate), detect=0.1)
    if "Gaussian" not in name:
        values = np.unique(factors)
        np.testing.assert_allclose(values, [0.0, 1.0 / 0.7], rtol=1e-6)


@pytest.mark.parametrize(
    "layer, shape",
    [
        (lambda: bl.layers.MonteCarloSpatialDropout1D(0.5, seed=1), (7, 6)),
        (lambda: bl.layers.MonteCarloDropout(0.5, (None, 1, 6), seed=1), (7, 6)),
        (
            lambda: bl.layers.MonteCarloSpatialDropout2D(
                0.5, data_format="channels_first", seed=1
            ),
            (6, 3, 3),
        ),
    ],
)
def test_positions_share_a_factor(layer, shape):
    model = keras.Sequential([keras.Input(shape), layer()])
    x = np.ones((4, *shape), "float32")
    drawn = [array(model(x))]
    with bl.weights(model, seed=1):
        drawn.append(array(model(x)))
    channel = 1 if shape[0] == 6 else -1
    for factors in drawn:
        columns = np.moveaxis(factors, channel, -1).reshape(4, -1, 6)
        np.testing.assert_array_equal(columns, columns[:, :1] + 0.0 * columns)
        assert np.ptp(columns) > 1.0


def test_a_mask_of_unknown_size_is_refused_where_it_is_held():
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, bl.layers.MonteCarloDropout(0.5)(inputs))
    x = np.ones((2, 5, 3), "float32")
    assert model(x).shape == (2, 5, 3)
    with bl.weights(model, seed=1):
        with pytest.raises(ValueError, match=r"\(None, 3\).*noise_shape"):
            model(x)
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, bl.layers.MonteCarloSpatialDropout1D(0.5)(inputs))
    with bl.weights(model, seed=1):
        assert model(x).shape == (2, 5, 3)


def test_rates_that_leave_nothing_are_refused_and_zero_drops_nothing():
    for name in DROPOUT:
        with pytest.raises(ValueError, match="below 1.*rate=1"):
            getattr(bl.layers, name)(1.0)
    layer = bl.layers.MonteCarloDropout(0.0)
    np.testing.assert_array_equal(array(layer(np.ones((4, 3)))), 1.0)
    assert layer.random_weights == {}


def test_a_mask_can_be_set():
    model = keras.Sequential(
        [keras.Input((3,)), bl.layers.MonteCarloDropout(0.5, name="drop")]
    )
    with bl.condition({f"{model.name}/drop/mask": np.array([1.0, 0.0, 1.0])}):
        with bl.tape() as tape:
            outputs = array(model(np.ones((4, 3))))
    np.testing.assert_allclose(outputs, np.tile([2.0, 0.0, 2.0], (4, 1)), rtol=1e-6)
    assert [path.rpartition("/")[2] for path in tape] == ["mask"]


# Concrete dropout.


def concrete(units=1, inputs=3, **kwargs):
    layer = bl.layers.DenseConcreteDropout(units, seed=2, **kwargs)
    layer.build((None, inputs))
    return layer


def mixture_kl(rate, mean, prior_stddev, width=0.02):
    """KL of p N(0, width) + (1 - p) N(mean, width) from the prior, on a grid."""

    def density(w):
        zero, kept = stats.norm.pdf(w, [0.0, mean], width)
        return rate * zero + (1.0 - rate) * kept

    def integrand(w):
        q = density(w)
        return q * (np.log(q) - stats.norm.logpdf(w, 0.0, prior_stddev))

    parts = [
        integrate.quad(integrand, centre - 8 * width, centre + 8 * width)[0]
        for centre in (0.0, mean)
    ]
    return sum(parts)


def test_the_divergence_is_that_of_rows_that_are_dropped():
    """Against integrals of narrow mixtures, up to a constant of their width."""
    differences = []
    for rate, kernel, stddev in [(0.1, 0.7, 1.0), (0.4, -1.5, 0.8), (0.7, 0.9, 2.0)]:
        layer = concrete(1, 1, initial_rate=rate, prior_stddev=stddev)
        layer.kernel.assign([[kernel]])
        exact = mixture_kl(rate, kernel / (1.0 - rate), stddev)
        # The width of the mixture and the normalizer of the prior do not depend on
        # what is trained.
        exact -= 0.5 * 0.02**2 / stddev**2 + np.log(stddev)
        differences.append(exact - float(array(layer.losses[0])))
    np.testing.assert_allclose(differences, differences[0], atol=1e-4)


def test_the_divergence_counts_features_and_is_scaled_by_the_data():
    layer = concrete(2, 3, initial_rate=0.25, prior_stddev=0.5)
    kernel = array(layer.kernel)
    entropy = stats.bernoulli(0.25).entropy()
    expected = np.sum(kernel**2) / (2 * 0.25 * 0.75) - 3 * entropy
    np.testing.assert_allclose(array(bl.total_kl(layer)), expected, rtol=1e-5)
    bl.scale_kl(layer, dataset_size=50)
    np.testing.assert_allclose(array(layer.losses[0]), expected / 50, rtol=1e-5)
    layer.trainable = False
    assert layer.losses == []


def test_the_gradient_of_the_rate_is_that_of_the_expected_loss():
    """E (x w m / (1 - p))^2 = x^2 w^2 (1 + p / (1 - p)), whose slope by logit p is
    x^2 w^2 p / (1 - p). The relaxation of temperature 0.1 is biased by some percent."""
    layer = bl.layers.DenseConcreteDropout(
        1, use_bias=False, initial_rate=0.4, seed=3, kl_scale=0.0
    )
    model = keras.Sequential([keras.Input((1,)), layer])
    layer.kernel.assign([[1.5]])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    before = float(array(layer.rate_logit))
    x = np.full((20_000, 1), 0.8, "float32")
    model.fit(x, 0.0 * x, batch_size=20_000, verbose=0)
    slope = (before - float(array(layer.rate_logit))) / 1e-3
    np.testing.assert_allclose(slope, (0.8 * 1.5) ** 2 * 0.4 / 0.6, rtol=0.1)


def test_held_masks_of_concrete_dropout_are_zeros_and_ones_at_its_rate():
    layer = bl.layers.DenseConcreteDropout(1, initial_rate=0.3)
    model = keras.Sequential([keras.Input((4000,)), layer])
    with bl.tape() as tape:
        model(np.ones((2, 4000)))
    (mask,) = tape.values()
    mask = array(mask)
    assert set(np.unique(mask)) == {0.0, 1.0}
    assert_mean(mask[:, None], 0.7, detect=0.1)


def test_what_would_be_a_second_prior_is_refused():
    with pytest.raises(ValueError, match="`prior_stddev` in place of"):
        bl.layers.DenseConcreteDropout(2, kernel_regularizer="l2")
    with pytest.raises(ValueError, match="one value"):
        concrete(kernel_initializer="trainable_normal")
    with pytest.raises(ValueError, match="initial_rate=0"):
        bl.layers.DenseConcreteDropout(2, initial_rate=0.0)
    with pytest.raises(ValueError, match="`temperature` should be positive"):
        bl.layers.DenseConcreteDropout(2, temperature=0.0)


def test_a_users_layer_can_have_concrete_dropout():
    class MyDense(keras.Layer):
        def build(self, input_shape):
            self.kernel = self.add_weight((input_shape[-1], 2), name="kernel")

        def call(self, inputs):
            return inputs @ self.kernel

    class MyDenseConcreteDropout(bl.layers.ConcreteDropout, MyDense):
        pass

    layer = MyDenseConcreteDropout(initial_rate=0.5, seed=1)
    outputs = array(layer(np.ones((64, 3), "float32")))
    assert np.max(np.ptp(outputs, axis=0)) > 0.1
    assert len(layer.losses) == 1
    assert ops.shape(layer.rate) == ()
