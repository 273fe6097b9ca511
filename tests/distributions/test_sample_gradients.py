"""Gradients of samples: right where a family has them, refused where it has none."""

import numpy as np
import pytest
from keras import ops

from bayesian_layers import distributions
from bayesian_layers.distributions import transforms
from tests.differentiation import differentiate, finite_difference, values_and_grad
from tests.distributions.table import ROWS
from tests.statistics import assert_mean

COUNT = 4_000
# The axes of one parameter, where they are not those of the event.
RANKS = {
    "scale_tril": 2,
    "row_tril": 2,
    "column_tril": 2,
    "cov_perturb_factor": 2,
    "covariance_matrix": 3,
}

DIFFERENTIABLE = {n: r for n, r in ROWS.items() if r.reparameterized}
# Their samples are made of several noises: no function of one uniform number.
COMPOUND = [
    "Gamma",
    "InverseGamma",
    "Beta",
    "StudentT",
    "Compound",
]
INVERTED = [
    name
    for name, row in DIFFERENTIABLE.items()
    if not row.event_shape
    and row.continuous
    # Of heavy tails it would take a hundred thousand draws; they are the same steps.
    and name not in [*COMPOUND, "Compound with heavy tails"]
]
# Reshaped has no batch axes; its samples are those of a vector.
VECTORS = [n for n, r in DIFFERENTIABLE.items() if r.event_shape and n != "Reshaped"]


def copies(row, count):
    """The parameters, once for each draw."""
    shape = (count, *row.batch_shape)
    return {
        name: np.broadcast_to(
            x,
            (*shape, *(x.shape[-RANKS[name] :] if name in RANKS else row.event_shape)),
        )
        for name, x in row.parameters.items()
    }


def sample_and_gradients(row, count, function=lambda x: x):
    """`function` of draws, and its gradient with respect to the parameters of each."""
    parameters = copies(row, count)

    def draw(*arrays):
        distribution = row.make(**dict(zip(parameters, arrays, strict=True)))
        return function(distribution.sample(seed=3))

    values, gradients = values_and_grad(draw, *parameters.values())
    return values.astype("float64"), dict(zip(parameters, gradients, strict=True))


def implicit_gradient(row, name, x):
    """-dF/dparameter / p at x: how the quantile at a fixed probability moves."""
    step = 1e-5 * np.maximum(1.0, np.abs(row.parameters[name]))

    def cdf(shift):
        moved = {**row.parameters, name: row.parameters[name] + shift}
        return row.reference(**moved).cdf(x)

    slope = (cdf(step) - cdf(-step)) / (2.0 * step)
    return -slope / np.exp(row.oracle().log_prob(x))


@pytest.mark.parametrize("name", INVERTED)
def test_a_sample_moves_with_the_parameters_as_its_quantile_does(name):
    row = ROWS[name]
    x, gradients = sample_and_gradients(row, 100)
    for parameter, gradient in gradients.items():
        expected = implicit_gradient(row, parameter, x)
        np.testing.assert_allclose(
            gradient, expected, rtol=2e-3, atol=2e-3, err_msg=parameter
        )


@pytest.mark.parametrize("name", COMPOUND)
def test_a_sample_of_several_noises_moves_as_its_quantile_does_on_average(name):
    """E[dx/dparameter | x] is the implicit gradient, whatever the noises are."""
    row = ROWS[name]
    x, gradients = sample_and_gradients(row, COUNT)
    for parameter, gradient in gradients.items():
        expected = implicit_gradient(row, parameter, x)
        size = np.abs(expected).mean(axis=0)
        error = (gradient - expected) / size
        assert_mean(error, 0.0, detect=0.4)
        assert_mean(error * (row.oracle().cdf(x) - 0.5), 0.0, detect=0.4)


@pytest.mark.parametrize("name", VECTORS)
def test_gradients_of_vectors_have_the_mean_that_their_moments_ask_for(name):
    """E d(w x^2)/dparameter = d(w (variance + mean^2))/dparameter."""
    row = ROWS[name]
    weights = np.random.default_rng(0).uniform(0.5, 1.5, size=row.event_shape)
    tensor = ops.convert_to_tensor(weights, "float32")
    _, gradients = sample_and_gradients(
        row, COUNT, lambda sample: tensor * ops.square(sample)
    )
    batch = {n: x[0] for n, x in copies(row, 1).items()}
    for parameter, gradient in gradients.items():

        def expectation(x, parameter=parameter):
            reference = row.reference(**{**batch, parameter: x})
            second_moment = reference.variance() + np.square(reference.mean())
            return np.sum(weights * second_moment)

        expected = finite_difference(expectation, batch[parameter])
        assert_mean(gradient, expected, detect=0.25 * gradient.std(axis=0))


def poisson(rate):
    return distributions.Poisson(rate)


# Integers have no gradients on any backend.
OF_INTEGERS = {"Bernoulli", "Compound of classes", "Categorical", "OneHotCategorical"}
UNDIFFERENTIABLE = {
    **{
        name: row.make
        for name, row in ROWS.items()
        if not row.reparameterized and name not in OF_INTEGERS
    },
    "Independent of Poisson": lambda rate: distributions.Independent(poisson(rate), 1),
    "Transformed of Poisson": lambda rate: distributions.Transformed(
        poisson(rate), transforms.Affine(1.0, 2.0)
    ),
    "Quantized of Gamma": lambda rate: distributions.Quantized(
        distributions.Gamma(2.0, rate), 0, 9
    ),
    "MixtureSameFamily of Poisson": lambda rate: distributions.MixtureSameFamily(
        distributions.Categorical(probs=[0.5, 0.25, 0.25]), poisson(rate)
    ),
}


@pytest.mark.parametrize("name", UNDIFFERENTIABLE)
def test_differentiating_a_sample_without_gradient_raises(name):
    parameters = {"rate": np.array([[1.0, 2.0, 3.0]])}
    if name in ROWS:
        parameters = ROWS[name].parameters

    def loss(moved, wrap):
        arguments = {n: x.astype("float32") for n, x in parameters.items()}
        distribution = UNDIFFERENTIABLE[name](**{**arguments, **moved})
        return ops.sum(wrap(distribution.sample(2, seed=0)))

    for parameter, x in parameters.items():

        def differentiate_sample(wrap, parameter=parameter, x=x):
            differentiate(lambda t: loss({parameter: t}, wrap) + ops.sum(t), x)

        with pytest.raises(ValueError, match="has no gradient .* `log_prob` instead"):
            differentiate_sample(lambda sample: sample)
        # A sample that is a constant, or of no consequence, is in nobody's way.
        differentiate_sample(ops.stop_gradient)
        differentiate_sample(ops.zeros_like)
