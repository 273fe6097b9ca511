"""What every posterior has to do, by the table."""

import inspect
import json

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers import initializers
from tests.differentiation import run
from tests.initializers.checks import (
    assert_fit_trains_every_number,
    assert_found_by_both_names,
    assert_found_in_every_form,
    assert_saves_and_loads,
    config,
    dense,
    dense_model,
)
from tests.initializers.table import ROWS, SHAPE, SIZE, randomized
from tests.layers.weights.table import array
from tests.statistics import assert_distributed_as, assert_mean

DRAWS = 20_000

every_posterior = pytest.mark.parametrize("name", ROWS)
dependent = pytest.mark.parametrize("name", [n for n, r in ROWS.items() if r.moments])
independent = pytest.mark.parametrize(
    "name", [n for n, r in ROWS.items() if r.reference]
)


def test_every_public_posterior_is_in_the_table():
    public = {getattr(initializers, name) for name in initializers.__all__}
    posteriors = {
        cls.__name__
        for cls in public
        if inspect.isclass(cls) and issubclass(cls, initializers.Posterior)
    }
    assert posteriors - {"Posterior"} == set(ROWS)


@every_posterior
def test_it_is_found_by_its_names(name):
    assert_found_by_both_names(initializers.get, getattr(initializers, name))


@every_posterior
def test_it_is_found_by_config_and_as_it_is(name):
    posterior = ROWS[name].make(**{_argument(name, "initializer"): "ones"})
    assert_found_in_every_form(initializers.get, posterior)
    assert '"Ones"' in json.dumps(config(posterior))


def _argument(name, field):
    """The constructor's argument for some field of the location."""
    prefix = next(iter(getattr(initializers, name).arguments))
    return f"{prefix}_{field}"


@every_posterior
def test_config_has_every_argument_of_the_constructor(name):
    cls = getattr(initializers, name)
    assert set(cls().get_config()) == set(inspect.signature(cls).parameters)


@every_posterior
def test_its_variables_are_weights_of_the_layer(name):
    row, layer = ROWS[name], dense(kernel_initializer=ROWS[name].make())
    shapes = {weight.name: tuple(weight.shape) for weight in layer.trainable_weights}
    assert shapes == {**row.variables, "bias": (2,)}
    assert list(shapes) == [*row.variables, "bias"]
    assert layer.non_trainable_weights == []
    for weight in layer.weights:
        if weight.name in row.default:
            np.testing.assert_allclose(
                array(weight), row.default[weight.name], rtol=1e-6
            )


@every_posterior
def test_its_location_starts_as_the_layer_would_start_the_weight(name):
    posterior = ROWS[name].make()
    layer = dense(kernel_initializer=posterior, bias_initializer=posterior)
    # Glorot's limit for a kernel of shape [3, 2]; zeros for a bias.
    kernel = array(layer.kernel)
    assert 0.0 < np.abs(kernel).max() <= np.sqrt(6.0 / 5.0)
    assert len(np.unique(kernel)) == SIZE
    np.testing.assert_array_equal(array(layer.bias), np.zeros(2))


@every_posterior
def test_its_location_starts_as_the_user_says(name):
    posterior = ROWS[name].make(**{_argument(name, "initializer"): "ones"})
    layer = dense(kernel_initializer=posterior)
    np.testing.assert_array_equal(array(layer.kernel), np.ones(SHAPE))
    # A layer of Keras starts there, too.
    np.testing.assert_array_equal(array(posterior(SHAPE)), np.ones(SHAPE))


def test_a_location_may_start_at_an_array_or_with_a_seed_of_the_user():
    numbers = np.arange(6.0).reshape(SHAPE)
    layer = dense(kernel_initializer=initializers.TrainableNormal(numbers))
    np.testing.assert_array_equal(array(layer.kernel), numbers)
    seeded = keras.initializers.GlorotUniform(seed=3)
    for _ in range(2):
        layer = dense(kernel_initializer=initializers.TrainableNormal(seeded))
        np.testing.assert_array_equal(array(layer.kernel), array(seeded(SHAPE)))


@every_posterior
def test_gradients_reach_every_number_of_it_in_fit(name):
    assert_fit_trains_every_number(dense_model(kernel_initializer=ROWS[name].make()))


@every_posterior
def test_a_file_keeps_it(name, tmp_path):
    model = dense_model(kernel_initializer=ROWS[name].make())
    loaded = assert_saves_and_loads(model, tmp_path / "model.keras")
    old, new = (m.layers[-1].random_weights["kernel"] for m in (model, loaded))
    assert type(old.posterior) is type(new.posterior)
    np.testing.assert_array_equal(
        *run(lambda: [w.posterior.sample(seed=1) for w in (old, new)])
    )


@independent
def test_draws_have_its_distribution(name):
    """Of 20,000 draws the Kolmogorov-Smirnov test sees a distance of 4%.

    That is an error of 0.1 standard deviations in the location of a normal
    distribution, or of 17% in its scale. False failures: 1e-7, see `statistics`.
    """
    weight, numbers = randomized(ROWS[name])
    reference = ROWS[name].reference(numbers)
    samples = run(lambda: weight.posterior.sample(DRAWS, seed=1))
    assert samples.shape == (DRAWS, *SHAPE)
    assert_distributed_as(samples, reference.cdf, detect=0.04)


@dependent
def test_draws_have_its_mean_and_covariance(name):
    """20,000 draws show errors of 0.1 standard deviations, and of 0.2 in correlations.

    The radial distribution has the heaviest tails. False failures: 1e-7, see
    `statistics`.
    """
    weight, numbers = randomized(ROWS[name])
    mean, covariance = ROWS[name].moments(numbers)
    samples = run(lambda: weight.posterior.sample(DRAWS, seed=1))
    samples = samples.reshape(DRAWS, SIZE)
    if name == "TrainableDeterministic":
        np.testing.assert_array_equal(samples, np.tile(mean, (DRAWS, 1)))
        return
    stddev = np.sqrt(np.diag(covariance))
    assert_mean(samples, mean, detect=0.1 * stddev)
    centred = samples - mean
    products = centred[:, :, None] * centred[:, None, :]
    scale = stddev[:, None] * stddev
    assert_mean(products, covariance, detect=0.2 * scale)


@every_posterior
def test_its_mean_is_that_of_the_reference_or_missing(name):
    row = ROWS[name]
    weight, numbers = randomized(row)
    if not row.has_mean:
        with pytest.raises(NotImplementedError, match="mean"):
            weight.posterior.mean()
        return
    if row.moments is None:
        expected = np.broadcast_to(row.reference(numbers).mean(), SHAPE)
    else:
        expected = row.moments(numbers)[0].reshape(SHAPE)
    np.testing.assert_allclose(array(weight.posterior.mean()), expected, rtol=1e-5)


@every_posterior
def test_one_instance_given_to_two_layers_shares_nothing(name):
    # An initializer of Keras draws its seed once: that must not be shared either.
    posterior = ROWS[name].make(**{_argument(name, "initializer"): "glorot_uniform"})
    first, second = (
        dense(kernel_initializer=posterior).random_weights["kernel"] for _ in range(2)
    )
    assert not np.any(array(first.location) == array(second.location))
    before = run(lambda: second.posterior.sample(seed=1))
    for variable in first.variables.values():
        variable.assign(ops.zeros(variable.shape))
    after = run(lambda: second.posterior.sample(seed=1))
    np.testing.assert_array_equal(after, before)


@every_posterior
def test_kernel_and_bias_of_one_layer_have_their_own(name):
    posterior = ROWS[name].make()
    layer = dense(kernel_initializer=posterior, bias_initializer=posterior)
    names = [weight.name for weight in layer.trainable_weights]
    of_bias = [key.replace("kernel", "bias") for key in ROWS[name].variables]
    assert names == [*ROWS[name].variables, *of_bias]
    assert layer.random_weights["bias"].posterior.shape() == (2,)


@every_posterior
def test_a_constraint_on_the_location_is_read_through(name):
    posterior = ROWS[name].make(**{_argument(name, "constraint"): "exp"})
    layer = dense(kernel_initializer=posterior)
    weight = layer.random_weights["kernel"]
    read = array(weight._value(weight.initializer.location))
    np.testing.assert_allclose(read, np.exp(array(layer.kernel)), rtol=1e-6)


@every_posterior
def test_a_layer_of_keras_starts_at_its_location(name):
    layer = keras.layers.Dense(2, kernel_initializer=ROWS[name].make())
    layer.build((None, 3))
    assert len(layer.weights) == 2
    assert np.abs(array(layer.kernel)).max() <= np.sqrt(6.0 / 5.0)
    assert bl.initializers.get(layer.kernel_initializer) is layer.kernel_initializer
