"""Shapes and broadcasting, over shapes that hypothesis makes up."""

import hypothesis
import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import strategies

from bayesian_layers import distributions as d
from bayesian_layers.distributions import shapes
from tests.differentiation import shapes_of
from tests.distributions.table import ROWS

TWO_SHAPES = arrays.mutually_broadcastable_shapes(
    num_shapes=2, max_dims=3, max_side=3, min_side=1
)
SAMPLE_SHAPE = arrays.array_shapes(min_dims=0, max_dims=2, max_side=3, min_side=1)


# On JAX each new shape is compiled for.
few = hypothesis.settings(max_examples=10)


@few
@hypothesis.given(TWO_SHAPES, SAMPLE_SHAPE)
def test_parameters_broadcast_to_the_batch_shape(two, sample_shape):
    distribution = d.Normal(
        np.zeros(two.input_shapes[0], "float32"), np.ones(two.input_shapes[1])
    )
    batch = two.result_shape
    assert distribution.batch_shape == batch
    assert distribution.shape(sample_shape) == sample_shape + batch
    assert (
        shapes_of(
            lambda: [
                distribution.sample(sample_shape, seed=1),
                distribution.log_prob(np.zeros(sample_shape + batch)),
                distribution.mean(),
                distribution.stddev(),
                distribution.mode(),
                distribution.entropy(),
            ]
        )
        == [sample_shape + batch] * 2 + [batch] * 4
    )


@few
@hypothesis.given(TWO_SHAPES, strategies.integers(1, 3))
def test_events_of_vectors_broadcast_too(two, size):
    first, second = two.input_shapes
    distribution = d.MultivariateNormalTriL(
        np.zeros((*first, size), "float32"),
        np.broadcast_to(np.eye(size, dtype="float32"), (*second, size, size)),
    )
    assert distribution.batch_shape == two.result_shape
    assert distribution.event_shape == (size,)
    assert shapes_of(
        lambda: [distribution.sample(seed=1), distribution.log_prob(np.zeros(size))]
    ) == [(*two.result_shape, size), two.result_shape]


@hypothesis.given(TWO_SHAPES)
def test_broadcast_is_that_of_numpy(two):
    assert shapes.broadcast(*two.input_shapes) == two.result_shape


def test_broadcast_knows_unknown_sizes():
    assert shapes.broadcast((None, 3), (1, 1)) == (None, 3)
    assert shapes.broadcast((None, 1), (4, 3)) == (4, 3)
    with pytest.raises(ValueError, match=r"\(2,\), \(3,\)"):
        shapes.broadcast((2,), (3,))


@pytest.mark.parametrize("name", ROWS)
def test_shapes_of_every_distribution_agree_with_its_samples(name):
    row = ROWS[name]
    distribution = row.distribution()
    assert distribution.batch_shape == row.batch_shape
    assert distribution.event_shape == row.event_shape
    sample_shapes = [(2, 1), (), (0,)]
    assert shapes_of(
        lambda: [distribution.sample(shape, seed=1) for shape in sample_shapes]
    ) == [distribution.shape(shape) for shape in sample_shapes]
    assert repr(distribution).startswith(f"<{type(distribution).__name__} batch_shape=")
