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


def test_a_layer_hands_a_random_variable_to_the_next_inside_a_functional_model():
    class Head(keras.Layer):
        def call(self, inputs):
            return bl.Normal(inputs, 2.0, seed=1)

        def compute_output_spec(self, inputs):
            return keras.KerasTensor(inputs.shape, dtype="float32")

    class Mean(bl.layers.ReceivesRandomVariables):
        def call(self, inputs):
            return inputs.mean()

        def compute_output_spec(self, inputs):
            return keras.KerasTensor(inputs.shape, dtype="float32")

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Mean()(Head()(inputs)))
    x = np.arange(6.0, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(array(model(x)), x)
    np.testing.assert_array_equal(model.predict(x, verbose=0), x)


def test_it_takes_symbolic_inputs():
    outputs = DtypeOf()(keras.Input((3,)))
    assert outputs.shape == (None, 3)
