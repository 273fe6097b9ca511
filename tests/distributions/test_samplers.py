"""Samplers of counts and of gamma noise, where those of the backends fail."""

import numpy as np
import pytest
from keras import ops
from scipy import stats

from bayesian_layers import backend, distributions
from bayesian_layers.distributions import noise
from tests.differentiation import jit, values_and_grad
from tests.statistics import assert_mean

COUNT = 4_000


def draws(distribution, count=COUNT):
    return ops.convert_to_numpy(distribution.sample(count, seed=1)).astype("float64")


@pytest.mark.parametrize("logits", [0.0, 20.0, 50.0, 88.0, 200.0])
def test_negative_binomial_counts_are_finite_for_any_logits(logits):
    counts = draws(distributions.NegativeBinomial(3.0, logits=logits), 100)
    assert np.all(np.isfinite(counts) & (counts >= 0) & (counts == np.round(counts)))
    if 0.0 < logits < 80.0:
        # Gamma(3) times the odds: the mean of 100 has a standard error of 0.17.
        assert abs(np.mean(counts) / np.exp(logits) - 3.0) < 1.0


@pytest.mark.parametrize("rate", [3e4, 2e5, 1e7, 1e12])
def test_poisson_counts_of_large_rates(rate):
    counts = draws(distributions.Poisson(rate))
    z = (counts - rate) / np.sqrt(rate)
    assert_mean(z, 0.0, detect=0.2)
    assert_mean(np.square(z), 1.0, detect=0.3)
    assert np.all(counts == np.round(counts))
    # In float32 counts of 1e12 are rounded to 0.065 of their deviation.
    assert stats.kstest(z, "norm").pvalue > 1e-4


@pytest.mark.parametrize("rate", [np.inf, 3e38, np.nan])
def test_poisson_samplers_return_from_any_rate(rate):
    tensor = ops.convert_to_tensor(np.float32(rate))
    counts = ops.convert_to_numpy(noise.poisson((5,), tensor, "float32", 1))
    assert np.all(np.isnan(counts) if np.isnan(rate) else np.isfinite(counts))


@pytest.mark.parametrize("count, probs", [(np.nan, 0.3), (5.0, np.nan)])
def test_binomial_samplers_return_from_nan(count, probs):
    count, probs = (ops.convert_to_tensor(np.float32(x)) for x in (count, probs))
    counts = ops.convert_to_numpy(noise.binomial((5,), count, probs, "float32", 1))
    assert np.isnan(counts).all()


@pytest.mark.parametrize("concentration", [20.0, 400.0, 600.0, 1e4, 1e6])
def test_gradients_of_gamma_noise_are_unbiased(concentration):
    def draw(a):
        return backend.random_gamma((COUNT,), a, "float32", 1)

    compiled = jit(draw)(ops.full((COUNT,), concentration))
    assert np.isfinite(ops.convert_to_numpy(compiled)).all()
    _, (slope,) = values_and_grad(draw, np.full(COUNT, concentration))
    # E dx/da = d E x / da = 1.
    assert_mean(slope, 1.0, detect=0.05)


@pytest.mark.parametrize("concentration", [600.0, 1e4, 1e6])
def test_gradients_of_beta_samples_of_large_concentrations(concentration):
    def draw(a, b):
        return 2.0 * concentration * distributions.Beta(a, b).sample(seed=1)

    a = np.full(COUNT, concentration)
    _, slopes = values_and_grad(draw, a, a)
    # Twice the concentration times d(a / (a + b)), which is b / (a + b)^2 and
    # -a / (a + b)^2.
    assert_mean(slopes[0], 0.5, detect=0.05)
    assert_mean(slopes[1], -0.5, detect=0.05)
