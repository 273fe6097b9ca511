"""Quantiles that are found by inversion: in the tails, their gradients, their cost."""

import warnings

import numpy as np
import pytest
from keras import ops
from scipy import stats

from bayesian_layers import distributions
from tests.differentiation import BACKEND, run, value_and_grad

LOWER = [1e-30, 1e-10, 1e-4, 0.01, 0.2, 0.5, 0.8, 0.99, 0.9999, 1.0 - 2.0**-24]
PROBABILITIES = np.array(LOWER, "float32")[:, None]
PARAMETERS = np.array([0.1, 0.5, 1.0, 3.0, 30.0, 90.0, 1e3, 1e6], "float32")

FAMILIES = {
    "Gamma": (lambda a: distributions.Gamma(a, 2.0), lambda a: stats.gamma(a, 0, 0.5)),
    "InverseGamma": (distributions.InverseGamma, stats.invgamma),
    "Beta": (lambda a: distributions.Beta(a, a), lambda a: stats.beta(a, a)),
    "Beta to one side": (
        lambda a: distributions.Beta(a, 2.0),
        lambda a: stats.beta(a, 2.0),
    ),
    "StudentT": (lambda a: distributions.StudentT(a, 0.0, 1.0), stats.t),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_quantiles_agree_with_scipy_from_tail_to_tail(name):
    make, oracle = FAMILIES[name]
    actual = run(lambda: make(PARAMETERS).quantile(PROBABILITIES))
    frozen = oracle(PARAMETERS.astype("float64"))
    p = PROBABILITIES.astype("float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = frozen.ppf(p)
        # SciPy gives up on a few beta quantiles, with a warning: they are left out.
        returns = np.abs(np.log(frozen.cdf(expected)) - np.log(p)) < 1e-6
    assert returns.mean() > 0.9
    largest = 1.0 if name.startswith("Beta") else np.inf
    normal = (np.abs(expected) < 1e38) & (np.abs(expected) > 1e-37)
    np.testing.assert_allclose(
        actual[returns & normal], expected[returns & normal], rtol=5e-4
    )
    assert not np.isnan(actual).any()
    assert np.all(actual <= largest)
    assert np.all(actual[1:] >= actual[:-1])


@pytest.mark.parametrize("name", FAMILIES)
def test_ends_and_numbers_that_are_no_probabilities(name):
    make, oracle = FAMILIES[name]
    p = np.array([0.0, 1.0, -0.1, 1.1, np.nan], "float32")
    actual = run(lambda: make(np.float32(2.5)).quantile(p))
    np.testing.assert_array_equal(actual, oracle(2.5).ppf(p))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_gradient_is_that_of_the_inverse(name):
    make, oracle = FAMILIES[name]
    p = np.array([0.0, 1e-3, 0.3, 0.9, 1.0])
    _, (slope,) = value_and_grad(
        lambda p: ops.sum(ops.where(p * (1 - p) > 0, make(2.5).quantile(p), 0.0)), p
    )
    density = oracle(2.5).pdf(oracle(2.5).ppf(p[1:-1]))
    np.testing.assert_allclose(slope[1:-1], 1.0 / density, rtol=1e-3)
    assert np.isfinite(slope).all()


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no such derivative.")
@pytest.mark.parametrize("name", ["Gamma", "InverseGamma"])
def test_the_gradient_by_the_concentration(name):
    make, oracle = FAMILIES[name]
    a, step = 2.5, 1e-5
    _, (slope,) = value_and_grad(lambda a: make(a).quantile(0.3), np.array(a))
    expected = (oracle(a + step).ppf(0.3) - oracle(a - step).ppf(0.3)) / (2 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-3)


def test_the_gradient_by_location_and_scale():
    _, slopes = value_and_grad(
        lambda loc, scale: distributions.StudentT(3.0, loc, scale).quantile(0.9),
        np.array(1.0),
        np.array(2.0),
    )
    np.testing.assert_allclose(slopes, [1.0, stats.t(3.0).ppf(0.9)], rtol=1e-5)


@pytest.mark.skipif(BACKEND != "torch", reason="`betainc` is ours on torch only.")
def test_the_fraction_of_betainc_ends_when_it_has_converged(monkeypatch):
    from bayesian_layers.backend import torch as module

    terms = []
    coefficients = module._beta_coefficients
    monkeypatch.setattr(
        module,
        "_beta_coefficients",
        lambda *arguments: terms.append(1) or coefficients(*arguments),
    )
    rng = np.random.default_rng(0)
    df = rng.uniform(2.0, 10.0, (100, 200)).astype("float32")
    z = rng.normal(size=(100, 200)).astype("float32")
    run(lambda: distributions.StudentT(df, 0.0, 1.0).cdf(z))
    # To the last rounding it would go on for all of 2,000 terms.
    assert len(terms) < 50
    terms.clear()
    run(lambda: distributions.Beta(df, 5.0).quantile(0.9))
    assert len(terms) < 500
    terms.clear()
    module.betainc(*(ops.convert_to_tensor([np.nan]) for _ in range(3)))
    assert len(terms) < 50
