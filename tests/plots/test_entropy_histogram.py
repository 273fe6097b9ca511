"""The histograms of scores, against NumPy, and their area, against scikit-learn."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

import bayesian_layers as bl
from tests.plots.predictions import labels, of_classes, of_normal

RNG = np.random.default_rng(0)
KNOWN = RNG.dirichlet(np.full(3, 0.3), size=(4, 50))
OTHER = RNG.dirichlet(np.full(3, 3.0), size=(4, 30))


def assert_drawn(ax, known, other, bins=30):
    edges = np.histogram_bin_edges(np.concatenate([known, other]), bins)
    for container, scores in zip(ax.containers, (known, other), strict=True):
        heights = [bar.get_height() for bar in container]
        expected = np.histogram(scores, edges)[0] / len(scores)
        np.testing.assert_allclose(heights, expected, atol=1e-6)
        np.testing.assert_allclose([b.get_x() for b in container], edges[:-1])
    truth = np.repeat([0, 1], [len(known), len(other)])
    area = roc_auc_score(truth, np.concatenate([known, other]))
    assert ax.get_legend().get_title().get_text() == f"AUROC {area:.3f}"
    names = ("in distribution", "out of distribution")
    counts = (len(known), len(other))
    expected = [f"{name}, n = {n}" for name, n in zip(names, counts, strict=True)]
    assert labels(ax) == expected


def test_scores_of_classifiers():
    known, other = of_classes(KNOWN), of_classes(OTHER)
    ax = bl.plots.entropy_histogram(known, other)
    assert_drawn(ax, known.entropy, other.entropy)
    entropy = stats.entropy(KNOWN.mean(axis=0), axis=-1)
    np.testing.assert_allclose(known.entropy, entropy, rtol=1e-5)
    assert ax.get_xlabel() == "predictive entropy (nats)"
    ax = bl.plots.entropy_histogram(known, other, score="mutual_information", bins=9)
    assert_drawn(ax, known.mutual_information, other.mutual_information, bins=9)


def test_scores_of_regression_and_functions_of_a_prediction():
    known = of_normal(RNG.normal(size=(4, 20, 1)), 0.1)
    other = of_normal(3.0 * RNG.normal(size=(4, 20, 1)), 0.1)
    ax = bl.plots.entropy_histogram(known, other, score="stddev")
    assert_drawn(ax, known.stddev[:, 0], other.stddev[:, 0])

    def magnitude(prediction):
        return np.abs(prediction.mean[:, 0])

    ax = bl.plots.entropy_histogram(known, other, score=magnitude)
    assert_drawn(ax, magnitude(known), magnitude(other))
    assert ax.get_xlabel() == "magnitude"


def test_given_scores_may_be_equal():
    known, other = np.array([1.0, 2.0, 2.0]), np.array([2.0, 2.0, 3.0, 0.0])
    ax = bl.plots.entropy_histogram(known, other, score="distance", bins=3)
    assert_drawn(ax, known, other, bins=3)
    assert ax.get_xlabel() == "distance"
    ax = bl.plots.entropy_histogram(np.ones(3), np.ones(2))
    assert_drawn(ax, np.ones(3), np.ones(2))


CLASSES = of_classes(KNOWN)
REGRESSION = of_normal(np.zeros((2, 5, 2)), 1.0)
BAD = {
    "score": ((CLASSES, CLASSES), {"score": "loss"}, ValueError, "score='loss'"),
    "no name": ((CLASSES, CLASSES), {"score": 3}, TypeError, "score=3"),
    "regression": ((REGRESSION, REGRESSION), {}, ValueError, "for classifiers"),
    "outputs": (
        (REGRESSION, REGRESSION),
        {"score": "stddev"},
        ValueError,
        r"stddev of in_distribution.*\(5, 2\)",
    ),
    "probs": ((KNOWN[0], OTHER[0]), {}, ValueError, "in_distribution"),
    "function": (([1.0], [2.0]), {"score": np.max}, TypeError, "scores already"),
    "NaN": (([1.0], [np.nan]), {}, ValueError, "out_of_distribution"),
    "bins": (([1.0], [2.0]), {"bins": 2.5}, ValueError, "bins=2.5"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises(name):
    args, kwargs, error, match = BAD[name]
    with pytest.raises(error, match=match):
        bl.plots.entropy_histogram(*args, **kwargs)
