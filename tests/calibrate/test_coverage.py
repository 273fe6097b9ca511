"""The guarantee, by simulation: many held-out sets, each with new examples.

If no two scores are equal, the coverage given the held-out data has the distribution
Beta(k, n + 1 - k), with k = ceil((n + 1) coverage), whatever the model. So its mean is
k / (n + 1), between `coverage` and `coverage + 1 / (n + 1)`. The assertions have the
false-failure rate and the power that `tests/statistics.py` states.
"""

import math

import numpy as np
import pytest
from scipy import special, stats

import bayesian_layers as bl
from tests.calibrate import predictions
from tests.statistics import FALSE_FAILURE_RATE, assert_mean

REPETITIONS = 2000
HELD_OUT, NEW = 30, 100
COVERAGE = 0.8
# 25 of 31: one more or less would change the coverage by 0.032.
RANK = 25


def assert_guaranteed(coverages):
    """The mean coverage of all repetitions is in the bounds, and what it should be."""
    assert RANK == math.ceil((HELD_OUT + 1) * COVERAGE)
    standard_error = np.std(coverages) / np.sqrt(len(coverages))
    width = stats.norm.isf(FALSE_FAILURE_RATE) * standard_error
    assert COVERAGE - width <= np.mean(coverages)
    assert np.mean(coverages) <= COVERAGE + 1.0 / (HELD_OUT + 1) + width
    assert_mean(coverages, RANK / (HELD_OUT + 1), detect=0.016)
    # Given the held-out data it varies as it should; new examples add their noise.
    beta = stats.beta(RANK, HELD_OUT + 1 - RANK)
    variance = beta.var() + beta.expect(lambda p: p * (1.0 - p)) / NEW
    assert_mean((coverages - np.mean(coverages)) ** 2, variance, detect=0.3 * variance)


def simulated_numbers(rng, count):
    """Inputs and targets of all repetitions, one in each column; the noise varies."""
    x = rng.uniform(-1.0, 1.0, size=(count, REPETITIONS))
    return x, 3.0 * x + (0.1 + np.abs(x)) * rng.standard_t(3.0, size=x.shape)


def right_mean(x):
    return 3.0 * x


def wrong_mean(x):
    return 7.0 * np.sin(20.0 * x)


def right_stddev(x):
    return 0.1 + np.abs(x)


def wrong_stddev(x):
    return np.exp(-4.0 * np.abs(x))


INTERVALS = {
    "absolute residuals, right": (
        bl.calibrate.ConformalIntervals,
        lambda x: predictions.of_values(right_mean(x)),
    ),
    "absolute residuals, wrong": (
        bl.calibrate.ConformalIntervals,
        lambda x: predictions.of_values(wrong_mean(x)),
    ),
    "normalized, right": (
        bl.calibrate.ConformalNormalizedIntervals,
        lambda x: predictions.of_normals(right_mean(x), right_stddev(x)),
    ),
    "normalized, wrong": (
        bl.calibrate.ConformalNormalizedIntervals,
        lambda x: predictions.of_normals(wrong_mean(x), wrong_stddev(x)),
    ),
    "quantiles, too narrow": (
        bl.calibrate.ConformalQuantileIntervals,
        lambda x: predictions.of_values(
            np.stack([right_mean(x) - 0.01, right_mean(x) + 0.01], axis=-1)
        ),
    ),
    "quantiles, too wide": (
        bl.calibrate.ConformalQuantileIntervals,
        lambda x: predictions.of_values(
            np.stack([right_mean(x) - 90.0, right_mean(x) + 90.0], axis=-1)
        ),
    ),
    "quantiles, wrong": (
        bl.calibrate.ConformalQuantileIntervals,
        lambda x: predictions.of_values(
            np.stack([wrong_mean(x), wrong_mean(x) + wrong_stddev(x)], axis=-1)
        ),
    ),
}


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_have_their_coverage_whatever_the_model(name):
    cls, predicted = INTERVALS[name]
    rng = np.random.default_rng(0)
    x, y = simulated_numbers(rng, HELD_OUT)
    conformal = cls(coverage=COVERAGE).fit(predicted(x), y)
    assert conformal.threshold.shape == (REPETITIONS,)
    x, y = simulated_numbers(rng, NEW)
    low, high = conformal.interval(predicted(x))
    assert_guaranteed(np.mean((low <= y) & (y <= high), axis=0))


def right_probs(rng, count):
    """Probabilities of four classes, and classes drawn from them."""
    probs = special.softmax(2.0 * rng.normal(size=(count, 4)), axis=-1)
    classes = np.argmax(np.log(probs) + rng.gumbel(size=probs.shape), axis=-1)
    return probs, classes


def wrong_probs(rng, count):
    """Probabilities that are sure of classes that do not depend on them."""
    probs = rng.dirichlet(np.full(4, 0.5), size=count)
    return probs, rng.choice(4, size=count, p=[0.7, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("cls", ["ConformalSets", "ConformalAdaptiveSets"])
@pytest.mark.parametrize("simulated", [right_probs, wrong_probs])
def test_sets_have_their_coverage_whatever_the_model(cls, simulated):
    rng = np.random.default_rng(1)
    np.random.seed(1)
    coverages = []
    for repetition in range(REPETITIONS):
        conformal = getattr(bl.calibrate, cls)(coverage=COVERAGE, seed=repetition)
        probs, classes = simulated(rng, HELD_OUT)
        conformal.fit(predictions.of_classes(probs), classes)
        probs, classes = simulated(rng, NEW)
        sets = conformal.sets(predictions.of_classes(probs))
        coverages.append(np.mean(sets[np.arange(NEW), classes]))
    assert_guaranteed(np.array(coverages))


def test_adaptive_sets_of_right_probabilities_cover_all_examples_equally_often():
    rng = np.random.default_rng(2)
    held_out, new = right_probs(rng, 200_000), right_probs(rng, 20_000)
    group = np.digitize(np.max(new[0], axis=-1), [0.6, 0.9])
    covered, sizes = [], []
    for cls, seed in (
        (bl.calibrate.ConformalAdaptiveSets, {"seed": 4}),
        (bl.calibrate.ConformalSets, {}),
    ):
        conformal = cls(coverage=0.9, seed=3)
        conformal.fit(predictions.of_classes(held_out[0]), held_out[1])
        sets = conformal.sets(predictions.of_classes(new[0]), **seed)
        covered.append(sets[np.arange(len(sets)), new[1]])
        sizes.append(np.mean(np.sum(sets, axis=-1)))
    for i in range(3):
        assert_mean(covered[0][group == i], 0.9, detect=0.05)
    means = [np.mean(covered[1][group == i]) for i in range(3)]
    assert max(means) - min(means) > 0.05
    assert sizes[1] < sizes[0]
