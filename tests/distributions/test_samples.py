"""Samples of every row have the distribution of its reference, and obey their seed.

All assertions are those of `tests.statistics`, each with a false-failure rate of 1e-7.
Sampling is not compiled as a whole: operations on samples of one shape serve all rows.
"""

import re

import keras
import numpy as np
import pytest
from keras import ops

from tests.distributions.references_of_vectors import OneHot
from tests.distributions.table import ROWS
from tests.statistics import (
    assert_counts,
    assert_distributed_as,
    assert_mean,
    assert_uncorrelated,
    assert_variance,
)

COUNT = 20_000
# Given another way, as probs say, parameters reach the same sampler.
RANDOM = [
    n for n in ROWS if n != "Deterministic" and not re.search(" of (probs|log)", n)
]
# Two samplers, and two of them for one draw.
SEEDED = ["Normal", "Categorical", "StudentT"]


def draw(name, seed):
    sample = ROWS[name].distribution().sample(COUNT, seed=seed)
    return ops.convert_to_numpy(sample)


@pytest.mark.parametrize("name", RANDOM)
def test_samples_follow_the_reference_independently_of_each_other(name):
    row = ROWS[name]
    draws = draw(name, 1)
    assert draws.shape == (COUNT, *row.batch_shape, *row.event_shape)
    assert draws.dtype == row.distribution().dtype
    assert_inside(draws, row)
    assert_follows(draws, row)
    assert_independent(draws[:-1], draws[1:])
    members = draws.reshape(COUNT, int(np.prod(row.batch_shape)), -1)[..., 0]
    if row.batch_shape:
        assert_independent(members[:, :-1], members[:, 1:])


@pytest.mark.parametrize("name", [*SEEDED, "Binomial", "Poisson"])
def test_an_integer_gives_the_same_numbers_and_another_gives_others(name):
    first = draw(name, 7)
    np.testing.assert_array_equal(first, draw(name, 7))
    assert_independent(first, draw(name, 8))


@pytest.mark.parametrize("name", SEEDED)
def test_a_generator_moves_on_and_can_be_repeated(name):
    generator, repeated = keras.random.SeedGenerator(7), keras.random.SeedGenerator(7)
    first, second = draw(name, generator), draw(name, generator)
    assert_independent(first, second)
    np.testing.assert_array_equal(first, draw(name, repeated))
    np.testing.assert_array_equal(second, draw(name, repeated))


@pytest.mark.parametrize("name", SEEDED)
def test_without_a_seed_each_draw_is_fresh(name):
    assert_independent(draw(name, None), draw(name, None))


def assert_inside(draws, row):
    """Each draw is in the support: the reference gives it a density."""
    with np.errstate(divide="ignore"):
        assert np.all(row.oracle().log_prob(draws.astype("float64")) > -np.inf)


def assert_follows(draws, row):
    reference = row.oracle()
    if isinstance(reference, OneHot):
        probabilities = np.moveaxis(reference.mean(), -1, 0)
        assert_all_counts(np.argmax(draws, axis=-1), probabilities)
    elif row.event_shape:
        assert_moments(draws, reference)
    elif row.continuous:
        assert_distributed_as(draws, reference.cdf, detect=0.04)
    else:
        lowest = draws.min()
        values = np.arange(lowest, lowest + 30.0)
        values = values.reshape(-1, *[1] * len(row.batch_shape))
        with np.errstate(divide="ignore"):
            probabilities = np.exp(reference.log_prob(values))
        assert_all_counts(draws - lowest, probabilities)


def assert_all_counts(draws, probabilities):
    for index in np.ndindex(*draws.shape[1:]):
        column = (slice(None), *index)
        assert_counts(draws[column], probabilities[column], detect=0.06)


def assert_moments(draws, reference):
    mean, variance = reference.mean(), reference.variance()
    spread = np.sqrt(variance)
    assert_mean(draws, mean, detect=0.08 * spread)
    assert_variance(draws, variance, detect=0.25 * variance)
    if hasattr(reference, "covariance"):
        deviation = draws - mean
        products = deviation[..., :, None] * deviation[..., None, :]
        scale = spread[..., :, None] * spread[..., None, :]
        assert_mean(products, reference.covariance(), detect=0.25 * scale)


def assert_independent(first, second):
    """Neither the values nor their distances from the median are correlated."""
    assert_uncorrelated(first, second, detect=0.08)
    first, second = (np.abs(x - np.median(x, axis=0)) for x in (first, second))
    assert_uncorrelated(first, second, detect=0.08)
