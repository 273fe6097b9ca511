"""The beta-NLL: -log p times the variance to the power of beta, as a constant."""

import keras
import numpy as np
import pytest
from scipy import stats

import bayesian_layers as bl
from tests.differentiation import value_and_grad

LOC = np.array([[0.5], [2.0]], "float32")
SCALE = np.array([[0.3], [2.0]], "float32")
Y = np.array([[1.0], [-1.0]], "float32")


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_terms_are_weighted_by_the_variance_which_is_a_constant(beta):
    loss = bl.losses.NegativeLogLikelihood(beta=beta)

    def value(loc, scale):
        return loss(Y, bl.RandomVariable(bl.distributions.Normal(loc, scale), value=Y))

    result, (by_loc, by_scale) = value_and_grad(value, LOC, SCALE)
    weights = SCALE ** (2.0 * beta)
    expected = -np.mean(weights * stats.norm.logpdf(Y, LOC, SCALE))
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    z = (Y - LOC) / SCALE
    np.testing.assert_allclose(by_loc, -weights * z / SCALE / 2.0, rtol=1e-4)
    np.testing.assert_allclose(
        by_scale, weights * (1.0 - z**2) / SCALE / 2.0, rtol=1e-4
    )


def test_at_one_the_mean_is_learned_as_by_squared_errors():
    loss = bl.losses.NegativeLogLikelihood(beta=1.0)

    def value(loc):
        return loss(Y, bl.RandomVariable(bl.distributions.Normal(loc, SCALE), value=Y))

    _, (gradient,) = value_and_grad(value, LOC)
    np.testing.assert_allclose(gradient, (LOC - Y) / 2.0, rtol=1e-4)


def test_beta_is_between_0_and_1_and_is_saved():
    for beta in (-0.1, 1.5):
        with pytest.raises(ValueError, match=f"beta={beta}"):
            bl.losses.NegativeLogLikelihood(beta=beta)
    config = keras.saving.serialize_keras_object(
        bl.losses.NegativeLogLikelihood(beta=0.5)
    )
    assert keras.saving.deserialize_keras_object(config).beta == 0.5


def test_vectors_have_no_variance_of_each_term():
    head = bl.layers.MultivariateNormalDiag()
    with pytest.raises(ValueError, match="beta=0.5 and MultivariateNormalDiag"):
        bl.losses.NegativeLogLikelihood(beta=0.5)(
            np.zeros((2, 3)), head(np.zeros((2, 6)))
        )
