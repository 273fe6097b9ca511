import numpy as np
import pytest
from scipy import integrate, stats

import bayesian_layers as bl
from bayesian_layers import distributions, regularizers
from tests.layers.weights.table import array


def penalty(log_alpha, mean=-0.3):
    scale = abs(mean) * np.exp(0.5 * np.asarray(log_alpha, "float64"))
    weight = bl.RandomVariable(distributions.Normal(mean, scale))
    return float(array(regularizers.LogUniformKLDivergence()(weight)))


@pytest.mark.parametrize(
    ("log_alpha", "expected"), [(-8, 4.636), (-4, 2.634), (0, 0.431), (4, 0.009)]
)
def test_it_has_the_numbers_of_the_design(log_alpha, expected):
    np.testing.assert_allclose(penalty(log_alpha), expected, atol=5e-4)


@pytest.mark.parametrize("log_alpha", [-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0])
def test_it_is_the_divergence_up_to_the_error_of_the_approximation(log_alpha):
    """KL = E log|1 + sqrt(alpha) z| - E log|z| - log(alpha) / 2, zero at infinity."""
    root = np.exp(0.5 * log_alpha)

    def integrand(z):
        return stats.norm.pdf(z) * np.log(np.abs(1.0 + root * z))

    # Substitute z = pole + t**3 on both sides of the pole: no singularity is left.
    pole, reach = -1.0 / root, np.cbrt(12.0 + 1.0 / root)

    def smooth(t):
        return integrand(pole + t**3) * 3.0 * t**2 if t else 0.0

    first = integrate.quad(smooth, -reach, 0.0, limit=500)[0]
    second = integrate.quad(smooth, 0.0, reach, limit=500)[0]
    log_of_noise = -0.5 * (np.euler_gamma + np.log(2.0))
    expected = first + second - log_of_noise - 0.5 * log_alpha
    np.testing.assert_allclose(penalty(log_alpha), expected, atol=0.01)


def test_it_has_no_prior_and_takes_normal_posteriors_only():
    regularizer = regularizers.LogUniformKLDivergence()
    assert regularizer.prior is None
    with pytest.raises(ValueError, match="Received: Laplace"):
        regularizer(bl.Laplace(0.0, 1.0))
