"""Automatic guides, against conjugate posteriors."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from bayesian_layers import backend, seeds
from tests import statistics
from tests.differentiation import run

RNG = np.random.default_rng(1)
X = np.stack([np.ones(20), RNG.normal(1.0, 1.0, 20)], axis=1).astype("float32")
Y = (X @ [0.5, -1.0] + RNG.normal(0.0, 0.5, 20)).astype("float32")


def array(x):
    return ops.convert_to_numpy(x)


def regression(x):
    a = bl.Normal(0.0, 1.0, name="a")
    b = bl.Normal(0.0, 1.0, name="b")
    return bl.Normal(a * x[:, 0] + b * x[:, 1], 0.5, name="y")


COVARIANCE = np.linalg.inv(np.eye(2) + X.T @ X / 0.25)
MEAN = COVARIANCE @ X.T @ Y / 0.25


def trained(guide, program, data, steps=200, rate=0.08, particles=2):
    inference = bl.VariationalInference(
        program, guide, data, num_particles=particles, seed=2
    )
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps, alpha=0.02)
    inference.compile(keras.optimizers.Adam(schedule))
    inference.fit(epochs=1, steps_per_epoch=steps, verbose=0)
    return inference


def test_the_full_rank_guide_finds_a_conjugate_normal_posterior():
    data = {"x": X, "y": Y}
    guide = bl.FullRankGuide(regression, data)
    inference = trained(guide, regression, data)
    normal = guide.distribution()
    np.testing.assert_allclose(array(normal.mean()), MEAN, atol=0.05)
    stddev = np.sqrt(np.diag(COVARIANCE))
    np.testing.assert_allclose(array(normal.stddev()), stddev, rtol=0.2)
    found = array(normal.covariance())
    correlation = found[0, 1] / np.sqrt(found[0, 0] * found[1, 1])
    expected = COVARIANCE[0, 1] / np.prod(stddev)
    np.testing.assert_allclose(correlation, expected, atol=0.15)
    evidence = stats.multivariate_normal.logpdf(
        Y, np.zeros(20), X @ X.T + 0.25 * np.eye(20)
    )
    np.testing.assert_allclose(
        float(array(inference.elbo(50, seed=0))), evidence, atol=0.15
    )


@pytest.mark.slow
def test_the_mean_field_guide_has_the_precisions_of_the_posterior():
    data = {"x": X, "y": Y}
    guide = bl.MeanFieldGuide(regression, data)
    trained(guide, regression, data)
    normal = guide.distribution()
    np.testing.assert_allclose(array(normal.mean()), MEAN, atol=0.05)
    expected = np.diag(np.linalg.inv(COVARIANCE)) ** -0.5
    np.testing.assert_allclose(array(normal.stddev()), expected, rtol=0.2)


@pytest.mark.slow
def test_a_guide_of_a_probability_is_near_the_conjugate_beta_posterior():
    """It is logit-normal, and near Beta(14, 8) in mean and spread."""

    def model():
        p = bl.Beta(2.0, 2.0, name="p")
        return bl.Bernoulli(probs=p, sample_shape=18, name="y")

    data = {"y": np.repeat([1, 0], [12, 6])}
    guide = bl.FullRankGuide(model, data)
    trained(guide, model, data, steps=400, particles=8)
    draws = array(guide.sample(4000, seed=1)["p"])
    posterior = stats.beta(14, 8)
    np.testing.assert_allclose(draws.mean(), posterior.mean(), atol=0.02)
    np.testing.assert_allclose(draws.std(), posterior.std(), rtol=0.2)
    assert 0.0 < float(array(guide.median()["p"])) < 1.0


def mixed():
    """Latent variables of several supports, shapes and sizes."""
    bl.LogNormal(0.0, 1.0, sample_shape=2, name="positive")
    bl.Dirichlet(np.ones(3, "float32"), sample_shape=2, name="shares")
    bl.Uniform(np.array([-1.0, 2.0], "float32"), 3.0, name="between")
    bl.Normal(0.0, 1.0, name="real")


@pytest.mark.parametrize("make", [bl.MeanFieldGuide, bl.FullRankGuide])
def test_variables_on_the_tape_have_the_density_of_the_whole(make):
    guide = make(mixed, init_scale=0.5)
    size = 2 + 2 * 2 + 2 + 1
    assert guide.size == size
    values = RNG.normal(size=100)
    position = 0
    for variable in guide.weights:
        count = int(np.prod(tuple(variable.shape)))
        part = values[position : position + count].reshape(tuple(variable.shape))
        variable.assign(0.5 * part)
        position += count
    shapes = {"positive": (2,), "shares": (2, 3), "between": (2,), "real": ()}

    def on_the_tape(key):
        with bl.tape() as tape, bl.seed(key):
            guide()
        densities = [ops.sum(v.log_prob(v.value)) for v in tape.values()]
        return {name: v.value for name, v in tape.items()}, sum(densities)

    def at_once(key):
        return guide.sample_and_log_prob(seeds.Replay(backend.seed_state(key)))

    normal = guide.distribution()
    latent = bl.programs.latent_variables(mixed)
    transforms = {
        name: bl.distributions.transform_to(latent[name].distribution.support)
        for name in shapes
    }
    for draw in (on_the_tape, at_once):
        values, log_q = run(draw, np.array([1, 2]))
        assert {name: v.shape for name, v in values.items()} == shapes
        reversed_ = run(
            lambda *args: [
                transform.reverse_and_log_det(value)
                for transform, value in zip(transforms.values(), args, strict=True)
            ],
            *(values[name] for name in shapes),
        )
        reals = np.concatenate([real.reshape(-1) for real, _ in reversed_])
        expected = stats.multivariate_normal.logpdf(
            reals, array(normal.mean()), array(normal.covariance())
        )
        expected += sum(change.sum() for _, change in reversed_)
        np.testing.assert_allclose(log_q, expected, rtol=2e-3)


@pytest.mark.parametrize("make", [bl.MeanFieldGuide, bl.FullRankGuide])
def test_draws_from_the_tape_are_those_of_the_distribution(make):
    """The first two moments of 3000 draws in the real space."""

    def program():
        bl.LogNormal(0.0, 1.0, name="a")
        bl.Normal(0.0, 1.0, name="b")

    guide = make(program)
    guide.weights[1].assign(np.linspace(-0.5, 1.0, guide.weights[1].shape[0]))
    normal = guide.distribution()
    draws = guide.sample(3000, seed=4)
    real = np.stack([np.log(array(draws["a"])), array(draws["b"])], axis=1)
    statistics.assert_mean(real, array(normal.mean()), detect=0.3)
    products = real[:, :1] * real
    statistics.assert_mean(products, array(normal.covariance())[0], detect=0.6)

    def single(key):
        with bl.seed(key):
            values = guide()
        return ops.stack([ops.log(values["a"]), ops.convert_to_tensor(values["b"])])

    keys = ops.convert_to_tensor(seeds.integers([1], 200, 2))
    singles = array(backend.vectorize(single)(keys))
    statistics.assert_mean(
        singles[:, :1] * singles, array(normal.covariance())[0], detect=1.5
    )


def test_a_guide_is_saved_by_its_weights(tmp_path):
    guide = bl.FullRankGuide(mixed)
    guide.loc.assign(np.arange(guide.size, dtype="float32"))
    path = tmp_path / "guide.weights.h5"
    guide.save_weights(path)
    other = bl.FullRankGuide(mixed)
    other.load_weights(path)
    np.testing.assert_array_equal(array(other.loc), np.arange(guide.size))
    with pytest.raises(NotImplementedError, match="save_weights"):
        guide.get_config()


def test_a_guide_covers_the_weights_of_layers():
    model = keras.Sequential(
        [keras.Input((2,)), bl.layers.DenseFlipout(1, name="dense")], name="model"
    )

    def normal(f):
        return bl.distributions.Normal(f, 0.5)

    data = (X, Y[:, None])
    guide = bl.MeanFieldGuide(model, data, likelihood=normal)
    assert list(guide.median()) == ["model/dense/kernel"]
    bound = bl.elbo(model, guide, data, likelihood=normal, seed=0)
    assert np.isfinite(array(bound))


def test_discrete_and_no_latent_variables_are_refused():
    def discrete():
        bl.Poisson(3.0, name="count")

    with pytest.raises(ValueError, match="'count' is discrete.*Sum over"):
        bl.MeanFieldGuide(discrete)
    with pytest.raises(ValueError, match="with latent variables"):
        bl.MeanFieldGuide(discrete, {"count": 3.0})

    def dependent():
        bl.Uniform(0.0, bl.HalfNormal(1.0, name="high"), name="below")

    runs = itertools.count(1)

    def growing():
        for i in range(next(runs)):
            bl.Normal(0.0, 1.0, name=f"step_{i}")

    with pytest.raises(ValueError, match="'below' is not: it, or its support"):
        bl.MeanFieldGuide(dependent)
    with pytest.raises(ValueError, match="has the variables.*step_1"):
        bl.MeanFieldGuide(growing)
    with pytest.raises(ValueError, match="init_scale"):
        bl.FullRankGuide(mixed, init_scale=0.0)
