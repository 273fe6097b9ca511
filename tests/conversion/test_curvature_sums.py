"""Full curvatures from products of inputs, against loops over derivatives."""

import keras
import numpy as np
import pytest
from keras import layers

from bayesian_layers.conversion import curvature_sums
from bayesian_layers.conversion.curvature import curvature
from bayesian_layers.conversion.curvature_sums import FullSum

RNG = np.random.default_rng(0)
BATCH, OUTPUTS, SHAPE = 5, 2, (2, 2, 3)


def products(count):
    """Jacobians that are sums of `count` products, of examples, the first zero."""
    a = RNG.normal(size=(BATCH, 1, *SHAPE[:-1], 1, count))
    g = RNG.normal(size=(BATCH, OUTPUTS, 1, 1, SHAPE[-1], count))
    a[0] = 0.0
    return np.sum((a * g).astype("float32"), axis=-1).astype("float64")


def by_loops(batches):
    total = 0.0
    for jacobian, roots in batches:
        for rows, root in zip(jacobian, roots, strict=True):
            for column in root.T:
                v = sum(c * row for c, row in zip(column, rows, strict=True))
                total += np.outer(v.reshape(-1), v.reshape(-1))
    return total


@pytest.mark.parametrize("counts", [[1], [1, 1, 1], [2, 2], [1, 2, 1, 1, 2]])
def test_it_is_the_sum_over_derivatives(counts, monkeypatch):
    monkeypatch.setattr(curvature_sums, "BLOCK", 2 * BATCH)
    found, batches = FullSum(), []
    for count in counts:
        batches.append((products(count), RNG.normal(size=(BATCH, OUTPUTS, OUTPUTS))))
        assert (curvature_sums._factors(batches[-1][0]) is None) == (count == 2)
        found.add(*batches[-1])
    np.testing.assert_allclose(found.total(), by_loops(batches), rtol=1e-5, atol=1e-5)


def last(kind):
    """A model, and the kernel of its last layer."""
    keras.utils.set_random_seed(1)
    x = keras.Input((4, 3))
    if kind == "sequence":
        layer = layers.Dense(3, "tanh")
        y = layers.GlobalAveragePooling1D()(layer(x))
    elif kind == "twice":
        layer = layers.Dense(12)
        y = layers.Flatten()(x)
        y = layer(keras.ops.tanh(layer(y)))
    else:
        layer = layers.Dense(3, activation=kind)
        y = layer(layers.Dense(5, "relu")(layers.Flatten()(x)))
    return keras.Model(x, y), layer.kernel


@pytest.mark.parametrize(
    ("kind", "likelihood", "is_product"),
    [
        ("softmax", "categorical", True),
        ("sigmoid", "bernoulli", True),
        ("linear", "normal", True),
        ("sequence", "categorical", False),
        ("twice", "normal", False),
    ],
)
def test_both_ways_agree(kind, likelihood, is_product, monkeypatch):
    model, kernel = last(kind)
    # Large numbers: some classes are all but sure.
    x = 10.0 * RNG.normal(size=(40, 4, 3)).astype("float32")
    data = x, np.zeros((40, model.output_shape[-1]))
    factors, were_products = curvature_sums._factors, []

    def watched(jacobian):
        found = factors(jacobian)
        were_products.append(found is not None)
        return found

    monkeypatch.setattr(curvature_sums, "_factors", watched)
    (found,) = curvature(model, [kernel], ["full"], data, likelihood).matrices
    assert were_products == [is_product] * 2
    monkeypatch.setattr(curvature_sums, "_factors", lambda jacobian: None)
    (expected,) = curvature(model, [kernel], ["full"], data, likelihood).matrices
    largest = np.max(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * largest)
