"""Claims about single output layers: numbers that their documentation states."""

import json

import keras
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss

import bayesian_layers as bl
from tests.differentiation import run
from tests.layers.outputs.table import array, positive


def log_prob(layer, x, y):
    return run(lambda x, y: layer(x).log_prob(y), x, y)


# Numbers.


def test_a_normal_takes_locations_first_and_softplus_of_scales_second():
    raw = np.array([[1.0, -2.0, 0.0, 50.0], [0.0, 0.0, -50.0, 1.0]], "float32")
    distribution = bl.layers.Normal()(raw).distribution
    np.testing.assert_allclose(array(distribution.mean()), raw[:, :2])
    # log(2), a number that softplus leaves, the floor, log(1 + e).
    np.testing.assert_allclose(
        array(distribution.stddev()),
        [[np.log(2.0) + 1e-5, 50.0], [1e-5, 1.3132617 + 1e-5]],
        rtol=1e-5,
    )


def test_a_normal_head_predicts_a_constant_with_its_noise():
    # Trained on noise alone, it finds the mean and the standard deviation of the data.
    y = stats.norm(3.0, 0.5).ppf((np.arange(64) + 0.5) / 64).astype("float32")
    x = np.zeros((150 * 64, 1), "float32")
    model = keras.Sequential([keras.Input((1,)), bl.layers.Normal(1)])
    model.compile(keras.optimizers.Adam(0.3), bl.losses.NegativeLogLikelihood())
    model.fit(x, np.tile(y, 150), batch_size=64, shuffle=False, verbose=0)
    distribution = model(x[:1]).distribution
    np.testing.assert_allclose(array(distribution.mean())[0, 0], y.mean(), atol=0.02)
    np.testing.assert_allclose(array(distribution.stddev())[0, 0], y.std(), rtol=0.03)


def test_a_categorical_has_the_log_loss_of_scikit_learn():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 3)).astype("float32")
    y = np.array([0, 1, 2, 2, 1, 0])
    layer = bl.layers.Categorical()
    probs, values = run(
        lambda x, y: (layer(x).distribution.probs, layer(x).log_prob(y)), logits, y
    )
    np.testing.assert_allclose(-values.mean(), log_loss(y, probs), rtol=1e-5)


# Values.


@pytest.mark.parametrize("convert", ["mean", "mode"])
def test_metrics_of_keras_see_the_converted_value(convert):
    model = keras.Sequential([keras.Input((2,)), bl.layers.Normal(convert=convert)])
    model.compile(loss=bl.losses.NegativeLogLikelihood(), metrics=["mae"])
    x = np.array([[1.0, 0.0], [3.0, 1.0]], "float32")
    logs = model.evaluate(x, np.array([2.0, 5.0]), verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["mae"], 1.5, rtol=1e-6)


def test_the_next_layer_sees_the_converted_value():
    model = keras.Sequential(
        [
            keras.Input((2,)),
            bl.layers.Normal(convert="mean"),
            keras.layers.Rescaling(10.0),
        ]
    )
    outputs = model.predict(np.array([[1.0, 0.0], [3.0, 1.0]], "float32"), verbose=0)
    np.testing.assert_allclose(outputs, [[10.0], [30.0]])


def test_equal_seeds_give_equal_draws_and_one_layer_new_ones_each_time():
    x = np.zeros((4, 2), "float32")
    first, second = (bl.layers.Normal(seed=1) for _ in range(2))
    draws = [[array(layer(x)) for _ in range(2)] for layer in (first, second)]
    np.testing.assert_array_equal(draws[0], draws[1])
    # Four numbers that agree in all bits have a probability below 1e-20.
    assert np.all(draws[0][0] != draws[0][1])


def test_a_deterministic_output_is_its_location():
    x = np.array([[1.0, -2.0]], "float32")
    variable = bl.layers.Deterministic()(x)
    np.testing.assert_array_equal(array(variable), x)
    np.testing.assert_array_equal(array(variable.stddev()), [[0.0, 0.0]])
    np.testing.assert_array_equal(array(variable.log_prob(x)), [[0.0, 0.0]])
    assert bl.layers.Deterministic(3)(keras.KerasTensor((None, 2))).shape == (None, 3)


# A scale for all inputs.


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Normal", stats.norm),
        ("LogNormal", lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc))),
        ("Laplace", stats.laplace),
        ("Logistic", stats.logistic),
    ],
)
def test_a_homoscedastic_scale_is_a_weight_for_each_output(name, family):
    layer = getattr(bl.layers, name)(homoscedastic=True)
    layer.build((None, 2))
    (scale,) = layer.trainable_weights
    scale.assign([0.0, 1.0])
    x = np.array([[1.0, -2.0], [0.5, 0.0], [0.0, 3.0]], "float32")
    y = np.array([[0.5, 1.5], [1.0, 2.0], [3.0, 0.1]], "float32")
    expected = family(x.astype("float64"), positive(np.array([0.0, 1.0]))).logpdf(y)
    np.testing.assert_allclose(log_prob(layer, x, y), expected, rtol=1e-4)


def test_a_homoscedastic_scale_is_trained_and_saved(tmp_path):
    layer = bl.layers.MultivariateNormalDiag(2, homoscedastic=True)
    model = keras.Sequential([keras.Input((3,)), layer])
    assert layer.projection.kernel.shape == (3, 2)
    model.compile(keras.optimizers.SGD(0.1), bl.losses.NegativeLogLikelihood())
    model.fit(np.ones((4, 3)), np.zeros((4, 2)), verbose=0)
    scale = array(layer.scale)
    assert np.all(scale != 0.0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded.layers[0].scale), scale)


def test_families_without_a_scale_refuse_to_be_homoscedastic():
    for name in ("Gamma", "Poisson", "Categorical", "MixtureNormal"):
        with pytest.raises(ValueError, match=f"{name} has no scale.*homoscedastic"):
            getattr(bl.layers, name)(homoscedastic=True)


# Latent variables.


def test_the_divergence_from_a_prior_is_summed_within_examples_and_averaged():
    prior = bl.distributions.Normal(1.0, 2.0)
    layer = bl.layers.Normal(prior=prior, kl_weight=0.5)
    raw = np.random.default_rng(0).normal(size=(4, 3, 4)).astype("float32")
    layer(raw)
    (loss,) = layer.losses
    loc, scale = np.split(raw.astype("float64"), 2, axis=-1)
    scale = positive(scale)
    kl = np.log(2.0 / scale) + (scale**2 + (loc - 1.0) ** 2) / 8.0 - 0.5
    np.testing.assert_allclose(array(loss), 0.5 * kl.sum() / 4, rtol=1e-5)


def test_a_prior_counts_in_fit_and_survives_saving(tmp_path):
    prior = bl.distributions.Normal(0.0, 1.0)
    latent = bl.layers.Normal(prior=prior, seed=1, name="latent")
    model = keras.Sequential([keras.Input((2,)), latent])
    model.compile(keras.optimizers.SGD(0.0), bl.losses.NegativeLogLikelihood())
    x, y = np.array([[1.0, 0.0]], "float32"), np.array([[0.5]], "float32")
    loss = model.evaluate(x, y, verbose=0)
    scale = positive(0.0)
    nll = -stats.norm(1.0, scale).logpdf(0.5)
    kl = -np.log(scale) + (scale**2 + 1.0) / 2.0 - 0.5
    np.testing.assert_allclose(loss, nll + kl, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.evaluate(x, y, verbose=0), loss, rtol=1e-6)


def test_a_prior_is_a_distribution():
    with pytest.raises(TypeError, match="prior='normal'"):
        bl.layers.Normal(prior="normal")


# Mixtures.


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        ({"component": keras.layers.Dense(2)}, "output layer.*Dense"),
        ({"component": "MixtureNormal"}, "no mixture"),
        ({"component": "Normal", "num_components": 0}, "num_components=0"),
        ({"component": "Normal", "num_components": 2.0}, "num_components=2.0"),
    ],
)
def test_mixtures_are_of_output_layers(arguments, pattern):
    component = arguments["component"]
    if isinstance(component, str):
        arguments = {**arguments, "component": getattr(bl.layers, component)()}
    with pytest.raises(ValueError, match=pattern):
        bl.layers.Mixture(**arguments)


def test_the_units_of_a_mixture_are_its_own():
    with pytest.raises(ValueError, match="units=2"):
        bl.layers.Mixture(bl.layers.Normal(2))
    with pytest.raises(ValueError, match="homoscedastic=True"):
        bl.layers.Mixture(bl.layers.Normal(homoscedastic=True))


def test_a_rank_is_a_positive_integer():
    with pytest.raises(ValueError, match="positive integer.*0"):
        bl.layers.MultivariateNormalLowRank(2, rank=0)


# Grids.


def test_discretize_has_the_probabilities_of_bins_with_open_ends():
    model = keras.Sequential(
        [keras.Input((2,)), bl.layers.Logistic(), bl.layers.Discretize(0.0, 1.0, 5)]
    )
    raw = np.array([[0.3, -1.0], [40.0, 0.0]], "float32")
    values = np.linspace(0.0, 1.0, 5).astype("float32")

    def log_probs(x):
        distribution = model(x).distribution
        return [distribution.log_prob(np.full((2, 1), v, "float32")) for v in values]

    seen = np.array(run(log_probs, raw))[..., 0].T
    edges = np.array([-np.inf, 0.125, 0.375, 0.625, 0.875, np.inf])
    for row, (loc, scale) in zip(seen, raw.astype("float64"), strict=True):
        base = stats.logistic(loc, positive(scale))
        # From the side where the numbers are small: at 40 all bins are in one tail.
        probs = np.diff(base.cdf(edges))
        np.testing.assert_allclose(np.exp(row), probs, rtol=1e-3)
        np.testing.assert_allclose(np.exp(row).sum(), 1.0, rtol=1e-5)


def test_discretize_draws_from_its_grid_and_survives_json():
    layer = bl.layers.Discretize(-1.0, 1.0, 5, seed=2, name="grid")
    model = keras.Sequential([keras.Input((15,)), bl.layers.MixtureNormal(), layer])
    assert model.output_shape == (None, 1)
    raw = np.random.default_rng(0).normal(size=(64, 15)).astype("float32")
    draws = model.predict(raw, verbose=0)
    assert set(np.unique(draws)) <= {-1.0, -0.5, 0.0, 0.5, 1.0}
    copy = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
    assert copy.get_config() == layer.get_config()


def test_discretize_needs_a_random_variable_and_a_grid():
    with pytest.raises(TypeError, match="random variable"):
        bl.layers.Discretize(0.0, 1.0, 5)(np.zeros((2, 1), "float32"))
    for arguments in [(1.0, 0.0, 5), (0.0, 1.0, 1), (0.0, 1.0, 2.5)]:
        with pytest.raises(ValueError, match=f"num_bins={arguments[2]}"):
            bl.layers.Discretize(*arguments)


def test_what_would_be_ignored_is_refused():
    prior = bl.distributions.Normal(0.0, 1.0)
    with pytest.raises(ValueError, match="kl_weight=0.5, prior=None"):
        bl.layers.Normal(1, kl_weight=0.5)
    for arguments in ({"prior": prior}, {"convert": "mean"}):
        with pytest.raises(ValueError, match="arguments of the mixture"):
            bl.layers.Mixture(bl.layers.Normal(**arguments))
