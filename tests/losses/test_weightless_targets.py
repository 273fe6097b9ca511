"""Targets without weight: whatever they are, they change no gradient."""

import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.differentiation import values_and_grad
from tests.layers.outputs.table import ROWS

WEIGHT = np.array([1.0, 0.0, 2.0, 0.0, 1.0], "float32")
FLOATS = (np.nan, np.inf, -np.inf, 1e30, -1.0)
LABELS = (-1, -100, 255)


def gradient(row, y, weight, **kwargs):
    """The loss and its gradient by the columns of parameters."""
    loss = bl.losses.NegativeLogLikelihood(**kwargs)

    def value(raw):
        return loss(y, row.make()(raw), weight)

    value, (by_raw,) = values_and_grad(value, row.raw(len(y)))
    return value, by_raw


@pytest.mark.parametrize("name", ROWS)
def test_the_gradient_is_that_of_the_others(name):
    row = ROWS[name]
    y = row.draw_targets(5)
    expected, by_raw = gradient(row, y, WEIGHT)
    assert np.all(np.isfinite(by_raw))
    assert np.all(by_raw[WEIGHT == 0.0] == 0.0)
    bad = FLOATS if y.dtype == "float32" else LABELS
    for values in zip(bad, bad[1:] + bad[:1], strict=True):
        y[1], y[3] = values
        value, gradients = gradient(row, y, WEIGHT)
        np.testing.assert_allclose(value, expected, rtol=1e-5)
        np.testing.assert_allclose(gradients, by_raw, rtol=1e-5, atol=1e-7)


def test_discretized_heads_are_no_exception():
    head = bl.layers.Discretize(low=0.0, high=3.0, num_bins=4)
    y = np.array([[0.0], [np.nan], [3.0], [-np.inf], [1.0]], "float32")
    loss = bl.losses.NegativeLogLikelihood()

    def value(raw):
        return loss(y, head(bl.layers.Logistic()(raw)), WEIGHT)

    value, (by_raw,) = values_and_grad(value, ROWS["Logistic"].raw(5)[:, :2])
    assert np.isfinite(value)
    assert np.all(np.isfinite(by_raw))
    assert np.any(by_raw[0] != 0.0)


def test_whole_numbers_may_be_targets_of_a_continuous_head():
    row = ROWS["Gamma"]
    y = np.array([[1, 2], [0, 0], [3, 1], [-1, 0], [2, 2]])
    value, by_raw = gradient(row, y, WEIGHT)
    expected, by_raw_of_floats = gradient(row, y.astype("float32"), WEIGHT)
    assert value == expected
    assert np.all(np.isfinite(by_raw))
    np.testing.assert_array_equal(by_raw, by_raw_of_floats)


def test_weights_of_steps_leave_out_steps():
    row = ROWS["Normal"]
    y = row.draw_targets(2, 3)
    y[0, 2] = y[1, 0] = np.nan
    weight = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], "float32")
    loss = bl.losses.NegativeLogLikelihood(beta=0.5)
    value, (by_raw,) = values_and_grad(
        lambda raw: loss(y, row.make()(raw), weight), row.raw(2, 3)
    )
    assert np.isfinite(value)
    assert np.all(np.isfinite(by_raw))
    np.testing.assert_array_equal(np.any(by_raw != 0.0, axis=-1), weight > 0.0)


def test_a_loss_of_ones_own_gets_a_number_in_their_place():
    seen = []
    loss = bl.losses.of_distribution(
        lambda y, rv: (seen.append(ops.convert_to_numpy(y)), -rv.log_prob(y))[1]
    )
    head = bl.layers.MultivariateNormalDiag()
    y = np.array([[1.0, 2.0], [np.nan, 5.0]], "float32")
    loss(y, head(np.zeros((2, 4), "float32")), np.array([1.0, 0.0], "float32"))
    np.testing.assert_array_equal(seen[0], [[1.0, 2.0], [0.5, 0.5]])
