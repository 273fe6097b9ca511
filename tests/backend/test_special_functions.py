"""The functions that `keras.ops` lacks, against SciPy."""

import numpy as np
import pytest
from keras import ops
from scipy import special

from bayesian_layers import backend
from tests.differentiation import BACKEND, value_and_grad

rng = np.random.default_rng(0)
POSITIVE = np.exp(rng.uniform(-4.0, 6.0, (3, 200)))
UNIT = rng.uniform(0.001, 0.999, 200)

CASES = {
    "lgamma": (backend.lgamma, special.gammaln, POSITIVE[:1]),
    "digamma": (backend.digamma, special.digamma, POSITIVE[:1]),
    "gammainc": (backend.gammainc, special.gammainc, POSITIVE[:2]),
    "gammaincc": (backend.gammaincc, special.gammaincc, POSITIVE[:2]),
    "betainc": (backend.betainc, special.betainc, (*POSITIVE[:2] / 10.0, UNIT)),
    "ndtri": (backend.ndtri, special.ndtri, (UNIT,)),
    "log_ndtr": (backend.log_ndtr, special.log_ndtr, (rng.uniform(-60, 8, 200),)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_scipy(name):
    function, oracle, arguments = CASES[name]
    arguments = [np.asarray(a, "float32") for a in arguments]
    actual = function(*(ops.convert_to_tensor(a) for a in arguments))
    expected = oracle(*(a.astype("float64") for a in arguments))
    np.testing.assert_allclose(
        ops.convert_to_numpy(actual), expected, rtol=2e-4, atol=1e-5
    )


def test_betainc_at_its_ends_and_its_derivative():
    a, b = (ops.convert_to_tensor([v, v, v]) for v in (2.0, 3.0))

    def total(x):
        return ops.sum(backend.betainc(a, b, x))

    x = np.array([0.0, 0.3, 1.0])
    values = ops.convert_to_numpy(
        backend.betainc(a, b, ops.convert_to_tensor(x, "float32"))
    )
    np.testing.assert_allclose(values, special.betainc(2.0, 3.0, x), rtol=1e-5)
    _, (gradient,) = value_and_grad(total, x)
    density = 12.0 * 0.3 * 0.7**2
    np.testing.assert_allclose(gradient[1], density, rtol=1e-4)


@pytest.mark.skipif(BACKEND == "torch", reason="Ours is differentiable on torch.")
def test_betainc_refuses_gradients_that_it_does_not_have():
    with pytest.raises(Exception, match=r"(?i)betainc|gradient"):
        value_and_grad(
            lambda a: ops.sum(
                backend.betainc(a, ops.full((1,), 2.0), ops.full((1,), 0.5))
            ),
            np.array([1.0]),
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_ndtr_is_smooth_where_its_forms_meet(dtype):
    if dtype == "float64" and BACKEND == "jax":
        pytest.skip("JAX has no float64 by default.")
    x = np.linspace(-25.0, -5.0, 401)
    values = ops.convert_to_numpy(backend.log_ndtr(ops.convert_to_tensor(x, dtype)))
    np.testing.assert_allclose(values, special.log_ndtr(x), rtol=1e-5)


def test_undifferentiable_raises_only_when_it_is_differentiated():
    def loss(x):
        return ops.sum(backend.undifferentiable(x * x, "no gradient here", x))

    def stopped(x):
        y = backend.undifferentiable(x * x, "no gradient here", x)
        return ops.sum(x + ops.stop_gradient(y))

    with pytest.raises(ValueError, match="no gradient here"):
        value_and_grad(loss, np.ones(2))
    value, (gradient,) = value_and_grad(stopped, np.ones(2))
    assert value == 4.0
    np.testing.assert_array_equal(gradient, [1.0, 1.0])
