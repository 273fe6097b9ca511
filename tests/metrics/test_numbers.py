"""CRPS, intervals and quantiles of all kinds of predictions."""

import keras
import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.metrics import mean_pinball_loss

import bayesian_layers as bl
from bayesian_layers.metrics.crps import crps_of_samples
from bayesian_layers.prediction.moments import Moments
from tests.layers.outputs.table import array
from tests.metrics import references
from tests.metrics.table import LOC, SCALE, SIZE, Y, no_loss
from tests.statistics import assert_mean

RNG = np.random.default_rng(2)
# Mixtures of three: the components on the last axis.
LOCS = RNG.normal(size=(SIZE, 2, 3)).astype("float32")
SCALES = RNG.uniform(0.1, 1.0, size=(SIZE, 2, 3)).astype("float32")
WEIGHTS = RNG.dirichlet(np.ones(3), size=(SIZE, 2)).astype("float32")


def mixture(loc=LOCS, scale=SCALES, weights=WEIGHTS):
    return bl.distributions.MixtureSameFamily(
        bl.distributions.Categorical(probs=weights),
        bl.distributions.Normal(loc, scale),
    )


def prediction_of(distribution):
    """A prediction by the draws of a distribution `[S, B, ...]`."""
    mean = array(distribution.mean()).mean(axis=0)
    count = distribution.batch_shape[0]
    return bl.Prediction(
        Moments(type(distribution), count, {"mean": mean}), distribution
    )


def repeated(parameters, weights):
    """Components as often as their weights say, in tenths, on the first axis."""
    times = np.round(10 * weights).astype(int)
    return np.stack([np.repeat(p, times, axis=-1) for p in parameters])


def test_crps_of_mixtures_is_the_integral():
    weights = np.array([0.2, 0.5, 0.3], "float32")
    y_pred = bl.RandomVariable(mixture(weights=weights))
    parts = (np.moveaxis(p, -1, 0) for p in repeated((LOCS, SCALES), weights))
    expected = references.crps_of_normal_mixtures(Y, *parts)
    np.testing.assert_allclose(float(bl.metrics.CRPS()(Y, y_pred)), expected, rtol=1e-4)


def test_crps_of_a_prediction_by_mixtures_is_that_of_all_components():
    weights = np.array([0.2, 0.5, 0.3], "float32")
    loc = np.stack([LOCS, LOCS + 1.0])
    prediction = prediction_of(mixture(loc, np.stack([SCALES] * 2), weights))
    parts = repeated((loc, np.stack([SCALES] * 2)), weights)
    parts = (np.concatenate(np.moveaxis(p, -1, 1)) for p in parts)
    expected = references.crps_of_normal_mixtures(Y, *parts)
    result = float(bl.metrics.CRPS()(Y, prediction))
    np.testing.assert_allclose(result, expected, rtol=1e-4)


VECTORS = {
    "MultivariateNormalDiag": lambda: bl.distributions.MultivariateNormalDiag(
        LOC, SCALE
    ),
    "Independent": lambda: bl.distributions.Independent(
        bl.distributions.Normal(LOC, SCALE)
    ),
    "JointNormal": lambda: bl.distributions.JointNormal(
        LOC, np.stack([np.diag(s**2) for s in SCALE.T])
    ),
    "Compound": lambda: bl.distributions.Compound(
        bl.distributions.Normal(LOC, 0.6 * SCALE),
        bl.distributions.Normal(0.0, 0.8 * SCALE),
        "loc",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_numbers_that_depend_on_each_other_are_looked_at_one_by_one(name):
    normal = bl.RandomVariable(bl.distributions.Normal(LOC, SCALE))
    y_pred = bl.RandomVariable(VECTORS[name]())
    for make in (bl.metrics.CRPS, bl.metrics.IntervalCoverage, bl.metrics.PinballLoss):
        expected = float(make()(Y, normal))
        np.testing.assert_allclose(float(make()(Y, y_pred)), expected, rtol=1e-4)


def test_crps_of_samples_is_the_fair_estimate():
    samples = RNG.normal(size=(5, SIZE, 1)).astype("float32")
    y = Y[:, :1]
    expected = np.mean([references.fair_crps(y[i], samples[:, i]) for i in range(SIZE)])
    for targets in (y, y[:, 0]):
        result = float(bl.metrics.CRPS()(targets, samples))
        np.testing.assert_allclose(result, expected, rtol=1e-4)
    # Those of a prediction of plain outputs are its samples.
    prediction = prediction_of(bl.distributions.Deterministic(samples))
    np.testing.assert_allclose(
        float(bl.metrics.CRPS()(y, prediction)), expected, rtol=1e-4
    )


def test_the_estimate_is_unbiased_with_few_samples():
    laplace = bl.distributions.Laplace(np.zeros(4000, "float32"), 1.0)
    values = crps_of_samples(np.float32(0.5), laplace.sample(4, seed=1))
    # Jordan et al. (2019). The plain estimate would be 0.19 too large.
    expected = 0.5 + np.exp(-0.5) - 0.75
    assert_mean(array(values), expected, detect=0.1)


def test_draws_move_on_from_batch_to_batch_and_begin_anew():
    model = keras.Sequential([keras.Input((2,)), bl.layers.Gamma()])
    metric = bl.metrics.CRPS(num_samples=5, seed=3)
    model.compile(loss=no_loss, metrics=[metric])
    x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    evaluate = {"verbose": 0, "return_dict": True}
    one = model.evaluate(x, y, **evaluate)["crps"]
    again = model.evaluate(x, y, **evaluate)["crps"]
    np.testing.assert_allclose(one, again, rtol=1e-5)
    twice = model.evaluate(np.tile(x, (2, 1)), np.tile(y, (2, 1)), 4, **evaluate)
    assert abs(twice["crps"] - one) > 1e-4


def test_counts_have_a_crps_by_draws_and_quantiles_by_a_prediction():
    y = np.arange(4.0)
    poisson = bl.distributions.Poisson(np.full((4,), 2.0))
    metric = bl.metrics.CRPS(num_samples=4000, seed=1)
    k = np.arange(100)
    steps = stats.poisson.cdf(k, 2.0) - (y[:, None] <= k)
    expected = np.sum(steps**2, axis=1).mean()
    result = float(metric(y, bl.RandomVariable(poisson)))
    np.testing.assert_allclose(result, expected, rtol=0.05)
    coverage = bl.metrics.IntervalCoverage()
    with pytest.raises(TypeError, match="Poisson.*bl.predict"):
        coverage.update_state(y, bl.RandomVariable(poisson))
    prediction = prediction_of(bl.distributions.Poisson(np.full((200, 4), 2.0)))
    low, high = prediction.interval(0.9)
    expected = np.mean((low <= y) & (y <= high))
    np.testing.assert_allclose(float(coverage(y, prediction)), expected)


def test_quantiles_of_mixtures_invert_their_distribution_function():
    y_pred = bl.RandomVariable(mixture())

    def quantile(q, i):
        def excess(x):
            cdf = stats.norm.cdf(x, LOCS[i], SCALES[i])
            return np.sum(WEIGHTS[i] * cdf) / np.sum(WEIGHTS[i]) - q

        return optimize.brentq(excess, -20.0, 20.0)

    width = np.mean([quantile(0.9, i) - quantile(0.1, i) for i in np.ndindex(Y.shape)])
    result = float(bl.metrics.IntervalWidth(0.8)(None, y_pred))
    np.testing.assert_allclose(result, width, rtol=1e-4)


def test_in_compile_a_head_of_mixtures_has_all_of_them():
    head = bl.layers.MixtureNormal(1, num_components=2)
    model = keras.Sequential([keras.Input((2,)), head])
    names = ("CRPS", "IntervalCoverage", "IntervalWidth", "PinballLoss")
    make = {name: getattr(bl.metrics, name) for name in names}
    model.compile(loss=no_loss, metrics=[make[name](name=name) for name in names])
    y = Y[:, :1]
    logs = model.evaluate(LOC, y, batch_size=16, verbose=0, return_dict=True)
    for name in names:
        expected = float(make[name]()(y, model(LOC)))
        np.testing.assert_allclose(logs[name], expected, rtol=1e-4)


def test_samples_have_an_interval():
    samples = RNG.normal(size=(9, SIZE, 2)).astype("float32")
    low, high = np.quantile(samples, (0.1, 0.9), axis=0)
    inside = np.mean((low <= Y) & (Y <= high))
    result = float(bl.metrics.IntervalCoverage(0.8)(Y, samples))
    np.testing.assert_allclose(result, inside, rtol=1e-5)
    result = float(bl.metrics.IntervalWidth(0.8)(Y, samples))
    np.testing.assert_allclose(result, np.mean(high - low), rtol=1e-4)


def test_a_plain_model_predicts_a_quantile_and_no_samples():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(loss=no_loss, metrics=[bl.metrics.PinballLoss(0.9)])
    y = Y[:, 0]
    logs = model.evaluate(LOC, y, batch_size=16, verbose=0, return_dict=True)
    expected = mean_pinball_loss(y, array(model(LOC)), alpha=0.9)
    np.testing.assert_allclose(logs["pinball_loss"], expected, rtol=1e-4)
    model.compile(loss=no_loss, metrics=[bl.metrics.CRPS()])
    for targets in (y, y[:, None]):
        with pytest.raises(ValueError, match=r"\[S, B, \.\.\.\]"):
            model.evaluate(LOC, targets, verbose=0)


def test_what_has_no_weight_may_be_anything():
    y, weights = Y.copy(), np.ones(SIZE, "float32")
    y[3], weights[3] = np.nan, 0.0
    rest = np.arange(SIZE) != 3
    normal = bl.distributions.Normal
    for make in (bl.metrics.CRPS, bl.metrics.IntervalCoverage, bl.metrics.PinballLoss):
        result = make()(y, bl.RandomVariable(normal(LOC, SCALE)), weights)
        some = bl.RandomVariable(normal(LOC[rest], SCALE[rest]))
        np.testing.assert_allclose(
            float(result), float(make()(y[rest], some)), rtol=1e-5
        )


@pytest.mark.parametrize("number", [0.0, 1.0, -0.1, np.nan])
def test_probabilities_are_between_0_and_1(number):
    with pytest.raises(ValueError, match="Received: probability="):
        bl.metrics.IntervalCoverage(number)
    with pytest.raises(ValueError, match="Received: probability="):
        bl.metrics.IntervalWidth(number)
    with pytest.raises(ValueError, match="Received: quantile="):
        bl.metrics.PinballLoss(number)
    with pytest.raises(ValueError, match="Received: num_samples=1"):
        bl.metrics.CRPS(num_samples=1)
