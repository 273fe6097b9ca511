"""Incomplete gamma and beta functions over all sizes of parameters, in float32."""

import numpy as np
import pytest
from keras import ops
from scipy import special, stats

from bayesian_layers import distributions
from bayesian_layers.distributions import incomplete
from tests.differentiation import run, values_and_grad

rng = np.random.default_rng(0)
COUNT = 2_000
QUANTILES = rng.uniform(1e-3, 1.0 - 1e-3, size=COUNT)


def in_float32(x):
    return x.astype("float32").astype("float64")


A, B = in_float32(np.exp(rng.uniform(np.log(0.1), np.log(1e6), size=(2, COUNT))))
GAMMA = in_float32(stats.gamma(A).ppf(QUANTILES))
BETA = np.clip(stats.beta(A, B).ppf(QUANTILES), 1e-30, 1.0 - 2.0**-24)


def test_gamma_functions_agree_with_scipy():
    below, above = run(
        lambda a, x: (incomplete.gammainc(a, x), incomplete.gammaincc(a, x)),
        *(t.astype("float32") for t in (A, GAMMA)),
    )
    np.testing.assert_allclose(below, special.gammainc(A, GAMMA), atol=4e-5)
    np.testing.assert_allclose(above, special.gammaincc(A, GAMMA), atol=4e-5)


def test_the_beta_function_agrees_with_scipy():
    # The smaller proportion is what float32 has to know.
    small = in_float32(np.minimum(BETA, 1.0 - BETA))
    x = np.where(BETA < 0.5, small, 1.0 - small)
    arguments = [A, B, x, np.where(BETA < 0.5, 1.0 - small, small)]
    actual = run(incomplete.betainc, *(t.astype("float32") for t in arguments))
    expected = special.betainc(A, B, x)
    np.testing.assert_allclose(actual, expected, atol=1.5e-4)


def test_tails_keep_their_digits():
    x = np.array([500.0, 700.0, 1400.0, 1800.0])
    a = np.full_like(x, 1000.0)
    below, above = run(
        lambda a, x: (incomplete.gammainc(a, x), incomplete.gammaincc(a, x)),
        *(t.astype("float32") for t in (a, x)),
    )
    expected = special.gammainc(1e3, x[:2])
    np.testing.assert_allclose(below[:2], expected, rtol=1e-3, atol=1e-37)
    expected = special.gammaincc(1e3, x[2:])
    np.testing.assert_allclose(above[2:], expected, rtol=1e-3, atol=1e-37)


def test_the_ends_of_the_support():
    concentration = np.array([[2.0], [100.0], [1e6]], "float32")
    gamma, beta = run(
        lambda: (
            distributions.Gamma(concentration, 1.0).cdf([-1.0, 0.0, 1e12]),
            distributions.Beta(concentration, 300.0).cdf([-1.0, 0.0, 1.0, 2.0]),
        )
    )
    np.testing.assert_allclose(gamma, np.tile([0.0, 0.0, 1.0], (3, 1)), atol=1e-30)
    np.testing.assert_allclose(beta, np.tile([0.0, 0.0, 1.0, 1.0], (3, 1)), atol=1e-30)


def test_slopes_are_densities_on_both_sides_of_the_switch():
    # At the means, where the deviance has a double zero.
    a = np.array([2.0, 49.0, 51.0, 60.0, 1e3, 1e6])
    concentration = ops.convert_to_tensor(a, "float32")
    _, (slope,) = values_and_grad(lambda x: incomplete.gammainc(concentration, x), a)
    np.testing.assert_allclose(slope, stats.gamma(a).pdf(a), rtol=1e-3)


LARGE = {
    "StudentT": (lambda df: distributions.StudentT(df, 0.0, 1.0), stats.t),
    "Poisson": (distributions.Poisson, stats.poisson),
    "Binomial": (
        lambda n: distributions.Binomial(n, probs=0.25),
        lambda n: stats.binom(n, 0.25),
    ),
    "NegativeBinomial": (
        lambda n: distributions.NegativeBinomial(n, probs=0.75),
        lambda n: stats.nbinom(n, 0.25),
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_distribution_functions_of_large_parameters(name):
    make, oracle = LARGE[name]
    parameters = np.array([1.0, 30.0, 1e3, 1e6])
    x = in_float32(oracle(parameters).ppf(np.array([[0.01], [0.5], [0.99]])))
    actual = run(lambda: make(parameters.astype("float32")).cdf(x))
    np.testing.assert_allclose(actual, oracle(parameters).cdf(x), atol=1e-4)
