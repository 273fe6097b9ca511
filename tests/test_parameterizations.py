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
    "Softplus": (lambda x: np.logaddexp(0.0, x), -80.0),
}
every = pytest.mark.parametrize("name", ROWS)


def numbers(low):
    return np.linspace(low, 40.0, 101, dtype="float32")


def test_every_public_parameterization_is_in_the_table():
    assert {*ROWS, "get", "untransformed"} == set(parameterizations.__all__)


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


@every
@pytest.mark.parametrize("value", [1e-4, 0.0486, 0.7, 30.0])
def test_a_parameter_starts_at_its_natural_value_with_a_gradient(name, value):
    constraint = parameterizations.get(name)
    stored = parameterizations.untransformed(constraint, value)
    np.testing.assert_allclose(array(constraint(np.float32(stored))), value, rtol=1e-4)
    (slope,) = grad(lambda x: ops.sum(constraint(x)), np.float32(stored))
    # At small values both are exponentials, and the slope is the value.
    assert slope > 0.4 * min(value, 1.0)


def test_what_has_no_inverse_does_not_say_where_to_start():
    assert parameterizations.untransformed(None, 0.3) == 0.3
    with pytest.raises(ValueError, match="without `reverse`.*NonNeg"):
        parameterizations.untransformed(keras.constraints.NonNeg(), 0.3)


@pytest.mark.parametrize(
    "identifier", ["positive", "Positive", {"class_name": "Positive", "config": {}}]
)
def test_what_loses_its_gradient_is_refused(identifier):
    with pytest.raises(ValueError, match='no gradient.*Use "softplus"'):
        parameterizations.get(identifier)


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
