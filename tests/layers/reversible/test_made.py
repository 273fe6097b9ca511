"""MADE: what depends on what, by derivatives, before and after training."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.differentiation import jacobian
from tests.layers.reversible.table import array

SIZE = 5
X = np.random.default_rng(0).normal(size=(16, SIZE)).astype("float32")
ORDERS = {
    "left-to-right": range(SIZE),
    "right-to-left": range(SIZE - 1, -1, -1),
    "random": None,
    "given": [2, 0, 4, 1, 3],
}


def made(order, **kwargs):
    order = ORDERS["given"] if order == "given" else order
    return bl.layers.MADE(hidden_dims=[16, 12], order=order, seed=3, **kwargs)


def dependence(network, x):
    """Whether output i depends on input j, in the order of the network."""
    matrix = jacobian(lambda x: network(x[None])[0], x)
    order = network.element_order
    return (matrix != 0.0)[np.ix_(order, order)]


@pytest.mark.parametrize("order", ORDERS)
def test_the_jacobian_is_strictly_triangular_before_and_after_training(order):
    network = made(order, activation="tanh")
    model = keras.Sequential([keras.Input((SIZE,)), network])
    model.compile(keras.optimizers.AdamW(1e-2), "mse")
    for _ in range(2):
        depends = dependence(network, X[0])
        assert not np.any(np.triu(depends))
        # Nothing is cut off that need not be.
        assert np.all(depends[np.tril_indices(SIZE, -1)])
        model.fit(X, X, epochs=2, verbose=0)
    if ORDERS[order] is not None:
        assert network.element_order == list(ORDERS[order])
    assert sorted(network.element_order) == list(range(SIZE))


def test_orders_left_to_right_and_right_to_left_are_mirror_images():
    one, two = made("left-to-right"), made("right-to-left")
    one(X), two(X)
    weights = [array(w) for w in one.weights]
    weights[0] = weights[0][::-1]
    weights[-2], weights[-1] = weights[-2][:, ::-1], weights[-1][::-1]
    two.set_weights(weights)
    np.testing.assert_allclose(
        array(two(X[:, ::-1]))[:, ::-1], array(one(X)), rtol=1e-4
    )


def test_units_are_outputs_of_each_element():
    network = made("left-to-right", units=3, activation="tanh")
    assert array(network(X)).shape == (16, SIZE, 3)
    for unit in range(3):
        matrix = jacobian(lambda x, u=unit: network(x[None])[0, :, u], X[0])
        assert not np.any(np.triu(matrix))
    assert array(made("left-to-right")(X)).shape == X.shape


def test_all_outputs_depend_on_a_context():
    network = made("left-to-right", activation="tanh")
    context = np.random.default_rng(1).normal(size=(16, 2)).astype("float32")
    network(X, context=context)
    matrix = jacobian(
        lambda c: network(X[:1], context=c[None])[0], context[0].astype("float32")
    )
    assert np.all(np.any(matrix != 0.0, axis=1))
    with pytest.raises(ValueError, match="context of 2"):
        network(X)


def test_a_single_element_has_constants():
    network = bl.layers.MADE(hidden_dims=[4])
    outputs = array(network(X[:, :1]))
    np.testing.assert_array_equal(outputs, np.zeros((16, 1)))


def test_a_random_order_is_that_of_its_seed():
    orders = []
    for seed in (3, 3, 4):
        network = bl.layers.MADE(order="random", seed=seed)
        network(X)
        orders.append(network.element_order)
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": [0, 1]}, "permutation of the numbers from 0 to 4"),
        ({"order": "up"}, "'right-to-left'"),
        ({"hidden_dims": [0]}, "positive numbers"),
        ({"units": 0}, "positive numbers"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        bl.layers.MADE(**arguments)(X)


def test_another_number_of_elements_is_refused():
    network = made("left-to-right")
    network(X)
    with pytest.raises(ValueError, match="5 elements"):
        network(X[:, :3])
