"""The beta-NLL: -log p times the variance to the power of beta, over its mean."""

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
    weights /= weights.mean()
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
    np.testing.assert_allclose(gradient, (LOC - Y) / 2.0 / np.mean(SCALE**2), rtol=1e-4)


@pytest.mark.parametrize("shape", [(6,), (3, 2), (3, 1, 2)])
def test_units_of_each_column_change_the_loss_by_a_constant_only(shape):
    # The KL does not know the units: its balance with the loss must not depend on them.
    rng = np.random.default_rng(0)
    loc, y = rng.normal(size=(2, *shape)).astype("float32")
    scale = np.exp(rng.normal(size=shape)).astype("float32")
    # A power of two: scaled floats are exact.
    units = np.array([16.0, 0.25], "float32") if len(shape) > 1 else np.float32(16.0)
    loss = bl.losses.NegativeLogLikelihood(beta=0.5)

    def gradients(factor):
        def value(loc, scale):
            factors = keras.ops.convert_to_tensor(factor)
            distribution = bl.distributions.Normal(loc * factors, scale * factors)
            return loss(y * factor, bl.RandomVariable(distribution, value=y))

        return value_and_grad(value, loc, scale)

    plain, by_units = gradients(np.float32(1.0)), gradients(units)
    for expected, gradient in zip(plain[1], by_units[1], strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    constant = np.sum(np.log(units) * np.ones(shape)) / shape[0]
    np.testing.assert_allclose(by_units[0], plain[0] + constant, rtol=1e-4)


def test_what_has_no_weight_does_not_count_in_the_mean():
    loss = bl.losses.NegativeLogLikelihood(beta=1.0, reduction="sum")
    rows = np.array([0, 1, 1])
    distribution = bl.distributions.Normal(
        LOC[rows], np.array([[0.3], [2.0], [1e3]], "float32")
    )
    variable = bl.RandomVariable(distribution, value=Y[rows])
    weighted = loss(Y[rows], variable, np.array([1.0, 1.0, 0.0], "float32"))
    variable = bl.RandomVariable(bl.distributions.Normal(LOC, SCALE), value=Y)
    np.testing.assert_allclose(float(weighted), float(loss(Y, variable)), rtol=1e-5)
    nothing = loss(Y, variable, np.zeros(2, "float32"))
    assert float(nothing) == 0.0


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
