"""What every likelihood of a function has to do, against SciPy."""

import dataclasses
import json
from collections.abc import Callable

import keras
import numpy as np
import pytest
from keras import ops
from scipy import integrate, special, stats

import bayesian_layers as bl
from bayesian_layers.layers import functions
from tests.differentiation import run, values_and_grad

BATCH = 5
RNG = np.random.default_rng(0)


def array(x):
    return ops.convert_to_numpy(ops.stop_gradient(x))


@dataclasses.dataclass(frozen=True)
class Row:
    """A likelihood, how it is made, log p(y | f) as SciPy has it, and observations."""

    make: Callable
    log_prob: Callable
    targets: np.ndarray
    conditional: type
    is_vector: bool = False

    @property
    def name(self):
        return type(self.make()).__name__


def counts(*shape):
    return np.random.default_rng(1).integers(0, 5, shape).astype("float32")


def numbers(*shape):
    return np.random.default_rng(2).normal(size=shape).astype("float32")


ROWS = {
    "Gaussian": Row(
        lambda **kwargs: bl.layers.GaussianLikelihood(0.3, **kwargs),
        lambda y, f: stats.norm.logpdf(y, f, np.sqrt(0.3)),
        numbers(BATCH, 2),
        bl.distributions.Normal,
    ),
    "StudentT": Row(
        lambda **kwargs: bl.layers.StudentTLikelihood(5.0, 0.8, **kwargs),
        lambda y, f: stats.t.logpdf(y, 5.0, f, 0.8),
        numbers(BATCH, 2),
        bl.distributions.StudentT,
    ),
    "Poisson": Row(
        lambda **kwargs: bl.layers.PoissonLikelihood(**kwargs),
        lambda y, f: stats.poisson.logpmf(y, np.exp(f)),
        counts(BATCH, 2),
        bl.distributions.Poisson,
    ),
    "Poisson by softplus": Row(
        lambda **kwargs: bl.layers.PoissonLikelihood("softplus", **kwargs),
        lambda y, f: stats.poisson.logpmf(y, np.logaddexp(0.0, f)),
        counts(BATCH, 2),
        bl.distributions.Poisson,
    ),
    "Bernoulli": Row(
        lambda **kwargs: bl.layers.BernoulliLikelihood(**kwargs),
        lambda y, f: stats.bernoulli.logpmf(y, special.expit(f)),
        (counts(BATCH, 2) > 2).astype("float32"),
        bl.distributions.Bernoulli,
    ),
    "Categorical": Row(
        lambda **kwargs: bl.layers.CategoricalLikelihood(4000, **kwargs),
        # Of two classes: the first of two logits, minus the second.
        lambda y, f: special.log_expit((1.0 - 2.0 * y) * f),
        (counts(BATCH) > 2).astype("float32"),
        bl.distributions.Categorical,
        is_vector=True,
    ),
}
every_row = pytest.mark.parametrize("name", ROWS)
MEAN = numbers(BATCH, 2)
SPREAD = np.float32(0.6)


def test_every_likelihood_is_in_the_table():
    classes = [getattr(functions, name) for name in functions.__all__]
    classes = [c for c in classes if isinstance(c, type)]
    likelihoods = {c.__name__ for c in classes if issubclass(c, functions.Likelihood)}
    assert {row.name for row in ROWS.values()} == likelihoods - {"Likelihood"}


# What is returned.


@pytest.fixture(scope="module")
def values():
    """All that is computed, in one program."""
    layers = {name: row.make(seed=1) for name, row in ROWS.items()}

    def evaluate(mean):
        f = bl.RandomVariable(bl.distributions.Normal(mean, SPREAD), seed=1)
        results = {}
        for name, row in ROWS.items():
            y, given = layers[name](f), layers[name](mean)
            assert type(y.distribution) is bl.distributions.Compound
            assert type(given.distribution) is row.conditional
            results[name] = [
                y.expected_log_prob(row.targets),
                y.log_prob(row.targets),
                given.log_prob(row.targets),
                y.value,
            ]
        return results

    return run(evaluate, MEAN)


def over_f(function, row):
    """The mean of function(y, f) over f, by adaptive quadrature, for each target."""
    mean, spread = MEAN.astype("float64"), float(SPREAD)
    if row.is_vector:
        mean, spread = mean[:, 0] - mean[:, 1], np.sqrt(2.0) * spread
    results = np.zeros(row.targets.shape)
    for index, y in np.ndenumerate(row.targets):
        m = mean[index]
        results[index] = integrate.quad(
            lambda f, y=y, m=m: function(y, f) * stats.norm.pdf(f, m, spread),
            m - 12.0 * spread,
            m + 12.0 * spread,
            points=[m],
        )[0]
    return results


@every_row
def test_expected_log_likelihoods_and_predictive_densities_are_those_of_scipy(
    values, name
):
    row = ROWS[name]
    expected_log_prob, log_prob, given, draw = values[name]
    # Of draws six standard errors, whose standard deviation is below one.
    allowed = 6.0 / np.sqrt(4000) if row.is_vector else 1e-4
    np.testing.assert_allclose(
        expected_log_prob, over_f(row.log_prob, row), rtol=1e-4, atol=allowed
    )
    density = over_f(lambda y, f: np.exp(row.log_prob(y, f)), row)
    np.testing.assert_allclose(log_prob, np.log(density), rtol=1e-4, atol=allowed)
    f = MEAN[:, 0] - MEAN[:, 1] if row.is_vector else MEAN
    expected = row.log_prob(row.targets, f.astype("float64"))
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)
    assert draw.shape == row.targets.shape


class Marginals(bl.distributions.Deterministic):
    """Stands for what is jointly normal: it has a normal `marginal`."""

    def marginal(self):
        return bl.distributions.Normal(self.loc, SPREAD)


def test_what_comes_in_decides_what_f_is():
    layer = bl.layers.PoissonLikelihood()
    f = {
        "normal": bl.Normal(MEAN, SPREAD),
        "joint": bl.RandomVariable(Marginals(MEAN)),
        "known": bl.Deterministic(MEAN),
        "other": bl.Laplace(MEAN, 1.0, seed=1),
        "draws": bl.Normal(MEAN, SPREAD, sample_shape=3, seed=1),
    }
    y = {name: layer(value).distribution for name, value in f.items()}
    for name in ("normal", "joint"):
        assert type(y[name]) is bl.distributions.Compound
        np.testing.assert_array_equal(array(y[name].latent.loc), MEAN)
        np.testing.assert_array_equal(array(y[name].latent.stddev()), SPREAD)
    for name in ("known", "other", "draws"):
        assert type(y[name]) is bl.distributions.Poisson
        np.testing.assert_array_equal(array(y[name].log_rate), array(f[name].value))


# In models.


def model_of(row, policy="float32", **kwargs):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            bl.layers.Normal(2, seed=1, dtype=policy),
            row.make(seed=2, dtype=policy, **kwargs),
        ]
    )
    metrics = [bl.metrics.NegativeLogLikelihood()]
    if row.conditional in (bl.distributions.Bernoulli, bl.distributions.Categorical):
        metrics.append(bl.metrics.Accuracy())
    model.compile("sgd", bl.losses.NegativeLogLikelihood(), metrics=metrics)
    return model


@every_row
def test_a_model_trains_predicts_and_is_saved(name, tmp_path):
    row = ROWS[name]
    keras.utils.set_random_seed(1)
    model = model_of(row)
    x, y = numbers(BATCH, 3), row.targets
    before = array(model(x).expected_log_prob(y)).mean()
    model.fit(x, y, epochs=3, batch_size=BATCH, verbose=0)
    after = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
    terms = 1 if row.is_vector else 2
    assert after["loss"] < -terms * before
    # The predictive density is above the exponential of the bound.
    assert after["nll"] < after["loss"]
    # Of classes by draws, each call has its own.
    if "accuracy" in after and not row.is_vector:
        right = array(model(x).distribution.mode()) == y
        assert abs(after["accuracy"] - right.mean()) < 1e-6
    assert model.predict(x, verbose=0).shape == y.shape
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    config = loaded.layers[-1].get_config()
    assert config == model.layers[-1].get_config() == json.loads(json.dumps(config))
    if not row.is_vector:
        np.testing.assert_array_equal(
            *(array(m(x).log_prob(y)) for m in (model, loaded))
        )


@pytest.mark.parametrize("name", ["Gaussian", "Bernoulli", "Categorical"])
def test_predict_gives_the_moments_of_observations(name):
    row = ROWS[name]
    f = keras.Sequential(
        [
            keras.Input((3,)),
            bl.layers.DenseReparameterization(4, seed=3),
            bl.layers.Normal(seed=1),
        ]
    )
    model = keras.Sequential([*f.layers, row.make(seed=2)])
    x = numbers(BATCH, 3)
    prediction = bl.predict(model, x, num_samples=4, store_samples=True, seed=1)
    assert prediction.log_prob(row.targets).shape == (BATCH,)
    functions = bl.predict(f, x, num_samples=4, seed=1)
    if name == "Gaussian":
        np.testing.assert_allclose(prediction.mean, functions.mean, rtol=1e-4)
        variance = np.square(functions.stddev) + 0.3
        np.testing.assert_allclose(np.square(prediction.stddev), variance, rtol=1e-3)
    else:
        assert prediction.mean.shape == (BATCH, 2)
        assert np.all((prediction.mean > 0.0) & (prediction.mean < 1.0))


@pytest.mark.parametrize("name", ["Gaussian", "Categorical"])
def test_distributions_are_of_float32_in_mixed_precision(name):
    row = ROWS[name]
    model = model_of(row, "mixed_bfloat16")
    x = numbers(BATCH, 3)
    model.fit(x, row.targets, verbose=0)
    distribution = model(x).distribution
    assert distribution.parameter_dtype == "float32"
    given = model.layers[-1](MEAN).distribution
    assert given.parameter_dtype == "float32"
    for variable in model.layers[-1].weights:
        assert variable.dtype == "float32"


# The noise.


def test_the_noise_is_learnt():
    rng = np.random.default_rng(3)
    y = rng.normal(size=(200, 2)).astype("float32") * np.array([0.5, 2.0], "float32")
    # Each batch is the whole sample; an epoch for each would take longer.
    x, steps = np.zeros((20_000, 2), "float32"), np.tile(y, (100, 1))
    for shared in (False, True):
        layer = bl.layers.GaussianLikelihood(1.0, shared=shared)
        model = keras.Sequential([keras.Input((2,)), layer])
        model.compile(keras.optimizers.Adam(0.1), bl.losses.NegativeLogLikelihood())
        model.fit(x, steps, batch_size=200, shuffle=False, verbose=0)
        squares = np.square(y.astype("float64"))
        expected = squares.mean() if shared else squares.mean(axis=0)
        np.testing.assert_allclose(array(layer.noise_variance), expected, rtol=2e-2)


def test_a_layer_that_is_not_trained_keeps_its_noise():
    layer = bl.layers.GaussianLikelihood(0.5, trainable=False)
    layer(MEAN)
    assert not layer.trainable_variables
    np.testing.assert_allclose(array(layer.noise_variance), 0.5, rtol=1e-6)


@pytest.mark.parametrize("variance", [1e-6, 1e-3, 1.0, 1e3])
def test_gradients_are_finite_for_little_and_much_noise(variance):
    layer = bl.layers.GaussianLikelihood(variance)
    layer(MEAN)
    np.testing.assert_allclose(array(layer.noise_variance), variance, rtol=1e-4)
    raw = array(layer.untransformed_scale)

    def bound(raw, mean, spread):
        (variable,) = layer.trainable_variables
        state = [(variable, raw)]
        with keras.StatelessScope(state_mapping=state):
            y = layer(bl.RandomVariable(bl.distributions.Normal(mean, spread)))
            return ops.sum(y.expected_log_prob(np.zeros((BATCH, 2))))

    _, gradients = values_and_grad(bound, raw, MEAN, np.full((BATCH, 2), SPREAD))
    for gradient in gradients:
        assert np.all(np.isfinite(gradient))
        assert np.all(gradient != 0.0)


# Errors.


def test_wrong_arguments_are_refused():
    for make, message in (
        (lambda: bl.layers.GaussianLikelihood(0.0), "noise_variance=0.0"),
        (lambda: bl.layers.GaussianLikelihood("little"), "noise_variance='little'"),
        (lambda: bl.layers.StudentTLikelihood(df=-1.0), "df=-1.0"),
        (lambda: bl.layers.StudentTLikelihood(scale=0.0), "scale=0.0"),
        (lambda: bl.layers.PoissonLikelihood("log"), "link='log'"),
        (lambda: bl.layers.PoissonLikelihood(num_nodes=1000), "num_nodes=1000"),
        (lambda: bl.layers.CategoricalLikelihood(0), "num_samples=0"),
        (lambda: bl.layers.BernoulliLikelihood(convert="mean"), "convert='mean'"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    for layer in (bl.layers.GaussianLikelihood, bl.layers.CategoricalLikelihood):
        with pytest.raises(TypeError, match="no `num_nodes`"):
            layer(num_nodes=10)
    with pytest.raises(ValueError, match="before it is built"):
        bl.layers.GaussianLikelihood().noise_variance  # noqa: B018


def test_labels_that_are_no_class_are_refused():
    y = bl.layers.CategoricalLikelihood()(bl.Normal(MEAN, SPREAD))
    with pytest.raises(ValueError, match="Expected labels from 0 to 1"):
        bl.losses.NegativeLogLikelihood()(np.full(BATCH, 2), y)
