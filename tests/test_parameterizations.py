import keras
import numpy as np
import pytest
from keras import ops

from bayesian_layers import parameterizations
from bayesian_layers.initializers import TrainableNormal
from tests.differentiation import grad
from tests.initializers.checks import (
    assert_found_by_both_names,
    assert_found_in_every_form,
    dense,
)
from tests.layers.weights.table import array

# The function in NumPy, and from where on it has an inverse in float32.
ROWS = {
    "Exp": (np.exp, -80.0),
    "Positive": (lambda x: np.maximum(x, 1e-7), 1e-6),
    "Softplus": (lambda x: np.logaddexp(0.0, x), -80.0),
}
every = pytest.mark.parametrize("name", ROWS)


def numbers(low):
    return np.linspace(low, 40.0, 101, dtype="float32")


def test_every_public_parameterization_is_in_the_table():
    assert {*ROWS, "get"} == set(parameterizations.__all__)


@every
def test_it_is_found_in_every_form(name):
    cls = getattr(parameterizations, name)
    assert_found_by_both_names(parameterizations.get, cls)
    assert_found_in_every_form(parameterizations.get, cls())


@every
def test_it_is_the_function_and_positive_everywhere(name):
    function, _ = ROWS[name]
    x = numbers(-300.0)
    values = array(parameterizations.get(name)(x))
    expected = np.maximum(function(x.astype("float64")), np.finfo("float32").tiny)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert np.all(values > 0.0)


@every
def test_its_inverse_says_what_to_store(name):
    _, low = ROWS[name]
    x = numbers(low)
    constraint = parameterizations.get(name)
    y = constraint(ops.convert_to_tensor(x))
    np.testing.assert_allclose(
        array(constraint(constraint.reverse(y))), array(y), rtol=1e-5
    )
    back = array(constraint.reverse(y))
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-5)


@every
def test_its_log_derivative_is_that_of_the_gradient(name):
    _, low = ROWS[name]
    x = numbers(low)
    constraint = parameterizations.get(name)
    (derivative,) = grad(lambda x: ops.sum(constraint(x)), x)
    log_det = array(constraint.log_det_jacobian(ops.convert_to_tensor(x)))
    np.testing.assert_allclose(log_det, np.log(derivative), rtol=1e-4, atol=1e-6)


def test_positive_has_its_own_smallest_value():
    constraint = parameterizations.get(parameterizations.Positive(0.5))
    np.testing.assert_array_equal(array(constraint(np.array([-1.0, 2.0]))), [0.5, 2.0])
    log_det = constraint.log_det_jacobian(ops.convert_to_tensor([-1.0, 2.0]))
    np.testing.assert_array_equal(array(log_det), [-np.inf, 0.0])
    with pytest.raises(ValueError, match="Received: epsilon=0"):
        parameterizations.Positive(0)


def test_constraints_of_keras_and_callables_are_found_too():
    assert isinstance(parameterizations.get("non_neg"), keras.constraints.NonNeg)
    assert parameterizations.get(np.square) is np.square
    assert parameterizations.get(None) is None


@pytest.mark.parametrize("identifier", ["sofplus", {"class_name": "sofplus"}, 3])
def test_an_unknown_constraint_is_an_error_that_names_the_known(identifier):
    with pytest.raises(ValueError, match="Unknown constraint.*'softplus'"):
        parameterizations.get(identifier)


@every
def test_a_standard_deviation_is_read_through_it(name):
    posterior = TrainableNormal(
        stddev_initializer=keras.initializers.Constant(0.3), stddev_constraint=name
    )
    weight = dense(kernel_initializer=posterior).random_weights["kernel"]
    expected = np.full((3, 2), ROWS[name][0](0.3))
    np.testing.assert_allclose(array(weight.posterior.scale), expected, rtol=1e-6)
