"""A user's callable as initializer."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers import distributions, initializers
from tests.initializers.checks import INPUTS, assert_saves_and_loads, dense, dense_model
from tests.layers.weights.table import array

register = keras.saving.register_keras_serializable("tests")


@register
def random_variable(shape, dtype=None):
    return bl.Normal(ops.ones(shape, dtype), 0.5, name="w")


@register
def distribution(shape, dtype=None):
    return distributions.Normal(ops.ones(shape, dtype), 0.5)


@register
def independent(shape, dtype=None):
    return distributions.Independent(distribution(shape, dtype), len(shape))


@register
def drawn(shape, dtype=None):
    return distributions.Normal(np.random.normal(size=shape), 0.5)


@register
class Callable(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None):
        return distribution(shape, dtype)


@register
def cauchy(shape, dtype=None):
    return distributions.Cauchy(ops.ones(shape, dtype), 0.5)


FORMS = {
    "random variable": random_variable,
    "distribution": distribution,
    "made from another": independent,
    "initializer of a user": Callable(),
    "partial function": functools.partial(distribution),
}
every_form = pytest.mark.parametrize("form", FORMS)


@every_form
def test_the_weight_has_the_distribution_that_the_function_returns(form):
    layer = dense(kernel_initializer=FORMS[form])
    weight = layer.random_weights["kernel"].posterior
    expected = FORMS[form]((3, 2))
    if form == "random variable":
        expected = expected.distribution
    assert type(weight) is type(expected)
    np.testing.assert_array_equal(
        array(weight.sample(3, seed=1)), array(expected.sample(3, seed=1))
    )


@every_form
def test_it_does_not_train_and_its_mean_is_the_weight(form):
    layer = dense(kernel_initializer=FORMS[form])
    assert [weight.name for weight in layer.trainable_weights] == ["bias"]
    assert layer.losses == []
    np.testing.assert_array_equal(array(layer.kernel), np.ones((3, 2)))


def test_the_location_is_the_mode_where_there_is_no_mean():
    layer = dense(kernel_initializer=cauchy)
    np.testing.assert_array_equal(array(layer.kernel), np.ones((3, 2)))


def test_a_function_that_draws_gives_numbers_of_one_call(tmp_path):
    model = dense_model(kernel_initializer=drawn)
    layer = model.layers[-1]
    loc = array(layer.random_weights["kernel"].posterior.loc)
    np.testing.assert_array_equal(loc, array(layer.kernel))
    loaded = assert_saves_and_loads(model, tmp_path / "model.keras").layers[-1]
    weight = loaded.random_weights["kernel"]
    np.testing.assert_array_equal(array(weight.posterior.loc), loc)


def test_the_function_may_be_called_while_keras_traces():
    """A model that is built by `fit` has no numbers while its layers are built."""

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = bl.layers.DenseReparameterization(
                2, kernel_initializer=random_variable, seed=1, kl_scale=1.0
            )

        def call(self, inputs):
            return self.dense(inputs)

    model = Model()
    model.compile("sgd", "mse")
    model.fit(INPUTS, np.zeros((4, 2), "float32"), verbose=0)
    assert np.all(np.isfinite(array(model(INPUTS))))
    weight = model.dense.random_weights["kernel"].posterior
    np.testing.assert_array_equal(array(weight.loc), np.ones((3, 2)))
    np.testing.assert_array_equal(array(weight.scale), np.full((), 0.5))


def test_handlers_see_the_weight_only():
    layer = bl.layers.DenseReparameterization(
        2, kernel_initializer=random_variable, name="layer"
    )
    with bl.tape() as tape:
        layer(INPUTS)
    assert list(tape) == ["layer/kernel"]


@pytest.mark.parametrize(
    "function", [ops.ones, lambda shape, dtype=None: np.ones(shape)]
)
def test_a_function_that_returns_a_tensor_is_a_plain_initializer(function):
    layer = dense(kernel_initializer=function, kernel_regularizer=None)
    assert layer.random_weights == {}
    assert layer.losses == []
    np.testing.assert_array_equal(array(layer.kernel), np.ones((3, 2)))


def test_initializers_of_keras_are_not_called_to_see_what_they_return():
    # With a generator as seed the second call gives other numbers than the first.
    first, second = (
        keras.initializers.GlorotUniform(keras.random.SeedGenerator(3))
        for _ in range(2)
    )
    layer = dense(kernel_initializer=first, kernel_regularizer=None)
    np.testing.assert_array_equal(array(layer.kernel), array(second((3, 2))))


def test_a_distribution_of_another_shape_is_an_error():
    def scalar(shape, dtype=None):
        return distributions.Normal(0.0, 1.0)

    with pytest.raises(ValueError, match=r"shape \(3, 2\).*batch_shape=\(\)"):
        dense(kernel_initializer=scalar)


def test_a_parameter_may_be_given_by_a_function_that_returns_a_distribution():
    posterior = initializers.TrainableNormal(mean_initializer=distribution)
    weight = dense(kernel_initializer=posterior).random_weights["kernel"]
    (inner,) = weight.nested.values()
    np.testing.assert_array_equal(array(inner.posterior.scale), np.full((), 0.5))
