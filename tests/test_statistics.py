"""The statistical assertions see the errors that they promise to see, and no others."""

import numpy as np
import pytest
from scipy import stats

from tests.statistics import (
    assert_counts,
    assert_distributed_as,
    assert_mean,
    assert_uncorrelated,
    assert_variance,
)

COUNT = 20_000
NORMAL = np.random.default_rng(0).normal(1.0, 2.0, size=(COUNT, 2))
POISSON = np.random.default_rng(1).poisson(3.0, size=COUNT)


def poisson(rate):
    return stats.poisson(rate).pmf(np.arange(12))


def test_right_samples_pass():
    assert_mean(NORMAL, [1.0, 1.0], detect=0.15)
    assert_variance(NORMAL, 4.0, detect=0.5)
    assert_distributed_as(NORMAL, stats.norm(1.0, 2.0).cdf, detect=0.05)
    assert_counts(POISSON, poisson(3.0), detect=0.05)
    assert_uncorrelated(NORMAL[:, 0], NORMAL[:, 1], detect=0.07)


def test_constant_samples_pass():
    assert_mean(np.full((10, 2), 0.1, "float32"), 0.1, detect=1e-5)


def test_a_wrong_mean_fails_in_one_column_of_many():
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_mean(NORMAL, [1.0, 1.15], detect=0.15)


def test_a_wrong_variance_fails():
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_variance(NORMAL, 4.5, detect=0.5)


def test_a_wrong_distribution_of_right_mean_and_variance_fails():
    logistic = stats.logistic(1.0, 2.0 * np.sqrt(3.0) / np.pi)
    with pytest.raises(AssertionError, match="distribution function"):
        assert_distributed_as(NORMAL, logistic.cdf, detect=0.05)


def test_wrong_probabilities_fail():
    with pytest.raises(AssertionError, match="chi-square"):
        assert_counts(POISSON, poisson(3.2), detect=0.05)


def test_a_value_of_probability_zero_fails_however_rare():
    samples = np.append(np.arange(1000) % 2, [5])
    with pytest.raises(AssertionError, match="probability zero"):
        assert_counts(samples, [0.5, 0.5], detect=0.4)


def test_correlated_samples_fail():
    mixed = NORMAL[:, 0] + 0.1 * NORMAL[:, 1]
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_uncorrelated(mixed, NORMAL[:, 1], detect=0.07)


def test_samples_that_are_not_finite_fail():
    with pytest.raises(AssertionError, match="not finite"):
        assert_mean(np.array([0.0, np.nan, 1.0]), 0.5, detect=10.0)


@pytest.mark.parametrize(
    "check",
    [
        lambda: assert_mean(NORMAL[:100], 1.0, detect=0.15),
        lambda: assert_variance(NORMAL[:100], 4.0, detect=0.5),
        lambda: assert_distributed_as(NORMAL[:100], stats.norm.cdf, detect=0.05),
        lambda: assert_counts(POISSON[:100], poisson(3.0), detect=0.05),
        lambda: assert_uncorrelated(*NORMAL[:100].T, detect=0.07),
    ],
    ids=["mean", "variance", "distribution", "counts", "correlation"],
)
def test_too_few_samples_for_the_promised_power_fail(check):
    with pytest.raises(AssertionError, match="Take more"):
        check()


def test_noise_of_its_own_does_not_hide_a_wrong_mean():
    contaminated = NORMAL[:, 0].copy()
    contaminated[0] = 1e5
    with pytest.raises(AssertionError, match="Take more"):
        assert_mean(contaminated, 1.0, detect=0.15)
