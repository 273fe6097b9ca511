"""Far tails, in float32: accurate, finite, differentiable."""

import numpy as np
import pytest
from keras import ops
from scipy import special, stats

from bayesian_layers import distributions
from tests.differentiation import run, value_and_grad, values_and_grad
from tests.statistics import assert_distributed_as

POINTS = np.array([-40.0, -20.0, -10.5, -9.5, -3.0, 0.5, 3.0, 9.5, 10.5, 20.0, 40.0])


@pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace"])
@pytest.mark.parametrize("method", ["log_cdf", "log_survival"])
def test_logarithms_of_tail_probabilities(family, method):
    oracle = getattr(stats, {"Normal": "norm"}.get(family, family.lower()))
    log_tail = {"log_cdf": oracle.logcdf, "log_survival": oracle.logsf}[method](POINTS)

    def evaluate(x, loc, scale):
        return getattr(getattr(distributions, family)(loc, scale), method)(x)

    actual, slopes = values_and_grad(evaluate, POINTS, 0.0, 1.0)
    np.testing.assert_allclose(actual, log_tail, rtol=3e-5, atol=1e-37)
    sign = {"log_cdf": 1.0, "log_survival": -1.0}[method]
    expected = sign * np.exp(oracle.logpdf(POINTS) - log_tail)
    np.testing.assert_allclose(slopes[0], expected, rtol=1e-4, atol=1e-37)
    np.testing.assert_allclose(slopes[1], -expected.sum(), rtol=1e-4)
    np.testing.assert_allclose(slopes[2], -(POINTS * expected).sum(), rtol=1e-4)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_bernoulli_logits_far_from_zero(value):
    logits = np.array([-100.0, -20.0, 20.0, 100.0])
    sign = 2.0 * value - 1.0
    actual, (slope,) = values_and_grad(
        lambda x: distributions.Bernoulli(logits=x).log_prob(value), logits
    )
    expected = -np.logaddexp(0.0, -sign * logits)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-37)
    expected = sign * special.expit(-sign * logits)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("probs", [0.0, 1.0])
@pytest.mark.parametrize("method", ["log_prob", "entropy"])
def test_certain_outcomes_have_finite_gradients(probs, method):
    def evaluate(p):
        coin = distributions.Bernoulli(probs=p)
        return coin.log_prob(probs) if method == "log_prob" else coin.entropy()

    value, (slope,) = value_and_grad(evaluate, probs)
    assert value == 0.0
    assert np.isfinite(slope)


@pytest.mark.parametrize("family", ["Categorical", "OneHotCategorical", "Multinomial"])
def test_impossible_classes_have_finite_gradients(family):
    def log_prob(**kwargs):
        kwargs |= {"total_count": 1.0} if family == "Multinomial" else {}
        value = 1 if family == "Categorical" else [0, 1]
        return getattr(distributions, family)(**kwargs).log_prob(value)

    value, (slope,) = value_and_grad(lambda p: log_prob(probs=p), [0.0, 1.0])
    assert abs(value) < 1e-6
    # Up to a direction that leads off the simplex.
    np.testing.assert_allclose(slope - slope[0], [0.0, 1.0], atol=1e-6)
    value, (slope,) = value_and_grad(lambda x: log_prob(logits=x), [-np.inf, 0.0])
    assert abs(value) < 1e-6
    np.testing.assert_allclose(slope, [0.0, 0.0], atol=1e-6)


def logistic_mixture(loc, scale):
    shifts = ops.convert_to_tensor([-2.5, 2.5], "float32")
    components = distributions.Logistic(loc + shifts, scale)
    weights = distributions.Categorical(probs=[0.5, 0.5])
    return distributions.MixtureSameFamily(weights, components)


def log_difference(log_survival):
    """The logarithm of a bin's probability, from that of its tail."""
    return lambda low, high: (
        log_survival(low) + np.log1p(-np.exp(log_survival(high) - log_survival(low)))
    )


BASES = {
    "Normal": (distributions.Normal, log_difference(stats.norm.logsf)),
    "Logistic": (distributions.Logistic, log_difference(stats.logistic.logsf)),
    "Laplace": (distributions.Laplace, log_difference(stats.laplace.logsf)),
    "Mixture": (
        logistic_mixture,
        log_difference(
            lambda x: (
                np.log(0.5)
                + np.logaddexp(
                    stats.logistic.logsf(x + 2.5), stats.logistic.logsf(x - 2.5)
                )
            )
        ),
    ),
}


@pytest.mark.parametrize("name", BASES)
def test_quantized_bins_of_next_to_no_mass(name):
    make, log_interval = BASES[name]
    # The normal bin at 12 has a mass of 1e-30, the one at 30 of 1e-190.
    values = np.array([5.0, 12.0, 30.0])
    expected = log_interval(values - 0.5, values + 0.5)

    def log_prob(loc, scale):
        quantized = distributions.Quantized(make(loc, scale), -99, 99)
        return quantized.log_prob(np.concatenate([values, -values]))

    actual, slopes = values_and_grad(log_prob, 0.0, 1.0)
    np.testing.assert_allclose(actual, np.tile(expected, 2), rtol=2e-5)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("family", ["Normal", "Logistic"])
def test_bins_much_narrower_than_the_scale(family):
    values = np.array([-3e5, 0.0, 10.0, 2e5])

    def log_prob(scale):
        base = getattr(distributions, family)(0.0, scale)
        return distributions.Quantized(base, -400_000, 400_000).log_prob(values)

    actual, slopes = values_and_grad(log_prob, 1e5)
    oracle = {"Normal": stats.norm, "Logistic": stats.logistic}[family](scale=1e5)
    np.testing.assert_allclose(actual, oracle.logpdf(values), rtol=1e-6)
    assert np.isfinite(slopes).all()


def test_log_prob_outside_of_every_support_has_finite_gradients():
    gammas = distributions.Gamma([2.0, 3.0], 1.0)
    weights = distributions.Categorical(logits=[0.0, -np.inf])
    mixture = distributions.MixtureSameFamily(weights, gammas)
    values, (slope,) = values_and_grad(mixture.log_prob, [-1.0, 2.0])
    np.testing.assert_allclose(values, [-np.inf, stats.gamma(2.0).logpdf(2.0)], 1e-6)
    np.testing.assert_allclose(slope, [0.0, -0.5], rtol=1e-5)


def test_values_at_the_end_of_the_support_have_finite_gradients():
    """Where the exponent of the value is zero, its logarithm does not matter."""
    density, (slope,) = values_and_grad(distributions.Gamma(1.0, 2.0).log_prob, [0.0])
    np.testing.assert_allclose(density, np.log(2.0), rtol=1e-5)
    assert np.isfinite(slope).all()
    uniform = distributions.Dirichlet([1.0, 1.0, 1.0])
    density, (slope,) = values_and_grad(uniform.log_prob, [0.0, 0.25, 0.75])
    np.testing.assert_allclose(density, np.log(2.0), rtol=1e-5)
    assert np.isfinite(slope).all()
    # And where it does, it does.
    sparse = distributions.Dirichlet([0.5, 1.0, 1.0])
    assert float(sparse.log_prob([0.0, 0.25, 0.75])) == np.inf
    assert float(distributions.Gamma(2.0, 1.0).log_prob(0.0)) == -np.inf


# Everywhere and to one side; far out; wide; narrow; narrow and far out.
LOW = np.array([-np.inf, 0.0, 30.0, -np.inf, -40.0, 1.0, 30.0])
HIGH = np.array([np.inf, np.inf, np.inf, -30.0, 40.0, 1.0009765625, 30.0625])
TRUNCATED = stats.truncnorm(LOW, HIGH)


def truncated(loc=0.0, scale=1.0, low=LOW, high=HIGH):
    return distributions.TruncatedNormal(loc, scale, low, high)


def test_moments_of_narrow_and_far_truncations():
    mean, variance, entropy = run(
        lambda: [truncated().mean(), truncated().variance(), truncated().entropy()]
    )
    np.testing.assert_allclose(mean, TRUNCATED.mean(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, TRUNCATED.var(), rtol=1e-3)
    probabilities = (np.arange(20_000)[:, None] + 0.5) / 20_000
    expected = -TRUNCATED.logpdf(TRUNCATED.ppf(probabilities)).mean(axis=0)
    np.testing.assert_allclose(entropy, expected, atol=1e-3)


def test_densities_of_narrow_and_far_truncations():
    x = TRUNCATED.ppf(np.array([[0.01], [0.3], [0.7], [0.99]]))
    x = x.astype("float32").astype("float64")
    ends = [np.zeros(7), np.ones(7), LOW, HIGH]
    log_prob, slopes = values_and_grad(lambda *a: truncated(*a).log_prob(x), *ends)
    np.testing.assert_allclose(log_prob, TRUNCATED.logpdf(x), rtol=1e-5, atol=5e-5)
    assert np.isfinite(slopes).all()
    # d log p / d low = p(low), and 0 for an end that is nowhere.
    finite = np.isfinite(LOW)
    expected = 4.0 * TRUNCATED.pdf(np.where(finite, LOW, 0.0)) * finite
    np.testing.assert_allclose(slopes[2], expected, rtol=2e-2, atol=1e-30)
    cdf = run(lambda: truncated().cdf(x))
    np.testing.assert_allclose(cdf, TRUNCATED.cdf(x), atol=2e-4)


def test_samples_of_narrow_and_far_truncations():
    count = 10_000
    draws = run(lambda: truncated().sample(count, seed=1))
    assert np.all((LOW <= draws) & (draws <= HIGH))
    assert_distributed_as(draws, TRUNCATED.cdf, detect=0.06)
    ends = [np.zeros(7), np.ones(7), LOW, HIGH]
    _, slopes = values_and_grad(lambda *a: truncated(*a).sample(50, seed=1), *ends)
    assert np.isfinite(slopes).all()
