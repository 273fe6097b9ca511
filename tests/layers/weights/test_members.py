"""Ensembles that share a kernel are what a loop over their members computes."""

import keras
import numpy as np
import pytest
from scipy import stats

import bayesian_layers as bl
from tests.layers.weights.table import OTHERS, array, keras_layer
from tests.statistics import assert_mean, assert_variance

SIZE = 2
ENSEMBLES = [name for name in OTHERS if name.endswith("BatchEnsemble")]
RANK_ONE = [name for name in OTHERS if name.endswith("Rank1")]


def of_member(layer, index, factors):
    """The weights of a Keras layer that is one member, by NumPy."""
    weights = []
    for variable in layer._layer_weights:
        value = array(variable)
        if variable.name == "bias":
            value = value[index]
        else:
            prefix = "recurrent_" if "recurrent" in variable.name else ""
            alpha = factors[f"{prefix}alpha"][index]
            gamma = factors[f"{prefix}gamma"][index]
            if variable.name == "kernel" and "Depthwise" in type(layer).__name__:
                gamma = gamma.reshape(alpha.size, -1)
                value = value * (alpha[:, None] * gamma)
            else:
                value = value * (alpha[:, None] * gamma)
        weights.append(value)
    return weights


def loop(name, layer, x, factors, members):
    """The outputs of each example, by the Keras layer that is its member."""
    row = OTHERS[name]
    outputs = []
    for example, member in zip(x, members, strict=True):
        reference = keras_layer(layer)
        run = keras.layers.RNN(reference) if row.is_cell else reference
        run.build((None, *row.input_shape))
        reference.set_weights(of_member(layer, member, factors))
        outputs.append(array(run(example[None]))[0])
    return np.stack(outputs)


def randomize(layer):
    """Gives each member a bias of its own."""
    rng = np.random.default_rng(0)
    layer.bias.assign(rng.normal(size=layer.bias.shape))


@pytest.mark.parametrize("name", ENSEMBLES)
def test_a_batch_ensemble_is_a_loop_over_its_members(name):
    row = OTHERS[name]
    model, layer = row.model(name)
    randomize(layer)
    factors = {
        weight.name: array(weight)
        for weight in layer.weights
        if weight.name.endswith(("alpha", "gamma"))
    }
    x = row.inputs(batch=5)
    expected = loop(name, layer, x, factors, np.arange(5) % SIZE)
    np.testing.assert_allclose(array(model(x)), expected, atol=1e-5)
    for member in range(SIZE):
        with bl.weights(model, seed=member):
            outputs = array(model(x))
        expected = loop(name, layer, x, factors, [member] * 5)
        np.testing.assert_allclose(outputs, expected, atol=1e-5)


@pytest.mark.parametrize("name", RANK_ONE)
def test_rank_one_is_a_loop_over_its_members_given_the_draws(name):
    row = OTHERS[name]
    model, layer = row.model(name)
    randomize(layer)
    x = row.inputs(batch=3)
    with bl.tape() as tape:
        outputs = array(model(x))
    drawn = {path.rpartition("/")[2]: array(value) for path, value in tape.items()}
    member = int(np.argmax(drawn.pop("member")))
    expected = loop(name, layer, x, drawn, [member] * 3)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def two_layers(cls, **kwargs):
    layers = [
        cls(3, ensemble_size=3, activation="tanh", **kwargs),
        cls(1, ensemble_size=3),
    ]
    return keras.Sequential([keras.Input((2,)), *layers])


X = np.random.default_rng(1).normal(size=(6, 2)).astype("float32")


def test_each_draw_of_a_prediction_is_one_member_in_all_layers():
    model = two_layers(bl.layers.DenseBatchEnsemble)
    # Example n is seen by member n modulo 3.
    members = array(model(np.repeat(X, 3, axis=0))).reshape(6, 3).T
    prediction = bl.predict(model, X, num_samples=6, batch_size=4, verbose=0)
    np.testing.assert_allclose(
        prediction.samples[..., 0], np.tile(members, (2, 1)), atol=1e-5
    )
    np.testing.assert_allclose(prediction.mean[:, 0], members.mean(axis=0), atol=1e-5)
    with bl.weights(model, seed=4):
        np.testing.assert_allclose(array(model(X))[:, 0], members[1], atol=1e-5)


def test_at_the_mean_factors_and_biases_are_means_over_members():
    layer = bl.layers.DenseBatchEnsemble(2, ensemble_size=3)
    model = keras.Sequential([keras.Input((2,)), layer])
    randomize(layer)
    with bl.weights(model, "mean"):
        outputs = array(model(X))
    alpha, gamma, bias = (
        array(v).mean(axis=0) for v in (layer.alpha, layer.gamma, layer.bias)
    )
    expected = (X * alpha) @ array(layer.kernel) * gamma + bias
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


@pytest.mark.parametrize("additive", [False, True])
def test_factors_of_each_example_have_the_moments_of_the_closed_form(additive):
    """y = sum_i (x_i a_i w_i) g, with independent a and g; 20000 examples.

    The mean is seen to 0.05 and the variance to 15%, at a false-failure rate of 1e-7.
    """
    layer = bl.layers.DenseRank1(1, ensemble_size=1, additive=additive, seed=4)
    model = keras.Sequential([keras.Input((2,)), layer])
    for name in ("alpha", "gamma"):
        scale = layer.random_weights[name].variables["scale"]
        scale.assign(np.full(scale.shape, np.log(np.expm1(0.3))))
    x = np.array([0.7, -1.2])
    kernel = np.array([1.1, 0.6])
    layer.kernel.assign(kernel[:, None])
    y = model.predict(np.tile(x, (20_000, 1)), batch_size=20_000, verbose=0)
    if additive:
        mean, variance = x @ kernel, 0.09 * kernel @ kernel + 0.09
    else:
        mean = x @ kernel
        spread = 0.09 * np.sum((x * kernel) ** 2)
        variance = spread * 1.09 + 0.09 * mean**2
    assert_mean(y, mean, detect=0.05)
    assert_variance(y, variance, detect=0.15 * variance)


def test_the_divergence_is_the_mean_over_members():
    layer = bl.layers.DenseRank1(2, ensemble_size=3)
    layer.build((None, 4))
    expected = 0.0
    for name in ("alpha", "gamma"):
        posterior = layer.random_weights[name].posterior
        mean, scale = array(posterior.loc), array(posterior.scale)
        kl = np.log(0.5 / scale) + (scale**2 + (mean - 1.0) ** 2) / 0.5 - 0.5
        expected += kl.sum() / 3
    np.testing.assert_allclose(array(bl.total_kl(layer)), expected, rtol=1e-5)


def test_cauchy_factors_have_a_cauchy_prior():
    layer = bl.layers.DenseRank1(
        2,
        ensemble_size=1,
        alpha_initializer="trainable_cauchy",
        gamma_initializer="trainable_cauchy",
        seed=2,
    )
    model = keras.Sequential([keras.Input((1,)), layer])
    prior = layer.random_weights["alpha"].prior
    assert type(prior).__name__ == "Cauchy"
    np.testing.assert_allclose([float(prior.loc), float(prior.scale)], [1.0, 0.5])
    # Against SciPy: a kernel of one makes each output alpha * gamma * x.
    layer.kernel.assign(np.ones((1, 2)))
    scale = layer.random_weights["gamma"].variables["scale"]
    scale.assign(np.full(scale.shape, -30.0))
    y = model.predict(np.ones((4000, 1)), batch_size=4000, verbose=0)[:, 0]
    width = float(array(layer.random_weights["alpha"].posterior.scale)[0, 0])
    assert stats.kstest(y, stats.cauchy(1.0, width).cdf).pvalue > 1e-6


@pytest.mark.parametrize("cls", [bl.layers.DenseBatchEnsemble, bl.layers.DenseRank1])
def test_a_deterministic_layer_is_a_warm_start(cls):
    reference = keras.layers.Dense(3, bias_initializer="ones")
    reference.build((None, 2))
    layer = cls(3)
    layer.build((None, 2))
    layer.set_weights(reference.get_weights())
    np.testing.assert_array_equal(array(layer.kernel), array(reference.kernel))
    np.testing.assert_array_equal(array(layer.bias), np.ones((4, 3)))


def test_training_fits_every_member():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 2)).astype("float32")
    y = np.tanh(x @ [[1.0], [-0.5]])
    hidden = bl.layers.DenseBatchEnsemble(8, ensemble_size=3, activation="tanh")
    last = bl.layers.DenseBatchEnsemble(1, ensemble_size=3)
    model = keras.Sequential([keras.Input((2,)), hidden, last])
    model.compile(keras.optimizers.Adam(0.03), "mse")
    # One epoch over copies of the data: epochs have a cost of their own.
    model.fit(np.tile(x, (75, 1)), np.tile(y, (75, 1)), batch_size=64, verbose=0)
    prediction = bl.predict(model, x, num_samples=3, verbose=0)
    errors = np.mean((prediction.samples - y) ** 2, axis=(1, 2))
    assert np.all(errors < 0.05 * np.var(y)), errors


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="positive integer.*ensemble_size=0"):
        bl.layers.DenseBatchEnsemble(2, ensemble_size=0)
    with pytest.raises(ValueError, match="BatchEnsemble has factors that are numbers"):
        bl.layers.DenseRank1(2, alpha_initializer="ones")
    layer = bl.layers.DenseBatchEnsemble(2, alpha_initializer="trainable_normal")
    with pytest.raises(ValueError, match="Use Rank1 for distributions"):
        layer.build((None, 3))
    layer = bl.layers.DenseRank1(2, gamma_initializer="trainable_half_cauchy")
    with pytest.raises(ValueError, match="HalfCauchy for 'gamma'"):
        layer.build((None, 3))
