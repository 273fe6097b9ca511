"""Hyperparameters: values, priors, distributions over them."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from bayesian_layers import covariances
from bayesian_layers.trace import is_tracing
from tests.covariances.table import X, Z, array
from tests.differentiation import value_and_grad


def random_covariance(**kwargs):
    return covariances.ExponentiatedQuadratic(
        "trainable_log_normal",
        bl.initializers.TrainableLogNormal(),
        ard=True,
        seed=1,
        **kwargs,
    )


def built(covariance, columns=3):
    covariance.build((None, columns))
    return covariance


@pytest.mark.parametrize("value", [1e-3, 0.7, 1e3])
def test_a_hyperparameter_starts_where_it_is_told(value):
    covariance = built(covariances.Matern32(value, [value, 1.0, 2.0]))
    values = covariance.hyperparameters()
    np.testing.assert_allclose(array(values["amplitude"]), value, rtol=1e-5)
    np.testing.assert_allclose(array(values["lengthscale"]), [value, 1, 2], rtol=1e-5)
    assert [v.name for v in covariance.trainable_variables] == [
        "amplitude",
        "lengthscale",
    ]
    assert covariance.losses == []


def test_fixed_hyperparameters_do_not_train():
    covariance = built(covariances.Matern32(fixed=("amplitude",)))
    assert [v.name for v in covariance.trainable_variables] == ["lengthscale"]
    covariance = built(random_covariance(fixed="lengthscale"))
    names = [v.name for v in covariance.trainable_variables]
    assert names == ["amplitude", "amplitude_scale"]
    covariance.trainable = False
    assert covariance.trainable_variables == []


def test_the_repr_tells_the_values():
    covariance = covariances.Matern32(2.0, active_dims=[0])
    assert repr(covariance) == "Matern32(amplitude=2., lengthscale=1., active_dims=[0])"
    built(covariance).trainable_variables[0].assign(0.541324854)
    assert "amplitude=1.," in repr(covariance)
    assert "lengthscale=TrainableLogNormal" in repr(random_covariance())


def test_a_prior_on_a_number_is_of_the_natural_value():
    penalty = bl.regularizers.KLDivergence(bl.distributions.Gamma(2.0, 3.0))
    covariance = built(covariances.Matern32(0.7, amplitude_regularizer=penalty))
    (loss,) = covariance.losses
    expected = -stats.gamma(2.0, scale=1 / 3.0).logpdf(0.7)
    np.testing.assert_allclose(array(loss), expected, rtol=1e-5)
    np.testing.assert_allclose(array(bl.total_kl(covariance)), expected, rtol=1e-5)
    np.testing.assert_allclose(array(covariance.diagonal(X)), 0.49, rtol=1e-5)
    bl.scale_kl(covariance, dataset_size=10)
    np.testing.assert_allclose(array(covariance.losses[0]), expected / 10, rtol=1e-5)


def test_a_random_hyperparameter_counts_once_in_the_losses():
    covariance = random_covariance()
    for _ in range(2):
        covariance(X)
        covariance.diagonal(X)
    assert len(covariance.losses) == 2
    # KL(LogNormal(0, s) || LogNormal(0, 1)), of one amplitude and three lengthscales.
    s = np.log1p(np.exp(-3.0))
    expected = 4 * (-np.log(s) + 0.5 * s**2 - 0.5)
    np.testing.assert_allclose(array(sum(covariance.losses)), expected, rtol=1e-4)
    np.testing.assert_allclose(array(bl.total_kl(covariance)), expected, rtol=1e-4)


def test_gradients_reach_the_distribution_of_a_hyperparameter():
    covariance = built(random_covariance())
    variables = covariance.trainable_variables

    def total(*values):
        mapping = list(zip(variables, values, strict=True))
        state = [(v, v.value) for v in covariance.non_trainable_variables]
        with keras.StatelessScope(mapping + state):
            return ops.sum(covariance(X, Z))

    gradients = value_and_grad(total, *map(array, variables))[1]
    assert len(gradients) == 4
    assert all(np.all(gradient != 0.0) for gradient in gradients)


def test_handlers_see_random_hyperparameters_by_name():
    covariance = random_covariance(name="k")
    total = covariance + covariances.Linear()
    with bl.tape() as tape:
        matrix, diagonal = array(covariance(X)), array(covariance.diagonal(X))
    assert list(tape) == ["k/amplitude", "k/lengthscale"]
    np.testing.assert_allclose(np.diag(matrix), diagonal, rtol=1e-5)
    with bl.condition({"k/amplitude": 2.0}):
        np.testing.assert_allclose(array(covariance.diagonal(X)), 4.0, rtol=1e-6)
    total.name = "total"
    for compute in (total, total.diagonal, lambda x: total.hyperparameters()):
        with bl.tape() as tape:
            compute(X)
        assert list(tape) == ["total/k/amplitude", "total/k/lengthscale"]


def test_weights_hold_a_random_hyperparameter():
    covariance = built(random_covariance())
    with bl.weights(covariance, seed=3):
        first, second = array(covariance(X)), array(covariance(X))
    np.testing.assert_array_equal(first, second)
    with bl.weights(covariance, "mean"):
        s = np.log1p(np.exp(-3.0))
        expected = np.exp(s**2)  # The square of the mean of a log-normal number.
        np.testing.assert_allclose(array(covariance.diagonal(X)), expected, rtol=1e-4)


def test_one_draw_is_one_covariance_function():
    bayesian = bl.layers.DenseFlipout(2, activation="tanh", seed=2)
    inner = random_covariance() * covariances.Matern12("trainable_log_normal", seed=4)
    covariance = covariances.DeepKernel(bayesian, inner)
    with covariances.one_draw(covariance):
        x = np.concatenate([X, Z])
        whole = array(covariance(x))
        parts = array(covariance(X, Z)), array(covariance.diagonal(x))
        phi = covariance.random_features(3, seed=1)
        np.testing.assert_allclose(array(phi(x))[:6], array(phi(X)), atol=1e-5)
    np.testing.assert_allclose(whole[:6, 6:], parts[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.diag(whole), parts[1], rtol=1e-5)
    outside = array(covariance(x))
    assert np.all(np.abs(whole - outside) > 0.0)
    # Even outside of a block one call is for one network.
    cross = array(covariances.DeepKernel(bayesian, covariances.Matern12())(X, X))
    np.testing.assert_allclose(np.diag(cross), 1.0, atol=2e-3)


def test_one_draw_is_seen_once_by_handlers_outside():
    covariance = random_covariance(name="k")
    with bl.tape() as tape, covariances.one_draw(covariance):
        diagonal = array(covariance.diagonal(X))
        np.testing.assert_array_equal(array(covariance.diagonal(X)), diagonal)
    assert list(tape) == ["k/amplitude", "k/lengthscale"]
    np.testing.assert_allclose(array(tape["k/amplitude"]) ** 2, diagonal[0], rtol=1e-5)
    with bl.condition({"k/amplitude": 2.0}), covariances.one_draw(covariance):
        np.testing.assert_allclose(array(covariance.diagonal(X)), 4.0, rtol=1e-6)


def test_one_draw_of_what_is_not_random_is_nothing():
    covariance = built(covariances.Matern12())
    with covariances.one_draw(covariance):
        assert not is_tracing()
    with covariances.one_draw(built(random_covariance())):
        assert is_tracing()


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, [1.0, -2.0], None, "no"])
def test_a_hyperparameter_that_is_not_positive_is_refused(value):
    with pytest.raises(ValueError, match="Received"):
        covariances.Matern12(value)


@pytest.mark.parametrize(
    "posterior", ["trainable_normal", bl.initializers.TrainableDeterministic()]
)
def test_a_distribution_over_other_than_positive_numbers_is_refused(posterior):
    with pytest.raises(ValueError, match=r"positive, and so needs.*Received: ampl"):
        built(covariances.Matern12(posterior))


def test_a_point_mass_with_a_parameterization_is_accepted():
    point = bl.initializers.TrainableDeterministic("ones", loc_constraint="exp")
    covariance = built(covariances.Constant(point))
    np.testing.assert_allclose(array(covariance.diagonal(X)), np.e**2, rtol=1e-5)
    assert covariance.losses == []


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"`lengthscale` has shape \(3,\).*\(2,\)"):
        built(covariances.Matern12(lengthscale=[1.0, 2.0]))
    with pytest.raises(ValueError, match=r"`amplitude` has shape \(\).*\(2,\)"):
        built(covariances.Matern12([1.0, 2.0]))
    covariance = built(covariances.Matern12([1.0, 2.0], batch_shape=2))
    np.testing.assert_allclose(array(covariance.diagonal(X))[:, 0], [1.0, 4.0])


def test_unknown_names_in_fixed_are_refused():
    with pytest.raises(ValueError, match=r"amplitude.*Received: fixed=\('scale',\)"):
        built(covariances.Matern12(fixed="scale"))


def test_a_penalty_that_is_no_prior_is_refused():
    with pytest.raises(ValueError, match="needs a prior"):
        built(covariances.Matern12(amplitude_regularizer="l2"))
