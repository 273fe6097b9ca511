import keras
import pytest

from bayesian_layers import keras_contact


def test_the_switches_that_leave_inputs_alone_are_there():
    layer = keras.layers.Layer()
    keras_contact.leave_inputs_alone(layer)
    assert layer._convert_input_args is False
    assert layer._allow_non_tensor_positional_args is True


def test_a_keras_without_the_switches_is_an_error_in_words():
    with pytest.raises(RuntimeError, match="no attribute `_convert_input_args`"):
        keras_contact.leave_inputs_alone(object.__new__(keras.layers.Layer))
