"""What every penalty on a distribution over weights has to do, by the table."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from bayesian_layers import distributions, regularizers
from tests.differentiation import has_float64, run
from tests.initializers.checks import (
    assert_fit_trains_every_number,
    assert_found_by_both_names,
    assert_found_in_every_form,
    assert_saves_and_loads,
    dense,
    dense_model,
)
from tests.layers.weights.table import array
from tests.regularizers.table import MAKE, ROWS, quadrature
from tests.statistics import FALSE_FAILURE_RATE, MISS_RATE

DRAWS = 20_000

every_prior = pytest.mark.parametrize("name", MAKE)
every_divergence = pytest.mark.parametrize("name", ROWS)


def arguments(name):
    """The arguments of a layer with the penalty and a posterior that fits."""
    return {
        "kernel_initializer": ROWS.get(name, ROWS["KLDivergence"]).initializer,
        "kernel_regularizer": MAKE[name](),
    }


def test_every_public_prior_is_in_the_table():
    public = {getattr(regularizers, name) for name in regularizers.__all__}
    assert set(MAKE) == {cls.__name__ for cls in public if inspect.isclass(cls)}


@pytest.mark.parametrize("name", [n for n in MAKE if n != "KLDivergence"])
def test_it_is_found_by_its_names(name):
    assert_found_by_both_names(regularizers.get, getattr(regularizers, name))


@every_prior
def test_it_is_found_by_config_and_as_it_is(name):
    assert_found_in_every_form(regularizers.get, MAKE[name](scale_factor=0.5))


@every_prior
def test_config_has_every_argument_of_the_constructor(name):
    parameters = inspect.signature(getattr(regularizers, name)).parameters
    assert set(MAKE[name]().get_config()) == set(parameters)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.exact])
def test_it_is_the_divergence_by_quadrature(name):
    expected, _ = quadrature(ROWS[name])
    weight = bl.RandomVariable(ROWS[name].posterior())
    penalty = array(ROWS[name].make()(weight))
    np.testing.assert_allclose(penalty, expected, rtol=1e-5)
    assert not weight.is_drawn


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if not row.exact])
def test_it_is_an_unbiased_estimate_of_the_divergence_by_quadrature(name):
    """The sum over 20,000 weights of one distribution is that of as many draws.

    The standard error is by quadrature, too. False failures have a rate of 1e-7, and
    errors of 0.1 nats per weight are missed at a rate of 1e-3 or less.
    """
    expected, stddev = quadrature(ROWS[name])
    distribution = ROWS[name].posterior()._broadcast_batch((DRAWS,))
    regularizer = ROWS[name].make()
    penalty = run(lambda: regularizer(bl.RandomVariable(distribution, seed=1)))
    standard_error = stddev / np.sqrt(DRAWS)
    width = stats.norm.isf(FALSE_FAILURE_RATE / 2.0)
    assert (width + stats.norm.isf(MISS_RATE)) * standard_error < 0.1
    assert abs(penalty / DRAWS - expected) < width * standard_error


@every_divergence
def test_its_prior_has_the_density_of_the_reference(name):
    row = ROWS[name]
    penalty, weight = row.make(), bl.RandomVariable(row.posterior())
    x = np.linspace(0.1, 2.0, 7, dtype="float32")
    expected = row.reference[1](x.astype("float64"))
    log_prob = run(lambda x: penalty.prior_of(weight).log_prob(x), x)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4)
    if row.has_prior:
        log_prob = run(lambda x: penalty.prior.log_prob(x), x)
        np.testing.assert_allclose(log_prob, expected, rtol=1e-4)
    else:
        assert penalty.prior is None


@every_divergence
def test_of_a_point_mass_it_is_minus_the_log_density(name):
    points = np.array([0.2, 0.9, 1.7], "float32")
    weight = bl.Deterministic(points)
    log_p = ROWS[name].reference[1](points.astype("float64"))
    if name == "NormalKLDivergenceWithTiedMean":
        log_p = stats.norm(0.0, 0.8).logpdf(np.zeros(3))
    penalty = ROWS[name].make()
    value = run(lambda: penalty(weight))
    np.testing.assert_allclose(value, -log_p.sum(), rtol=1e-5)


@every_prior
def test_it_is_multiplied_by_its_scale_factor(name):
    distribution = ROWS.get(name, ROWS["KLDivergence"]).posterior()
    penalties = [MAKE[name](), MAKE[name](scale_factor=0.25)]

    def both():
        weight = bl.RandomVariable(distribution, seed=1)
        return [penalty(weight) for penalty in penalties]

    plain, scaled = run(both)
    assert plain != 0.0
    np.testing.assert_allclose(scaled, 0.25 * plain, rtol=1e-6)


@every_prior
def test_a_weight_that_is_not_random_has_no_penalty(name):
    assert MAKE[name]()(ops.ones((3, 2))) == 0.0
    with pytest.warns(UserWarning, match=r"TrainableNormal\('ones'\)"):
        layer = dense(kernel_initializer="ones", kernel_regularizer=MAKE[name]())
    assert layer.losses == []


@every_prior
def test_its_variables_are_weights_of_the_layer_and_it_counts_once(name):
    layer = dense(**arguments(name))
    variables = ROWS[name].variables if name in ROWS else ()
    names = [weight.name for weight in layer.trainable_weights]
    assert names == ["kernel", "kernel_scale", *variables, "bias"]
    assert len(layer.losses) == 1


@every_prior
def test_gradients_reach_every_number_in_fit(name):
    assert_fit_trains_every_number(dense_model(**arguments(name)))


@every_prior
def test_a_file_keeps_it(name, tmp_path):
    model = dense_model(**arguments(name))
    loaded = assert_saves_and_loads(model, tmp_path / "model.keras")
    weights = [m.layers[-1].random_weights["kernel"] for m in (model, loaded)]

    def penalties():
        return [
            weight.regularizer(bl.RandomVariable(weight.posterior, seed=1))
            for weight in weights
        ]

    np.testing.assert_allclose(*run(penalties), rtol=1e-6)


@pytest.mark.skipif(not has_float64(), reason="Keras computes in float32 here.")
@every_prior
def test_it_is_computed_in_the_dtype_of_the_layer(name):
    layer = dense(dtype="float64", **arguments(name))
    assert keras.backend.standardize_dtype(layer.losses[0].dtype) == "float64"


def test_a_prior_may_be_an_array_and_is_kept_by_its_config():
    mean, stddev = np.arange(6.0).reshape(3, 2), np.full((3, 2), 0.5)
    penalty = regularizers.NormalKLDivergence(mean, stddev)
    assert_found_in_every_form(regularizers.get, penalty)
    weight = bl.RandomVariable(distributions.Normal(mean.astype("float32"), 0.5))
    np.testing.assert_allclose(array(penalty(weight)), 0.0, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 3, 2), (4, 2), (3, 1, 2)])
def test_a_prior_that_does_not_fit_the_weight_is_an_error(shape):
    prior = distributions.Normal(np.zeros(shape), 1.0)
    layer = dense(kernel_regularizer=regularizers.KLDivergence(prior))
    with pytest.raises(ValueError, match=r"weight of shape \(3, 2\).*Received"):
        _ = layer.losses


def test_a_prior_that_broadcasts_to_the_weight_counts_for_each_element():
    layer = dense()
    expected = array(layer.losses[0])
    for shape in ((), (2,), (3, 1)):
        prior = distributions.Normal(np.zeros(shape), np.ones(shape))
        penalty = regularizers.KLDivergence(prior)
        weight = bl.RandomVariable(layer.random_weights["kernel"].posterior)
        np.testing.assert_allclose(array(penalty(weight)), expected, rtol=1e-6)


def test_independent_says_only_what_to_sum_over():
    q = distributions.Normal(np.full((3, 2), 0.3), 0.4)
    p = distributions.Normal(np.zeros((3, 2)), 1.0)
    expected = array(ops.sum(q.kl_divergence(p)))
    for prior in (distributions.Independent(p, 2), distributions.Independent(p, 1)):
        penalty = regularizers.KLDivergence(prior)
        for posterior in (q, distributions.Independent(q, 2)):
            weight = bl.RandomVariable(posterior)
            np.testing.assert_allclose(array(penalty(weight)), expected, rtol=1e-6)


@pytest.mark.parametrize("prior", [None, 1.0, "normal"])
def test_a_prior_has_to_be_a_distribution(prior):
    with pytest.raises(ValueError, match=f"Received: prior={prior!r}"):
        regularizers.KLDivergence(prior)


def test_a_function_of_the_random_variable_is_a_penalty():
    received = []

    def penalty(weight):
        received.append(weight)
        return ops.sum(ops.square(weight.mean())) + ops.sum(weight.variance())

    layer = dense(kernel_regularizer=penalty, kl_scale=0.5)
    distribution = layer.random_weights["kernel"].posterior
    expected = np.square(array(distribution.loc)) + np.square(array(distribution.scale))
    np.testing.assert_allclose(array(layer.losses[0]), 0.5 * expected.sum(), rtol=1e-5)
    assert isinstance(received[0], bl.RandomVariable)


def test_a_penalty_of_keras_on_a_random_weight_is_refused_with_the_prior():
    with pytest.raises(ValueError, match=r"stddev=\(1 / \(2 \* l \* N\)\) \*\* 0.5"):
        dense(kernel_regularizer=keras.regularizers.L2(0.1))
    with pytest.raises(ValueError, match="needs a prior, not a penalty"):
        dense(kernel_regularizer="l1")
