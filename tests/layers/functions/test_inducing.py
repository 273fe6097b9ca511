"""Inducing inputs and mean functions from data."""

import keras
import numpy as np
import pytest
from sklearn.cluster import KMeans

import bayesian_layers as bl
from tests.layers.functions.processes import array

RNG = np.random.default_rng(0)
BLOBS = np.concatenate([RNG.normal(c, 0.1, size=(30, 2)) for c in (-3.0, 0.0, 4.0)])


def test_kmeans_finds_clusters():
    centres = bl.layers.inducing_inputs(BLOBS, 3, seed=0)
    np.testing.assert_allclose(
        np.sort(centres[:, 0]), [-3.0, 0.0, 4.0], atol=5 * 0.1 / np.sqrt(30)
    )


def test_kmeans_is_about_as_good_as_that_of_scikit_learn():
    x = RNG.normal(size=(200, 3))
    centres = bl.layers.inducing_inputs(x, 10, seed=0)
    squares = np.sum(np.square(x[:, None] - centres[None]), axis=-1).min(axis=1)
    best = KMeans(10, n_init=10, random_state=0).fit(x).inertia_
    assert squares.sum() < 1.15 * best


def test_a_subset_is_of_the_points():
    points = bl.layers.inducing_inputs(BLOBS, 7, method="subset", seed=0)
    assert len(np.unique(points, axis=0)) == 7
    assert all(any(np.array_equal(p, x) for x in BLOBS) for p in points)


def test_equal_seeds_choose_equal_points():
    first, second = (bl.layers.inducing_inputs(BLOBS, 4, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("method", ["kmeans", "subset"])
def test_few_points_are_repeated_but_not_equal(method):
    x = np.array([[0.0], [1.0], [1.0]])
    points = bl.layers.inducing_inputs(x, 5, method=method, seed=0)
    assert points.shape == (5, 1)
    assert len(np.unique(points)) == 5


@pytest.mark.parametrize(
    ("x", "method", "message"),
    [
        (BLOBS, "random", "`method` should be"),
        (BLOBS[0], "kmeans", r"`x` should be points"),
    ],
)
def test_bad_arguments_are_refused(x, method, message):
    with pytest.raises(ValueError, match=message):
        bl.layers.inducing_inputs(x, 3, method=method)


def test_fewer_units_are_principal_components():
    x = RNG.normal(size=(50, 3)) * [3.0, 0.1, 1.0]
    mean_fn = bl.layers.principal_components(x, 2)
    kernel = array(mean_fn.kernel)
    np.testing.assert_allclose(np.abs(kernel), np.eye(3)[:, [0, 2]], atol=0.1)
    assert not mean_fn.trainable_weights


def test_as_many_units_are_the_inputs_and_more_are_filled_with_zeros():
    x = RNG.normal(size=(50, 3))
    assert isinstance(bl.layers.principal_components(x, 3), keras.layers.Identity)
    values = array(bl.layers.principal_components(x, 5)(x))
    np.testing.assert_allclose(values[:, :3], x, rtol=1e-5)
    np.testing.assert_array_equal(values[:, 3:], 0.0)
