"""The quantile of scores."""

import numpy as np
import pytest

import bayesian_layers as bl

quantile = bl.calibrate.conformal_quantile


@pytest.mark.parametrize(
    ("count", "coverage", "rank"),
    [
        (9, 0.9, 9),
        (19, 0.9, 18),
        (20, 0.9, 19),
        (99, 0.55, 55),  # 100 * 0.55 is above 55 in floating point.
        (99, 0.57, 57),
        (49, 0.58, 29),
        (999, 0.999, 999),
        (1, 0.5, 1),
    ],
)
def test_it_is_the_score_of_this_rank(count, coverage, rank):
    scores = np.random.default_rng(0).permutation(np.arange(1.0, count + 1.0))
    assert quantile(scores, coverage) == rank
    assert quantile(scores.astype("float32"), np.float64(coverage)) == rank


def test_each_column_has_its_own():
    scores = np.random.default_rng(0).normal(size=(19, 2, 3))
    expected = np.sort(scores, axis=0)[17]
    np.testing.assert_array_equal(quantile(scores, 0.9), expected)


@pytest.mark.parametrize(
    ("count", "coverage", "needed"), [(8, 0.9, 9), (98, 0.99, 99), (0, 0.5, 1)]
)
def test_too_few_scores_are_an_error_that_says_how_many(count, coverage, needed):
    with pytest.raises(ValueError, match=rf"at least {needed} .* Received: {count}"):
        quantile(np.zeros(count), coverage)
    quantile(np.zeros(needed), coverage)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 90, np.nan])
def test_a_coverage_is_between_0_and_1(coverage):
    with pytest.raises(ValueError, match="coverage="):
        quantile(np.zeros(100), coverage)
    with pytest.raises(ValueError, match="coverage="):
        bl.calibrate.ConformalIntervals(coverage=coverage)


@pytest.mark.parametrize("scores", [np.inf, 3.0, np.array([1.0, np.nan])])
def test_scores_are_a_finite_array(scores):
    with pytest.raises(ValueError, match="finite scores"):
        quantile(scores, 0.5)
