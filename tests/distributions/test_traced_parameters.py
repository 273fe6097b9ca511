"""Keras variables as parameters, inside of layers that are compiled and trained."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.differentiation import BACKEND, jit

rng = np.random.default_rng(0)
X = rng.normal(size=(64, 3)).astype("float32")
Y = X[:, :1] + 0.1 * rng.normal(size=(64, 1)).astype("float32")
TWO = keras.initializers.Constant(2.0)


class Head(keras.layers.Layer):
    """A user's layer: a distribution with a weight for its scale."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1)

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), initializer=TWO, name="scale")

    def call(self, inputs):
        return bl.Normal(inputs, self.scale, seed=self.seed_generator)


class Regression(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="zeros")
        self.head = Head()

    def call(self, inputs):
        return self.head(self.dense(inputs))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_weight_as_scale_trains_in_a_layer_of_a_user(jit_compile):
    if jit_compile and BACKEND == "torch":
        pytest.skip("Keras compiles nothing on torch by default.")
    model = Regression()
    model.compile(
        keras.optimizers.Adam(0.02),
        bl.losses.NegativeLogLikelihood(),
        jit_compile=jit_compile,
    )
    model.fit(X, Y, epochs=20, verbose=0)
    # It starts far above the noise of 0.1, and comes down by its gradient only.
    assert ops.convert_to_numpy(model.head.scale) < 1.5
    assert model.predict(X, verbose=0).shape == (64, 1)


class PlainNormal(bl.initializers.Posterior):
    """As the docstring of `Posterior` says, with the public constructor."""

    arguments = {"mean": "loc", "stddev": "scale"}
    defaults = {"stddev": keras.initializers.Constant(0.1)}

    def __init__(self, mean_initializer=None, stddev_initializer=None):
        super().__init__(
            mean_initializer=mean_initializer, stddev_initializer=stddev_initializer
        )

    def distribution(self, loc, scale):
        return bl.distributions.Normal(loc, scale)


@pytest.mark.parametrize(
    "layer", [bl.layers.DenseReparameterization, bl.layers.DenseFlipout]
)
def test_a_posterior_may_use_the_public_constructor(layer):
    model = keras.Sequential([layer(1, kernel_initializer=PlainNormal())])
    # The scale is not constrained: with small steps it stays positive.
    model.compile(keras.optimizers.Adam(0.002), "mse")
    bl.scale_kl(model, dataset_size=1000)
    before = None
    for _ in range(2):
        model.fit(X, Y, epochs=3, verbose=0)
        weights = [ops.convert_to_numpy(v) for v in model.trainable_variables]
        if before is not None:
            assert all(np.all(a != b) for a, b in zip(before, weights, strict=True))
        before = weights


def test_numbers_that_a_program_closes_over_are_not_looked_at():
    scale = keras.Variable(2.0)
    tensor = ops.convert_to_tensor(2.0)

    def program(x):
        first = bl.distributions.Normal(x, scale).stddev()
        return first + bl.distributions.Uniform(-tensor, tensor).mean()

    result = jit(program)(ops.convert_to_tensor(0.0))
    assert ops.convert_to_numpy(result) == 2.0


def test_dtype_and_batch_shape_are_computed_once(monkeypatch):
    from bayesian_layers.distributions import distribution as module

    calls = []
    common_dtype = module.common_dtype
    monkeypatch.setattr(
        module, "common_dtype", lambda values: calls.append(1) or common_dtype(values)
    )
    normal = bl.distributions.Normal(np.zeros(3), 1.0)
    made = len(calls)
    for _ in range(3):
        normal.log_prob(normal.sample(seed=1))
    assert len(calls) <= made + 1
    assert normal.batch_shape is normal.batch_shape
