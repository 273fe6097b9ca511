import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl

POLICIES = ["float32", "mixed_bfloat16", "mixed_float16"]


def array(x):
    return ops.convert_to_numpy(x)


class Standardize(bl.layers.ReceivesRandomVariables):
    """(x - mean) / stddev of the variable it receives, plus a tensor."""

    def call(self, inputs, shift=0.0):
        assert isinstance(inputs, bl.RandomVariable)
        standard = (inputs - inputs.mean()) / inputs.stddev()
        return standard + ops.cast(shift, "float32")


class DtypeOf(bl.layers.ReceivesRandomVariables):
    def call(self, inputs):
        self.received = keras.backend.standardize_dtype(inputs.dtype)
        return inputs


@pytest.mark.parametrize("policy", POLICIES)
def test_call_sees_the_random_variable(policy):
    w = bl.Normal(np.full((2, 3), 5.0, "float32"), 2.0, seed=1)
    noise = bl.Normal(np.zeros((2, 3), "float32"), 1.0, seed=1)
    layer = Standardize(dtype=policy)
    np.testing.assert_allclose(array(layer(w)), array(noise), rtol=1e-2, atol=1e-2)
    shifted = layer(w, shift=ops.ones((2, 3)))
    np.testing.assert_allclose(
        array(ops.cast(shifted, "float32")), array(noise) + 1.0, rtol=1e-2, atol=1e-2
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_other_inputs_are_converted_and_cast_as_in_keras(policy):
    layer = DtypeOf(dtype=policy)
    for inputs in (np.zeros((2, 3)), ops.zeros((2, 3))):
        layer(inputs)
        assert layer.received == layer.compute_dtype


class Head(keras.Layer):
    """A normal distribution around the inputs, of float32 whatever the policy."""

    def call(self, inputs):
        return bl.Normal(ops.cast(inputs, "float32"), 2.0, seed=1)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape, dtype="float32")


class Mean(bl.layers.ReceivesRandomVariables):
    def call(self, inputs):
        return inputs.mean()

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape, dtype="float32")


def functional(*layers):
    inputs = outputs = keras.Input((3,))
    for layer in layers:
        outputs = layer(outputs)
    return keras.Model(inputs, outputs)


def sequential(*layers):
    return keras.Sequential([keras.Input((3,)), *layers])


def unbuilt(*layers):
    return keras.Sequential(layers)


every_model = pytest.mark.parametrize("model_of", [functional, sequential, unbuilt])
every_policy = pytest.mark.parametrize("policy", POLICIES)


@every_model
@every_policy
def test_a_layer_hands_a_random_variable_to_the_next_inside_a_model(model_of, policy):
    model = model_of(Head(dtype=policy), Mean(dtype=policy))
    # Small whole numbers, which are the same in half precision.
    x = np.arange(6.0, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(array(model(x)), x)
    np.testing.assert_array_equal(model.predict(x, verbose=0), x)


@every_model
@every_policy
def test_a_discretized_head_trains_and_predicts_inside_a_model(
    model_of, policy, tmp_path
):
    model = model_of(
        keras.layers.Dense(4, dtype=policy),
        bl.layers.MixtureLogistic(2, num_components=3, dtype=policy, seed=1),
        bl.layers.Discretize(0.0, 1.0, 5, dtype=policy, seed=2),
    )
    model.compile("sgd", bl.losses.NegativeLogLikelihood())
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    y = np.random.default_rng(1).integers(0, 5, (8, 2)) / 4.0
    loss = model.fit(x, y, batch_size=4, epochs=2, verbose=0).history["loss"]
    assert np.all(np.isfinite(loss))
    assert isinstance(model(x).distribution, bl.distributions.Quantized)
    draws = model.predict(x, verbose=0)
    assert set(np.unique(draws)) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        array(loaded(x).log_prob(y)), array(model(x).log_prob(y)), rtol=1e-6
    )


@every_model
def test_under_a_global_policy_too(model_of):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = model_of(Head(), Mean())
    finally:
        keras.config.set_dtype_policy("float32")
    x = np.arange(6.0, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(model.predict(x, verbose=0), x)


def test_it_takes_symbolic_inputs():
    outputs = DtypeOf()(keras.Input((3,)))
    assert outputs.shape == (None, 3)
