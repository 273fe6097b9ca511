"""Normal priors with a standard deviation that is found, or trained."""

import keras
import numpy as np
import pytest
from scipy import optimize, stats

import bayesian_layers as bl
from bayesian_layers import distributions, regularizers
from tests.initializers.checks import dense, dense_model, gradients
from tests.initializers.table import ROWS as POSTERIORS
from tests.initializers.table import randomized, softplus
from tests.layers.weights.table import array

LOC = np.array([[0.3, -0.8], [1.2, 0.1], [-0.4, 0.6]])
SCALE = np.array([[0.4, 0.2], [0.7, 0.3], [0.5, 0.9]])


def weight():
    return bl.RandomVariable(distributions.Normal(LOC, SCALE))


def divergence(stddev, mean=0.0):
    ratio, distance = SCALE / stddev, (LOC - mean) / stddev
    return np.sum(0.5 * (ratio**2 + distance**2 - 1.0) - np.log(ratio))


def test_the_empirical_bayes_prior_is_the_best_one():
    a, b, mean = 1.7, 0.4, 0.2
    hyperprior = stats.invgamma(a, scale=b)

    def penalty(log_stddev):
        stddev = np.exp(log_stddev)
        return divergence(stddev, mean) - hyperprior.logpdf(stddev**2)

    best = optimize.minimize_scalar(
        penalty, bounds=(-5.0, 5.0), options={"xatol": 1e-8}
    )
    regularizer = regularizers.NormalEmpiricalBayesKLDivergence(mean, a, b)
    np.testing.assert_allclose(array(regularizer(weight())), best.fun, rtol=1e-5)
    prior = regularizer.prior_of(weight())
    np.testing.assert_allclose(array(prior.scale), np.exp(best.x), rtol=1e-5)
    np.testing.assert_allclose(array(prior.loc), mean, rtol=1e-6)
    assert regularizer.prior is None


def test_the_trained_standard_deviation_belongs_to_the_layer():
    regularizer = regularizers.TrainableNormalKLDivergenceStddev()
    layer = dense(kernel_regularizer=regularizer)
    variable = layer.trainable_weights[2]
    assert variable.name == "kernel_prior_stddev"
    assert tuple(variable.shape) == ()
    np.testing.assert_allclose(softplus(array(variable)), 1.0, rtol=1e-6)
    variable.assign(2.0)
    bound = layer.random_weights["kernel"].regularizer
    np.testing.assert_allclose(array(bound.prior.scale), softplus(2.0), rtol=1e-6)
    # What the user holds has no variable, and the standard deviation of the start.
    np.testing.assert_allclose(array(regularizer.prior.scale), 1.0, rtol=1e-6)


def test_the_gradient_leads_the_trained_standard_deviation_to_its_optimum():
    """s**2 = mean of loc**2 + scale**2, where the divergence is smallest."""
    model = dense_model(kernel_regularizer="trainable_normal_kl_divergence_stddev")
    layer = model.layers[-1]
    for variable, value in zip(
        layer.random_weights["kernel"].variables.values(),
        (LOC, np.log(np.expm1(SCALE))),
        strict=True,
    ):
        variable.assign(value)
    stddev = layer.trainable_weights[2]
    best = np.sqrt(np.mean(LOC**2 + SCALE**2))
    slopes = []
    for value in (0.9 * best, best, 1.1 * best):
        stddev.assign(np.log(np.expm1(value)))
        slopes.append(gradients(model)["kernel_prior_stddev"])
    assert slopes[0] < -0.1 and slopes[2] > 0.1
    np.testing.assert_allclose(slopes[1], 0.0, atol=1e-5)


def test_one_instance_given_to_several_weights_makes_a_variable_for_each():
    regularizer = regularizers.TrainableNormalKLDivergenceStddev()
    both = {
        "kernel_regularizer": regularizer,
        "bias_regularizer": regularizer,
        "bias_initializer": "trainable_normal",
    }
    layers = [dense(**both) for _ in range(2)]
    variables = [
        weight
        for layer in layers
        for weight in layer.trainable_weights
        if weight.name.endswith("_prior_stddev")
    ]
    assert len({id(variable) for variable in variables}) == 4
    assert [variable.name for variable in variables[:2]] == [
        "kernel_prior_stddev",
        "bias_prior_stddev",
    ]
    before = array(layers[1].losses[0])
    variables[0].assign(3.0)
    np.testing.assert_array_equal(array(layers[1].losses[0]), before)
    assert array(layers[0].losses[0]) != before


@pytest.mark.parametrize(
    ("constraint", "stored", "expected"),
    [("exp", -1.0, np.exp(-1.0)), (None, 0.4, 0.4), ("softplus", 0.0, np.log(2.0))],
)
def test_the_trained_standard_deviation_has_a_parameterization(
    constraint, stored, expected
):
    regularizer = regularizers.TrainableNormalKLDivergenceStddev(
        stddev_initializer=keras.initializers.Constant(stored),
        stddev_constraint=constraint,
    )
    layer = dense(kernel_regularizer=regularizer)
    bound = layer.random_weights["kernel"].regularizer
    np.testing.assert_allclose(array(bound.prior.scale), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "TrainableMultivariateNormal",
        "TrainableMultivariateNormalRows",
        "TrainableLowRankNormal",
        "TrainableKroneckerNormal",
    ],
)
@pytest.mark.parametrize("tied", [False, True])
def test_the_divergence_of_dependent_weights_is_that_of_the_matrices(name, tied):
    """(trace(S) / s**2 + |m|**2 / s**2 - n + n log(s**2) - log det S) / 2."""
    kernel, numbers = randomized(POSTERIORS[name])
    mean, covariance = POSTERIORS[name].moments(numbers)
    variance = 0.7**2
    penalty = regularizers.NormalKLDivergence(0.2, 0.7)
    distance = mean - 0.2
    if tied:
        penalty = regularizers.NormalKLDivergenceWithTiedMean(0.7)
        distance = np.zeros(6)
    expected = 0.5 * (
        np.trace(covariance) / variance
        + distance @ distance / variance
        - 6
        + 6 * np.log(variance)
        - np.linalg.slogdet(covariance)[1]
    )
    value = penalty(bl.RandomVariable(kernel.posterior))
    np.testing.assert_allclose(array(value), expected, rtol=1e-4)
