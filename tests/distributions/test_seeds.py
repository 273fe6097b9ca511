"""A seed gives the same numbers, a generator moves on, and no seed gives fresh ones."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.distributions.table import ROWS
from tests.statistics import assert_uncorrelated

COUNT = 20_000

# All samplers, and families that need several of them for one draw.
FAMILIES = [
    "Normal",
    "Laplace",
    "Gamma",
    "Poisson",
    "Binomial",
    "Categorical",
    "StudentT",
    "Beta",
    "NegativeBinomial",
    "Multinomial",
    "MultivariateNormalLowRank",
    "MixtureSameFamily",
]


def draw(name, seed):
    sample = ROWS[name].distribution().sample(COUNT, seed=seed)
    return ops.convert_to_numpy(sample).astype("float64")


def assert_fresh(first, second):
    """Two samples of the same distribution have nothing in common."""
    # Whole numbers agree by chance, and correlate by none.
    assert_uncorrelated(first, second, detect=0.08)
    first, second = (np.abs(x - np.median(x, axis=0)) for x in (first, second))
    assert_uncorrelated(first, second, detect=0.08)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_integer_gives_the_same_numbers_and_another_gives_others(name):
    first = draw(name, 7)
    np.testing.assert_array_equal(first, draw(name, 7))
    assert_fresh(first, draw(name, 8))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_generator_moves_on_and_can_be_repeated(name):
    generator = keras.random.SeedGenerator(7)
    first, second = draw(name, generator), draw(name, generator)
    assert_fresh(first, second)
    repeated = keras.random.SeedGenerator(7)
    np.testing.assert_array_equal(first, draw(name, repeated))
    np.testing.assert_array_equal(second, draw(name, repeated))


@pytest.mark.parametrize("name", FAMILIES)
def test_without_a_seed_each_draw_is_fresh(name):
    assert_fresh(draw(name, None), draw(name, None))
