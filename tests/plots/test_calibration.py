"""The curve of coverage, against intervals and against SciPy."""

import numpy as np
import pytest
from scipy import stats

import bayesian_layers as bl
from tests.plots.predictions import labels, of_classes, of_normal, of_poisson, of_values

RNG = np.random.default_rng(0)
LOC = RNG.normal(size=(5, 60, 2))
SCALE = RNG.uniform(0.3, 1.0, size=(5, 60, 2))
Y = RNG.normal(size=(60, 2))
NORMAL = of_normal(LOC, SCALE)
LEVELS = np.arange(1, 20) / 20


def curve(ax, index=1):
    return np.array(ax.lines[index].get_data())


@pytest.mark.parametrize("kind", ["interval", "quantile"])
def test_the_curve_is_that_of_the_transform_of_the_mixture(kind):
    ax = bl.plots.calibration(Y, NORMAL, kind=kind)
    u = stats.norm.cdf(Y, LOC, SCALE).mean(axis=0)
    values = np.abs(2.0 * u - 1.0) if kind == "interval" else u
    expected = [np.mean(values <= p) for p in LEVELS]
    x, observed = curve(ax)
    np.testing.assert_allclose(x, LEVELS)
    np.testing.assert_allclose(observed, expected, atol=1e-6)
    gap = np.mean(np.abs(np.array(expected) - LEVELS))
    assert labels(ax)[-1] == f"observed, mean gap {gap:.3f}"


def test_it_is_the_coverage_of_the_intervals_of_the_prediction():
    ax = bl.plots.calibration(Y, NORMAL, levels=(0.9, 0.3))
    for p, observed in curve(ax).T:
        low, high = NORMAL.interval(p)
        assert np.mean((low <= Y) & (Y <= high)) == pytest.approx(observed)


@pytest.mark.parametrize("make", [of_poisson, of_values])
@pytest.mark.parametrize("kind", ["interval", "quantile"])
def test_counts_and_plain_outputs_are_compared_with_quantiles(make, kind):
    prediction = make(RNG.uniform(1.0, 5.0, size=(40, 30)))
    y = RNG.poisson(3.0, size=(30, 1))
    ax = bl.plots.calibration(y, prediction, kind=kind, levels=[0.2, 0.5, 0.8])
    for p, observed in curve(ax).T:
        low, high = prediction.interval(p)
        within = (low <= y[:, 0]) & (y[:, 0] <= high)
        if kind == "quantile":
            within = y[:, 0] <= prediction.quantile(p)
        assert np.mean(within) == pytest.approx(observed)


def test_the_band_is_where_shares_of_so_many_examples_lie():
    ax = bl.plots.calibration(Y, NORMAL)
    [band] = ax.collections
    assert labels(ax)[:2] == ["ideal", "95% by chance, n = 60"]
    [path] = band.get_paths()
    middle = path.vertices[np.isclose(path.vertices[:, 0], 0.5), 1]
    low, high = stats.binom(60, 0.5).interval(0.95)
    # Shares are multiples of 1 / 60.
    np.testing.assert_allclose(
        [middle.min(), middle.max()], [low / 60, high / 60], atol=1.0 / 60
    )
    assert path.vertices[:, 1].min() >= 0.0 and path.vertices[:, 1].max() <= 1.0


def test_models_are_compared_on_one_picture():
    ax = bl.plots.calibration(Y, NORMAL, label="first")
    assert bl.plots.calibration(Y + 1.0, NORMAL, label="second", ax=ax) is ax
    names = [text.split(",")[0] for text in labels(ax)]
    assert names == ["ideal", "95% by chance", "first", "second"]
    first, second = ax.lines[1:]
    assert first.get_color() != second.get_color()


PROBS = of_classes(RNG.dirichlet(np.ones(3), size=(2, 60)))
BAD = {
    "no prediction": ((Y, Y), {}, TypeError, "Expected a `bl.Prediction`"),
    "classes": ((Y, PROBS), {}, ValueError, "bl.plots.reliability"),
    "shape": ((Y[:, 0], NORMAL), {}, ValueError, "shape of the predictions"),
    "NaN": ((np.nan * Y, NORMAL), {}, ValueError, "not finite"),
    "kind": ((Y, NORMAL), {"kind": "pit"}, ValueError, "Received: kind='pit'"),
    "levels": ((Y, NORMAL), {"levels": [0.0, 0.5]}, ValueError, "between 0 and 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises(name):
    args, kwargs, error, match = BAD[name]
    with pytest.raises(error, match=match):
        bl.plots.calibration(*args, **kwargs)
