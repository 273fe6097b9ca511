"""Bands and lines along one input, against quantiles of NumPy and SciPy."""

import keras
import numpy as np
import pytest
from scipy import optimize, stats

import bayesian_layers as bl
from tests.plots.predictions import labels, line, of_classes, of_normal, of_values

RNG = np.random.default_rng(0)
X = RNG.normal(size=9)
ORDER = np.argsort(X)
LOC = RNG.normal(size=(8, 9, 2))
SCALE = RNG.uniform(0.1, 0.5, size=(8, 9, 2))


def band(collection):
    """The lower and the upper curve of a band, at the inputs in their order."""
    [path] = collection.get_paths()
    x = np.sort(X)
    ends = [path.vertices[np.isclose(path.vertices[:, 0], value), 1] for value in x]
    return np.array([[values.min(), values.max()] for values in ends]).T


def mixture_quantile(loc, scale, q):
    return optimize.brentq(lambda x: stats.norm.cdf(x, loc, scale).mean() - q, -9, 9)


@pytest.mark.parametrize("output", [0, 1])
def test_bands_are_intervals_of_outputs_and_of_functions(output):
    prediction = of_normal(LOC, SCALE)
    ax = bl.plots.predictive(X, prediction, probabilities=0.8, output=output)
    outer, inner = map(band, ax.collections)
    loc, scale = LOC[:, ORDER, output], SCALE[:, ORDER, output]
    for n in range(len(X)):
        expected = [mixture_quantile(loc[:, n], scale[:, n], q) for q in (0.1, 0.9)]
        np.testing.assert_allclose(outer[:, n], expected, atol=1e-4)
    np.testing.assert_allclose(inner, np.quantile(loc, (0.1, 0.9), axis=0), atol=1e-5)
    x, mean = line(ax, "mean")
    np.testing.assert_array_equal(x, X[ORDER])
    np.testing.assert_allclose(mean, loc.mean(axis=0), atol=1e-5)
    assert labels(ax) == ["80% of outputs", "80% of functions", "mean"]


def test_several_probabilities_are_drawn_from_the_widest():
    prediction = of_normal(LOC[..., :1], SCALE[..., :1])
    ax = bl.plots.predictive(X[:, None], prediction, probabilities=[0.5, 0.955])
    widths = [np.ptp(band(collection), axis=0) for collection in ax.collections]
    assert len(widths) == 4
    assert np.all(widths[0] > widths[1]) and np.all(widths[2] > widths[3])
    assert labels(ax)[:2] == ["50%, 95.5% of outputs", "50%, 95.5% of functions"]


def test_functions_are_means_of_draws_and_data_are_points():
    prediction = of_normal(LOC[..., 0], SCALE[..., 0])
    x, y = np.array([[0.1], [0.2]]), np.array([1.0, -1.0])
    ax = bl.plots.predictive(X, prediction, data=(x, y), functions=4)
    drawn = [line.get_ydata() for line in ax.lines if line.get_linewidth() < 1.0]
    np.testing.assert_allclose(drawn, LOC[::2, ORDER, 0], atol=1e-6)
    points = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(points, [[0.1, 1.0], [0.2, -1.0]])
    assert labels(ax)[2:] == ["functions", "mean", "data"]


def test_plain_outputs_have_functions_only():
    ax = bl.plots.predictive(X, of_values(LOC[..., 0]))
    [inner] = ax.collections
    expected = np.quantile(LOC[:, ORDER, 0], (0.05, 0.95), axis=0)
    np.testing.assert_allclose(band(inner), expected, atol=1e-6)
    assert labels(ax) == ["90% of functions", "mean"]


@pytest.mark.parametrize("family", ["Categorical", "OneHotCategorical", "Bernoulli"])
def test_classes_have_bands_of_their_probability(family):
    probs = RNG.dirichlet(np.ones(2), size=(8, 9))
    family = getattr(bl.distributions, family)
    prediction = of_classes(probs, family)
    y = np.eye(2)[[1, 0, 1]]
    if family is bl.distributions.Categorical:
        y = np.array([1, 0, 1])
    ax = bl.plots.predictive(X, prediction, output=1, data=(X[:3], y))
    expected = np.quantile(probs[:, ORDER, 1], (0.05, 0.95), axis=0)
    np.testing.assert_allclose(band(ax.collections[0]), expected, atol=1e-6)
    assert ax.get_ylabel() == "probability"
    points = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(points, np.stack([X[:3], [1.0, 0.0, 1.0]], axis=1))


def test_the_legend_is_above_what_is_drawn_and_the_axis_still_follows():
    ax = bl.plots.predictive(X, of_normal(LOC[..., 0], SCALE[..., 0]))
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent().transformed(ax.transData.inverted())
    highest = max(band(collection).max() for collection in ax.collections)
    assert box.y0 > highest and box.y1 < ax.get_ylim()[1]
    ax.plot([0.0], [100.0])
    assert ax.get_ylim()[1] > 100.0


def test_a_prediction_of_a_model_is_drawn():
    model = keras.Sequential(
        [keras.Input((1,)), bl.layers.DenseFlipout(1), bl.layers.Normal(1)]
    )
    prediction = bl.predict(model, X[:, None], num_samples=3, seed=0, verbose=0)
    ax = bl.plots.predictive(X, prediction, probabilities=0.5)
    low, high = prediction.interval(0.5)
    expected = np.stack([low[ORDER, 0], high[ORDER, 0]])
    np.testing.assert_allclose(band(ax.collections[0]), expected, atol=1e-6)


NORMAL = of_normal(LOC, SCALE)
BAD = {
    "no prediction": ((X, LOC), {}, TypeError, "Expected a `bl.Prediction`"),
    "which output": ((X, NORMAL), {}, ValueError, "has 2 outputs"),
    "no output": ((X, NORMAL), {"output": 2}, ValueError, "below 2"),
    "as many": ((X[1:], NORMAL), {"output": 0}, ValueError, "8 inputs and a pred"),
    "two inputs": ((LOC[0], NORMAL), {}, ValueError, r"\[n\] or \[n, 1\]"),
    "NaN": ((X * np.nan, NORMAL), {}, ValueError, "9 numbers that are not finite"),
    "text": ((["a"] * 9, NORMAL), {}, TypeError, "should hold numbers"),
    "probability": ((X, NORMAL), {"probabilities": 90}, ValueError, "between 0 and"),
    "functions": ((X, NORMAL), {"functions": 9}, ValueError, "There are 8 functions"),
    "negative": ((X, NORMAL), {"functions": -1}, ValueError, "at least 0"),
    "data": ((X, NORMAL), {"output": 0, "data": X}, ValueError, "a pair"),
    "fewer y": (
        (X, NORMAL),
        {"output": 0, "data": (X, X[1:])},
        ValueError,
        "9 x and 8 y",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises(name):
    args, kwargs, error, match = BAD[name]
    with pytest.raises(error, match=match):
        bl.plots.predictive(*args, **kwargs)


def test_a_prediction_without_samples_says_how_to_have_them():
    prediction = bl.Prediction(of_values(LOC[..., 0])._moments)
    with pytest.raises(ValueError, match="store_samples=True"):
        bl.plots.predictive(X, prediction)
