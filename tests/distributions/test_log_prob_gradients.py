"""Gradients of log_prob, against finite differences of the references."""

import numpy as np
import pytest
from keras import ops

from tests.differentiation import finite_difference, has_float64, value_and_grad
from tests.distributions.table import ROWS

# A point mass has no derivative.
ROWS = {name: row for name, row in ROWS.items() if name != "Deterministic"}
DTYPES = ["float32", *(["float64"] if has_float64() else [])]
TOLERANCE = {"float32": 3e-4, "float64": 1e-6}


def tangential(gradient, x):
    """The part of a gradient along the simplex, if it is one at points of it."""
    on_simplex = np.all(x > 0.0) and np.all(x.sum(axis=-1) == 1.0)
    return gradient - on_simplex * gradient.mean(axis=-1, keepdims=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_log_prob_has_the_gradient_of_the_reference(name, dtype):
    row = ROWS[name]
    points = {n: row.parameters[n] for n in row.differentiable}
    if row.continuous:
        points["value"] = row.values
    # Weights, so that errors cannot cancel in the sum.
    weights = np.random.default_rng(0).uniform(0.5, 2.0, (4, *row.batch_shape))

    def loss(*arrays):
        moved = dict(zip(points, arrays, strict=True))
        arguments = {**row.parameters, "value": row.values, **moved}
        arguments = {n: ops.convert_to_tensor(a, dtype) for n, a in arguments.items()}
        value = arguments.pop("value")
        log_prob = row.make(**arguments).log_prob(value)
        return ops.sum(ops.convert_to_tensor(weights, dtype) * log_prob)

    def expected_loss(**moved):
        arguments = {**row.parameters, "value": row.values, **moved}
        value = arguments.pop("value")
        return np.sum(weights * row.reference(**arguments).log_prob(value))

    _, gradients = value_and_grad(loss, *points.values(), dtype=dtype)
    for (point, x), gradient in zip(points.items(), gradients, strict=True):
        expected = finite_difference(
            lambda moved, point=point: expected_loss(**{point: moved}), x
        )
        gradient, expected = tangential(gradient, x), tangential(expected, x)
        scale = TOLERANCE[dtype] * (1.0 + np.abs(expected).max())
        np.testing.assert_allclose(gradient, expected, atol=scale, err_msg=point)
