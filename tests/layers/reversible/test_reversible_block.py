"""Reversible residual networks: gradients, noise, state and memory."""

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests import differentiation
from tests.differentiation import value_and_grad

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 6)).astype("float32")
IMAGES = RNG.normal(size=(3, 4, 4, 6)).astype("float32")


def array(x):
    return np.asarray(ops.convert_to_numpy(x))


def dense(**kwargs):
    return keras.Sequential(
        [keras.layers.Dense(5, activation="tanh", **kwargs), keras.layers.Dense(3)]
    )


def dropout():
    return keras.Sequential([keras.layers.Dense(3), keras.layers.Dropout(0.5, seed=1)])


def normalized():
    return keras.Sequential(
        [keras.layers.Dense(3, use_bias=False), keras.layers.BatchNormalization()]
    )


def flipout():
    return bl.layers.DenseFlipout(3, activation="tanh", seed=1)


def convolution():
    return keras.layers.Conv2D(3, 3, padding="same", activation="tanh")


def shared():
    layer = dropout()
    return lambda: layer


PARTS = {
    "dense": lambda: dense,
    "activity_regularizer": lambda: lambda: dense(activity_regularizer="l2"),
    "weight_regularizer": lambda: lambda: dense(kernel_regularizer="l2"),
    "dropout": lambda: dropout,
    "batch_normalization": lambda: normalized,
    "flipout": lambda: flipout,
    "convolution": lambda: convolution,
    "one layer everywhere": shared,
}


def stack(part, depth=3):
    blocks = [bl.layers.ReversibleBlock(part(), part()) for _ in range(depth)]
    return bl.layers.ReversibleStack(blocks)


class Plain(keras.Layer):
    """The network of the same layers, as anybody would write it."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def build(self, input_shape):
        half = keras.KerasTensor((*input_shape[:-1], input_shape[-1] // 2))
        for block in self.blocks:
            for part in (block.f, block.g):
                part(half)

    def call(self, inputs, training=None):
        first, second = ops.split(inputs, 2, axis=-1)
        for block in self.blocks:
            added = block.f(second, training=training)
            first = first + ops.cast(added, first.dtype)
            added = block.g(first, training=training)
            second = second + ops.cast(added, first.dtype)
        return ops.concatenate([first, second], axis=-1)


def step(layer, variables, x):
    """Value, gradients to inputs and weights, new state and losses of a call."""
    trained = [v for v in variables if v.trainable]
    state = [v for v in variables if not v.trainable]
    results = {}

    def loss(x, *values):
        mapping = [*zip(trained, values, strict=True), *((v, array(v)) for v in state)]
        with keras.StatelessScope(mapping, collect_losses=True) as scope:
            y = layer(x, training=True)
            losses = layer.losses
        results["losses"] = len(losses)
        after = [scope.get_current_value(v) for v in state]
        after = [ops.sum(ops.cast(value, "float32")) for value in after]
        total = ops.sum(ops.sin(y)) + sum(losses)
        # State is not differentiated: it is there to be compared.
        return total + 1e-3 * ops.stop_gradient(sum(after)) if after else total

    value, gradients = value_and_grad(loss, x, *map(array, trained))
    return value, gradients, results["losses"]


@pytest.mark.parametrize("name", PARTS)
def test_gradients_state_and_losses_are_those_of_the_plain_network(name):
    x = IMAGES if name == "convolution" else X
    layer = stack(PARTS[name]())
    layer.build(x.shape)
    plain = Plain(layer.blocks)
    plain.build(x.shape)
    variables = layer.variables
    value, gradients, losses = step(layer, variables, x)
    expected, references, count = step(plain, variables, x)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert losses == count
    for gradient, reference in zip(gradients, references, strict=True):
        largest = max(1.0, np.max(np.abs(reference)))
        np.testing.assert_allclose(gradient, reference, rtol=1e-3, atol=5e-5 * largest)
    assert all(np.any(gradient) for gradient in gradients)


def test_the_noise_of_the_next_call_is_another():
    layer = stack(dropout)
    one, two = (array(layer(X, training=True)) for _ in range(2))
    assert np.any(one != two)
    np.testing.assert_array_equal(array(layer(X)), array(layer(X)))


@pytest.mark.parametrize("name", ["flipout", "batch_normalization"])
def test_fit_trains_it_as_the_plain_network(name):
    y = np.sin(X)
    results = []
    for make in (lambda layer: layer, lambda layer: Plain(layer.blocks)):
        keras.utils.set_random_seed(1)
        inputs = keras.Input((6,))
        model = keras.Model(inputs, make(stack(PARTS[name]()))(inputs))
        model.compile(keras.optimizers.SGD(0.1), "mse")
        if name == "flipout":
            bl.scale_kl(model, dataset_size=100)
        losses = model.fit(X, y, batch_size=4, epochs=3, shuffle=False, verbose=0)
        weights = [array(v) for v in model.variables if "kl_scale" not in v.path]
        results.append((losses.history["loss"], weights))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-4)
    assert results[0][0][-1] < results[0][0][0]
    for one, two in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5)


def test_divergences_are_in_the_losses_and_weights_are_held():
    model = keras.Sequential([keras.Input((6,)), stack(flipout)])
    assert len(model.losses) == 6
    with bl.weights(model, seed=7):
        y = array(model(X))
        np.testing.assert_allclose(array(model(X[::-1])), y[::-1], atol=1e-5)
        np.testing.assert_allclose(
            array(model.layers[0].reverse(y)), X, rtol=1e-4, atol=1e-4
        )
    with bl.tape() as tape:
        model(X)
    assert len(tape) == 6
    assert bl.predict(model, X, num_samples=2, verbose=0).mean.shape == X.shape


def test_mixed_precision_keeps_the_sums_in_single():
    def half():
        return keras.layers.Dense(3, activation="tanh", dtype="mixed_bfloat16")

    blocks = [bl.layers.ReversibleBlock(half(), half()) for _ in range(3)]
    layer = bl.layers.ReversibleStack(blocks, dtype="mixed_bfloat16")
    layer.build(X.shape)
    plain = Plain(blocks)
    plain.build(X.shape)
    value, gradients, _ = step(layer, layer.variables, X)
    expected, references, _ = step(plain, layer.variables, X)
    np.testing.assert_allclose(value, expected, rtol=1e-3)
    for gradient, reference in zip(gradients, references, strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=5e-2, atol=5e-2)
    assert keras.backend.standardize_dtype(layer(X).dtype) == "float32"


def test_a_block_alone_is_a_stack_of_one():
    block = bl.layers.ReversibleBlock(dense(), dense())
    y = array(block(X))
    np.testing.assert_array_equal(y, array(bl.layers.ReversibleStack([block])(X)))
    first, second = np.split(X, 2, axis=-1)
    first = first + array(block.f(second))
    second = second + array(block.g(first))
    np.testing.assert_allclose(y, np.concatenate([first, second], -1), atol=1e-6)


# Memory.

WIDE = np.random.default_rng(1).normal(size=(512, 32)).astype("float32")


def deep(depth, part):
    layer = stack(part, depth)
    return [
        keras.Sequential([keras.Input(WIDE.shape[1:]), network])
        for network in (layer, Plain(layer.blocks))
    ]


def wide():
    return keras.Sequential(
        [
            keras.layers.Dense(64, activation="tanh"),
            keras.layers.Dropout(0.5, seed=1),
            keras.layers.Dense(16),
        ]
    )


@pytest.mark.skipif(
    differentiation.BACKEND == "tensorflow", reason="TensorFlow does not tell on a CPU."
)
def test_memory_does_not_grow_with_depth():
    """Also with dropout, whose masks a compiler would keep from pass to pass."""
    used = {}
    for depth in (2, 6):
        for model in deep(depth, wide):
            memory = differentiation.activation_bytes(model, WIDE)
            used[depth, isinstance(model.layers[0], Plain)] = memory
    assert used[6, False] < 1.1 * used[2, False]
    assert used[6, True] > 2.0 * used[2, True]
    assert used[6, False] < 0.3 * used[6, True]


@keras.saving.register_keras_serializable("tests")
class Watched(keras.Layer):
    """Remembers its outputs, by references that do not keep them."""

    seen = []

    def call(self, inputs):
        outputs = ops.tanh(inputs)
        Watched.seen.append(weakref.ref(outputs))
        return outputs


@pytest.mark.skipif(
    differentiation.BACKEND != "tensorflow", reason="The test above tells of memory."
)
def test_activations_are_let_go_after_the_forward_pass():
    def part():
        return keras.Sequential([keras.layers.Dense(3), Watched()])

    layer = stack(part)
    layer.build(X.shape)
    alive = []
    for network in (layer, Plain(layer.blocks)):
        Watched.seen.clear()

        def loss(x, network=network):
            y = network(x)
            gc.collect()
            alive.append(sum(seen() is not None for seen in Watched.seen))
            return ops.sum(y)

        value_and_grad(loss, X)
    assert alive == [0, 6]


# What is refused.


@pytest.mark.parametrize(
    ("part", "shape", "message"),
    [
        (dense, (2, 5), "should be even"),
        (lambda: keras.layers.Dense(4), (2, 6), "keep the shape"),
        (lambda: keras.layers.Dense(3), (6,), "one axes or more"),
    ],
)
def test_shapes_that_cannot_be_split_are_refused(part, shape, message):
    with pytest.raises(ValueError, match=message):
        stack(part).build(shape)


def test_other_things_than_layers_are_refused():
    with pytest.raises(TypeError, match="`g` should be a Keras layer"):
        bl.layers.ReversibleBlock(dense(), ops.tanh)
    with pytest.raises(TypeError, match="list of `bl.layers.ReversibleBlock`s"):
        bl.layers.ReversibleStack([dense()])
    with pytest.raises(TypeError, match="at least one"):
        bl.layers.ReversibleStack([])


OTHER = keras.Variable(np.ones(3, "float32"), name="other")


@keras.saving.register_keras_serializable("tests")
class Foreign(keras.Layer):
    def call(self, inputs):
        return inputs * OTHER


def test_variables_of_others_are_refused():
    with pytest.raises(ValueError, match="'other', which is not one of its own"):
        stack(Foreign)(X)


def test_second_derivatives_are_right_or_refused():
    layer = stack(dense)
    x = ops.ones((1, 6))
    layer(x)

    def second(network):
        return differentiation.second_derivative(
            lambda factor: ops.sum(network(factor * x)), 0.5
        )

    if differentiation.BACKEND == "jax":
        expected = second(Plain(layer.blocks))
        np.testing.assert_allclose(second(layer), expected, rtol=1e-3)
    else:
        with pytest.raises((RuntimeError, ValueError), match="cannot be different"):
            second(layer)
