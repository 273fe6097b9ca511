"""Sums, products, stacks; covariances by name; saving all of them."""

import json

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers import covariances
from tests.covariances.table import ROWS, UsersLayer, X, Z, array, function, inputs_of

SAVED = {
    **{name: row.make for name, row in ROWS.items()},
    "posterior": lambda: covariances.Matern32(
        "trainable_log_normal", ard=True, batch_shape=(2,), active_dims=slice(0, 3, 2)
    ),
    "prior": lambda: covariances.Matern32(
        0.7,
        amplitude_regularizer=bl.regularizers.KLDivergence(
            bl.distributions.Gamma(2.0, 3.0)
        ),
        fixed=("lengthscale",),
    ),
    "nested": lambda: (
        (covariances.Linear("trainable_log_normal") + 2.0 * covariances.Matern12())
        * covariances.Periodic(active_dims=[1])
    ),
    "layer": lambda: covariances.get(UsersLayer()),
}


@keras.saving.register_keras_serializable("tests.covariances")
class Holder(keras.Layer):
    """A layer with a covariance in it."""

    def __init__(self, covariance, **kwargs):
        super().__init__(**kwargs)
        self.covariance = covariances.get(covariance)

    def build(self, input_shape):
        if not self.covariance.built:  # It is, if it was loaded.
            self.covariance.build(input_shape)

    def call(self, inputs):
        return self.covariance.diagonal(inputs)

    def get_config(self):
        covariance = keras.saving.serialize_keras_object(self.covariance)
        return {**super().get_config(), "covariance": covariance}


@pytest.mark.parametrize("name", SAVED)
def test_a_covariance_in_a_saved_model_is_the_same(name, tmp_path):
    x, z = inputs_of(name)
    covariance = SAVED[name]()
    model = keras.Sequential([keras.Input(x.shape[1:]), Holder(covariance)])
    for variable in covariance.trainable_variables:
        variable.assign(variable + 0.1)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.models.load_model(path).layers[0].covariance
    assert type(loaded) is type(covariance)
    assert len(loaded.trainable_variables) == len(covariance.trainable_variables)
    for a, b in zip(covariance.variables, loaded.variables, strict=True):
        assert a.shape == b.shape
    with covariances.one_draw(covariance), covariances.one_draw(loaded):
        sources = [
            [w for part in c._flatten_layers() for w in _random_weights(part)]
            for c in (covariance, loaded)
        ]
        values = {w: w.posterior.mean() for pair in sources for w in pair}
        with bl.condition(values):
            np.testing.assert_array_equal(array(covariance(x, z)), array(loaded(x, z)))
    np.testing.assert_allclose(
        array(sum(loaded.losses)) if loaded.losses else 0.0,
        array(sum(covariance.losses)) if covariance.losses else 0.0,
        rtol=1e-6,
    )
    # Configs of built layers have shapes in them: lists, once they were in a file.
    assert json.dumps(loaded.get_config()) == json.dumps(covariance.get_config())


def _random_weights(layer):
    return getattr(layer, "random_weights", {}).values()


def test_sums_and_products_are_flat():
    a, b, c = (covariances.Constant(v) for v in (1.0, 2.0, 3.0))
    total = a + b + c
    assert type(total) is covariances.Sum
    assert list(total.covariances) == [a, b, c]
    product = 2.0 * a * b
    assert type(product) is covariances.Product
    assert len(product.covariances) == 3
    np.testing.assert_allclose(array(product(X))[0, 0], 8.0, rtol=1e-6)
    assert [v.name for v in product.trainable_variables] == ["amplitude"] * 2
    assert list(product.hyperparameters()) == [f"{i}/amplitude" for i in range(3)]


def test_a_covariance_that_stands_twice_has_its_weights_once():
    a = covariances.Constant(2.0)
    total = a + a
    np.testing.assert_allclose(array(total(X))[0, 0], 8.0, rtol=1e-6)
    assert len(total.trainable_variables) == 1


def test_functions_and_numbers_compose():
    total = covariances.Constant(2.0) + function
    expected = 4.0 + np.square(X @ Z.T + 1.0)
    np.testing.assert_allclose(array(total(X, Z)), expected, rtol=1e-5)
    np.testing.assert_allclose(
        array((np.float32(3.0) * total)(X, Z)), 3 * expected, rtol=1e-5
    )


@pytest.mark.parametrize("number", [0.0, -1.0, "x", None])
def test_what_is_no_factor_is_refused(number):
    with pytest.raises(TypeError):
        number * covariances.Constant()
    with pytest.raises(TypeError):
        covariances.Constant() + (1.0 if number == "x" else number)


def test_a_stack_takes_inputs_of_its_own_for_each_part():
    stack = covariances.Stacked([covariances.Linear(), covariances.Constant(2.0)])
    both = np.stack([X, X + 1.0])
    result = array(stack(both, Z))
    np.testing.assert_allclose(result[0], X @ Z.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result[1], np.full((6, 4), 4.0), rtol=1e-6)
    assert ops.shape(stack.diagonal(both)) == (2, 6)
    assert stack.batch_shape == (2,)
    with pytest.raises(ValueError, match=r"2 units. Received: shape \(3, 6, 3\)"):
        stack(np.stack([X, X, X]))
    with pytest.raises(ValueError, match="without batch shapes"):
        covariances.Stacked([covariances.Linear(batch_shape=2)])


def test_compositions_refuse_what_belongs_to_their_parts():
    with pytest.raises(TypeError, match="batch_shape"):
        covariances.Sum([covariances.Linear()], batch_shape=(2,))
    with pytest.raises(TypeError, match="fixed"):
        covariances.DeepKernel(keras.layers.Dense(1), "linear", fixed="amplitude")
    with pytest.raises(ValueError, match="at least one"):
        covariances.Sum([])


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.hyperparameters])
def test_every_kernel_has_a_name(name):
    cls = getattr(covariances, name)
    assert type(covariances.get(name)) is cls
    snake = bl.registry.snake_case(name)
    assert type(covariances.get(snake)) is cls
    config = keras.saving.serialize_keras_object(covariances.get(snake))
    assert type(covariances.get(config)) is cls


def test_other_identifiers():
    covariance = covariances.Linear()
    assert covariances.get(covariance) is covariance
    assert type(covariances.get(["linear", covariance])) is covariances.Stacked
    assert type(covariances.get(function)) is covariances.FromFunction
    for wrong in ("rbf", None, 3.0):
        with pytest.raises(ValueError, match="exponentiated_quadratic"):
            covariances.get(wrong)


def test_a_network_trains_and_is_built_with_its_kernel():
    network = keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)])
    covariance = covariances.DeepKernel(network, covariances.Matern52(ard=True))
    assert ops.shape(covariance(np.stack([X, X]), Z)) == (2, 6, 4)
    assert len(covariance.trainable_variables) == 6
    assert ops.shape(covariance.hyperparameters()["lengthscale"]) == (2,)
    with pytest.raises(ValueError, match="Keras layer or model"):
        covariances.DeepKernel(function, "linear")
    with pytest.raises(ValueError, match="one row of features"):
        covariances.DeepKernel(keras.layers.Reshape((3, 1)), "linear").build((None, 3))
