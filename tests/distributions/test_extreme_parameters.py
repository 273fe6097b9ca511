"""Small and large concentrations and counts, in float32: accurate and finite."""

import numpy as np
import pytest
from keras import ops
from scipy import stats

from bayesian_layers import distributions
from tests.differentiation import run, values_and_grad

PROBABILITIES = np.array([[1e-3], [0.2], [0.5], [0.9], [0.999]])
CONCENTRATIONS = np.array([1e-3, 0.1, 1.0, 10.0, 1e3, 1e6], "float32").astype("float64")
COUNTS = np.array([1.0, 30.0, 1e3, 1e6])
FLOAT32 = np.finfo("float32")

# Families with gamma functions in their densities: ours, SciPy's, the parameter.
FAMILIES = {
    "Gamma": (distributions.Gamma, stats.gamma, CONCENTRATIONS),
    "InverseGamma": (distributions.InverseGamma, stats.invgamma, CONCENTRATIONS),
    "Beta": (
        lambda a: distributions.Beta(a, a),
        lambda a: stats.beta(a, a),
        CONCENTRATIONS,
    ),
    "Beta to one side": (
        lambda a: distributions.Beta(a, 2.0),
        lambda a: stats.beta(a, 2.0),
        CONCENTRATIONS,
    ),
    "StudentT": (
        lambda df: distributions.StudentT(df, 0.0, 1.0),
        stats.t,
        CONCENTRATIONS[1:],
    ),
    "Poisson": (distributions.Poisson, stats.poisson, CONCENTRATIONS),
    "NegativeBinomial": (
        lambda n: distributions.NegativeBinomial(n, probs=0.75),
        lambda n: stats.nbinom(n, 0.25),
        CONCENTRATIONS,
    ),
    "Binomial": (
        lambda n: distributions.Binomial(n, probs=0.25),
        lambda n: stats.binom(n.astype(int), 0.25),
        COUNTS,
    ),
}


def quantiles(name):
    """Values across the distribution that are there, as normal numbers, in float32."""
    _, oracle, parameters = FAMILIES[name]
    with np.errstate(over="ignore", divide="ignore"):
        x = oracle(parameters).ppf(PROBABILITIES)
    if hasattr(oracle(parameters), "pdf"):
        largest = 1.0 - FLOAT32.epsneg if name.startswith("Beta") else FLOAT32.max
        x = np.copysign(np.clip(np.abs(x), FLOAT32.tiny, largest), x)
    return x.astype("float32").astype("float64")


@pytest.mark.parametrize("name", FAMILIES)
def test_log_prob_is_accurate_and_has_finite_gradients(name):
    make, oracle, parameters = FAMILIES[name]
    x, frozen = quantiles(name), oracle(parameters)
    expected = getattr(frozen, "logpdf" if hasattr(frozen, "pdf") else "logpmf")(x)
    actual, slopes = values_and_grad(lambda a, x: make(a).log_prob(x), parameters, x)
    # A rounding of x alone changes log p by about that of the concentration's root.
    tolerance = 1e-5 * (10.0 + np.sqrt(parameters) / 10.0)
    error = np.abs(actual - expected) / np.maximum(1.0, np.abs(expected))
    assert np.all(error < tolerance), error
    assert all(np.isfinite(slope).all() for slope in slopes)


@pytest.mark.parametrize("name", ["Gamma", "InverseGamma", "Beta", "StudentT"])
def test_entropy_is_accurate(name):
    make, oracle, parameters = FAMILIES[name]
    actual = run(lambda: make(parameters.astype("float32")).entropy())
    expected = [oracle(a).entropy() for a in parameters]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_vectors_of_large_concentrations_and_counts():
    concentration = np.array([1e6, 2e6, 1e6])
    x = np.array([0.25, 0.5, 0.25]) + np.array([1.0, -2.0, 1.0]) / 2**12
    probs = np.array([0.25, 0.5, 0.25])
    counts = np.array([249_500.0, 500_000.0, 250_500.0])
    actual = run(
        lambda: [
            distributions.Dirichlet(concentration).log_prob(x),
            distributions.Multinomial(1e6, probs=probs).log_prob(counts),
        ]
    )
    expected = [
        stats.dirichlet(concentration).logpdf(x),
        stats.multinomial(1_000_000, probs).logpmf(counts),
    ]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "q, p",
    [
        (distributions.Gamma(1e6, 1.0), distributions.Gamma(0.25e6, 0.25)),
        (distributions.Beta(1e6, 1e6), distributions.Beta(0.25e6, 0.25e6)),
        (distributions.Dirichlet([1e6, 1e6]), distributions.Dirichlet([25e4, 25e4])),
    ],
    ids=["Gamma", "Beta", "Dirichlet"],
)
def test_divergences_of_large_concentrations(q, p):
    # Both are close to normal distributions, one with twice the other's scale.
    expected = 0.5 * (np.log(4.0) + 0.25 - 1.0)
    np.testing.assert_allclose(float(q.kl_divergence(p)), expected, rtol=1e-4)


SAMPLED = {
    "Gamma": distributions.Gamma,
    "InverseGamma": distributions.InverseGamma,
    "Beta": lambda a: distributions.Beta(a, a),
    "Dirichlet": lambda a: distributions.Dirichlet(ops.stack([a, a, a], axis=-1)),
    "LogNormal": lambda a: distributions.LogNormal(0.0, 50.0 + a),
    "Exponential": distributions.Exponential,
}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_stay_positive_and_finite_with_finite_gradients(name):
    def draw(a):
        sample = SAMPLED[name](a).sample(300, seed=1)
        # With the slope of its logarithm: that of the largest sample is larger still.
        logarithm = ops.log(sample)
        return ops.stop_gradient(sample) + (logarithm - ops.stop_gradient(logarithm))

    parameters = CONCENTRATIONS.astype("float32")
    samples, (slope,) = values_and_grad(draw, parameters)
    assert np.all((FLOAT32.tiny <= samples) & (samples <= FLOAT32.max))
    if name in ("Beta", "Dirichlet"):
        assert np.all(samples <= 1.0)
    assert np.isfinite(slope).all()
    assert np.isfinite(run(lambda: SAMPLED[name](parameters).log_prob(samples))).all()
