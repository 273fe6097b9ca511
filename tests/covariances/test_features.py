"""Random features: each column is unbiased, and columns are independent."""

import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers import covariances, seeds
from tests.covariances.table import ROWS, X, array, inputs_of
from tests.differentiation import run
from tests.statistics import assert_mean

COUNT = 40_000
WITH_FEATURES = {
    **{name: row.make for name, row in ROWS.items() if row.detect is not None},
    "steps": lambda: covariances.ArcCosine(0.8, 1.2, 0.6, order=0),
    "squares": lambda: covariances.ArcCosine(0.5, 2.0, 0.6, order=2),
    "sum": lambda: covariances.Matern32(1.3) + covariances.Linear(0.5),
}
DETECT = {"steps": 0.1, "squares": 1.0, "sum": 0.5}


@pytest.mark.parametrize("name", WITH_FEATURES)
def test_products_of_features_are_the_covariance_in_expectation(name):
    # Polynomials of large inputs have features with heavy tails.
    x = 0.5 * inputs_of(name)[0]
    covariance = WITH_FEATURES[name]()
    covariance.build(x.shape)
    assert covariance.has_random_features

    def compute(x):
        phi = covariance.random_features(COUNT, seed=3)
        return phi(x), covariance(x)

    features, matrix = run(compute, x)
    assert features.shape == (*matrix.shape[:-1], COUNT)
    # The columns are the samples: their independence is what the error rate rests on.
    columns = np.moveaxis(features, -1, 0).astype("float64")
    products = columns[..., :, None] * columns[..., None, :]
    detect = DETECT[name] if name in DETECT else ROWS[name].detect
    assert_mean(products, matrix, detect=detect)


@pytest.mark.parametrize("name", ["Matern32", "Polynomial", "Product"])
def test_the_error_falls_with_the_root_of_the_number_of_features(name):
    # Means of 16 columns have a sixteenth of the variance of one: columns are
    # independent, whether next to each other or far apart. The variance of 400 such
    # means is within 10 of its standard errors of one for tails up to a kurtosis of 10.
    covariance = ROWS[name].make()
    covariance.build((None, 3))
    phi = array(covariance.random_features(6400, seed=5)(X[:2])).astype("float64")
    products = phi[0] * phi[1]
    for blocks in (products.reshape(400, 16), products.reshape(16, 400).T):
        ratio = blocks.mean(axis=1).var() / products.var() * 16
        assert 0.25 < ratio < 1.75


def test_units_have_features_of_their_own():
    covariance = covariances.Matern52(batch_shape=(2,))
    covariance.build((None, 3))
    phi = array(covariance.random_features(50, seed=1)(X))
    assert phi.shape == (2, 6, 50)
    correlation = np.mean(phi[0] * phi[1])
    assert abs(correlation) < 0.5


def test_a_seed_is_a_function_and_a_generator_moves_on():
    covariance = ROWS["Product"].make()
    covariance.build((None, 3))
    first, second = (array(covariance.random_features(9, 7)(X)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = array(covariance.random_features(9, 8)(X))
    assert np.all(np.any(first != other, axis=0))
    generator = seeds.generator(1)
    first, second = (
        array(covariance.random_features(9, generator)(X)) for _ in range(2)
    )
    assert np.all(np.any(first != second, axis=0))


def test_features_are_one_function_of_the_rows():
    covariance = ROWS["Periodic"].make(seed=1)
    covariance.build((None, 2))
    phi = covariance.random_features(5)
    x = X[:, :2]
    np.testing.assert_allclose(array(phi(x))[::-1], array(phi(x[::-1])), atol=1e-5)


@pytest.mark.parametrize("name", ["White", "FromFunction", "Sum"])
def test_what_has_no_features_says_so(name):
    covariance = ROWS[name].make()
    covariance.build((None, 3))
    assert not covariance.has_random_features
    with pytest.raises(NotImplementedError, match="no random features"):
        covariance.random_features(5)


def test_frequency_scales_are_those_of_the_spectral_density():
    # E[cos(s z r)] over normal z and random s is g(r**2): here with z integrated out.
    for covariance in (
        covariances.Matern12(2.0, 3.0),
        covariances.Matern52(batch_shape=(2,)),
        covariances.RationalQuadratic(concentration=0.3),
    ):
        covariance.build((None, 1))
        scales = array(covariance.frequency_scales(COUNT, seed=2)).astype("float64")
        shape = dict(covariance.hyperparameters())
        amplitude, length = (
            array(shape.pop(name)) for name in ("amplitude", "lengthscale")
        )
        for r in (0.3, 2.0):
            z = np.array([[r]], "float32") * np.max(length)
            expected = array(covariance(np.zeros((1, 1)), z)) / np.max(amplitude) ** 2
            samples = np.moveaxis(np.exp(-0.5 * np.square(scales * r)), -1, 0)
            assert_mean(samples, np.squeeze(expected), detect=0.06)


def test_features_before_build_are_refused():
    with pytest.raises(ValueError, match="to be built"):
        bl.covariances.Matern12().random_features(3)
