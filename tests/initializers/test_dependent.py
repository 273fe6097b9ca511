"""Posteriors with dependent elements, and the distributions that they are made of."""

import numpy as np
import pytest
from scipy import stats

import bayesian_layers as bl
from bayesian_layers import distributions, initializers
from tests.differentiation import run
from tests.initializers.checks import (
    assert_found_by_both_names,
    assert_found_in_every_form,
    dense,
)
from tests.initializers.table import ROWS, randomized
from tests.layers.weights.table import array
from tests.statistics import assert_distributed_as, assert_uncorrelated

LOC, SCALE = np.array([0.3, -0.2]), np.array([0.8, 1.5])


def radial():
    return distributions.Radial(LOC, SCALE)


def test_the_radial_density_integrates_to_one():
    """In polar coordinates, where 1 / |u| cancels: the trapezoidal rule is exact."""
    radius = np.linspace(1e-3, 9.0, 2001)
    angle = np.linspace(0.0, 2.0 * np.pi, 32, endpoint=False)
    u = radius[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    density = run(lambda x: radial().prob(x), (LOC + SCALE * u).astype("float32"))
    by_radius = density.mean(axis=1) * 2.0 * np.pi * radius * SCALE.prod()
    # What is left out below 1e-3: the density of the length there is sqrt(2 / pi).
    total = np.trapezoid(by_radius, radius) + 1e-3 * np.sqrt(2.0 / np.pi)
    np.testing.assert_allclose(total, 1.0, atol=1e-5)


def test_radial_draws_have_a_half_normal_length_and_a_uniform_direction():
    """20,000 draws show a distance of 4%, and a correlation of 0.07."""
    draws = run(lambda: radial().sample(20_000, seed=1))
    u = (draws - LOC) / SCALE
    length, angle = np.linalg.norm(u, axis=-1), np.arctan2(u[:, 1], u[:, 0])
    assert_distributed_as(length, stats.halfnorm.cdf, detect=0.04)
    uniform = stats.uniform(-np.pi, 2.0 * np.pi)
    assert_distributed_as(angle, uniform.cdf, detect=0.04)
    assert_uncorrelated(length, angle, detect=0.07)


@pytest.mark.parametrize("size", [1, 2, 50])
def test_the_radial_variance_is_the_squared_scale_by_the_number_of_elements(size):
    scale = np.linspace(0.5, 2.0, size)
    variance = distributions.Radial(np.zeros(size), scale).variance()
    np.testing.assert_allclose(array(variance), scale**2 / size, rtol=1e-5)


def test_the_divergence_of_a_radial_distribution_is_the_mean_of_log_q_minus_log_p():
    """By quadrature over length and direction, in three dimensions.

    The direction is that of Gauss-Legendre nodes on the sphere, the length that of the
    middles of 2000 intervals of equal probability.
    """
    loc, scale = np.array([0.3, -0.2, 0.5]), np.array([0.8, 1.5, 0.4])
    q = distributions.Radial(loc.astype("float32"), scale.astype("float32"))
    p = distributions.MultivariateNormalDiag([0.1, 0.0, 0.2], [1.0, 2.0, 0.7])
    length = stats.halfnorm.ppf((np.arange(2000) + 0.5) / 2000)
    height, weights = np.polynomial.legendre.leggauss(12)
    angle = np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False)
    around = np.sqrt(1.0 - height**2)[:, None]
    directions = np.stack(
        np.broadcast_arrays(
            around * np.cos(angle), around * np.sin(angle), height[:, None]
        ),
        axis=-1,
    )
    x = loc + scale * length[:, None, None, None] * directions
    difference = run(lambda x: q.log_prob(x) - p.log_prob(x), x.astype("float32"))
    expected = np.mean(difference.mean(axis=-1) @ weights / 2.0)
    # The logarithm of the shortest lengths is what the quadrature misses.
    np.testing.assert_allclose(array(q.kl_divergence(p)), expected, atol=1e-3)


def tril(rng, size):
    return np.tril(rng.normal(size=(size, size)), -1) + np.diag(np.ones(size))


def test_reshaped_is_its_base():
    rng = np.random.default_rng(0)
    base = distributions.MultivariateNormalTriL(rng.normal(size=6), tril(rng, 6))
    arrays = distributions.Reshaped(base, (3, 2))
    x = rng.normal(size=(5, 6)).astype("float32")
    for method in ("mean", "variance", "mode"):
        expected = array(getattr(base, method)()).reshape(3, 2)
        np.testing.assert_array_equal(array(getattr(arrays, method)()), expected)
    np.testing.assert_array_equal(array(arrays.entropy()), array(base.entropy()))
    np.testing.assert_array_equal(
        array(arrays.log_prob(x.reshape(5, 3, 2))), array(base.log_prob(x))
    )
    np.testing.assert_array_equal(
        array(arrays.sample(5, seed=1)), array(base.sample(5, seed=1)).reshape(5, 3, 2)
    )


def test_the_divergence_of_reshaped_distributions_is_that_of_their_bases():
    rng = np.random.default_rng(0)
    bases = [
        distributions.MultivariateNormalTriL(rng.normal(size=6), tril(rng, 6))
        for _ in range(2)
    ]
    q, p = (distributions.Reshaped(base, (3, 2)) for base in bases)
    np.testing.assert_array_equal(
        array(q.kl_divergence(p)), array(bases[0].kl_divergence(bases[1]))
    )
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(2, 3\)"):
        q.kl_divergence(distributions.Reshaped(bases[1], (2, 3)))


def test_reshaped_refuses_another_number_of_elements():
    base = distributions.MultivariateNormalDiag(np.zeros(5), np.ones(5))
    with pytest.raises(ValueError, match=r"6 elements for shape=\(3, 2\)"):
        distributions.Reshaped(base, (3, 2))


@pytest.mark.parametrize(
    "name",
    [
        "TrainableMultivariateNormal",
        "TrainableLowRankNormal",
        "TrainableKroneckerNormal",
    ],
)
def test_the_log_density_of_a_draw_is_that_of_the_multivariate_normal(name):
    weight, numbers = randomized(ROWS[name])
    mean, covariance = ROWS[name].moments(numbers)
    x = np.random.default_rng(1).normal(size=(4, 3, 2)).astype("float32")
    expected = stats.multivariate_normal(mean, covariance).logpdf(x.reshape(4, 6))
    log_prob = run(lambda x: weight.posterior.log_prob(x), x)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-3)


def test_a_scaled_identity_is_found_and_made():
    assert_found_by_both_names(initializers.get, initializers.ScaledIdentity)
    identity = initializers.ScaledIdentity(-3.0)
    assert_found_in_every_form(initializers.get, identity)
    np.testing.assert_array_equal(array(identity((2, 3))), -3.0 * np.eye(2, 3))


def test_a_factor_far_below_zero_on_the_diagonal_keeps_the_density_finite():
    layer = dense(kernel_initializer="trainable_multivariate_normal")
    layer.random_weights["kernel"].variables["tril"].assign(-200.0 * np.eye(6))
    assert np.isfinite(array(bl.total_kl(layer)))


def test_a_low_rank_posterior_of_ten_thousand_elements_has_a_divergence():
    """Its covariance matrix alone would take 400 megabytes."""
    layer = bl.layers.DenseReparameterization(
        100, kernel_initializer="trainable_low_rank_normal"
    )
    layer.build((None, 100))
    # The factor starts so small that the divergence is that of independent elements.
    expected = 10_000 * 2.5256 + np.sum(np.square(array(layer.kernel))) / 2.0
    np.testing.assert_allclose(run(lambda: bl.total_kl(layer)), expected, rtol=1e-2)
