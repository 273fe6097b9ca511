"""What is private in Keras is still there, and means what we take it for."""

import keras
import numpy as np
from keras import ops

from bayesian_layers import keras_contact


def test_the_output_of_a_layer_carries_its_mask():
    tokens = np.array([[1, 2, 0]], "int32")
    outputs = keras.layers.Embedding(3, 2, mask_zero=True)(tokens)
    mask = ops.convert_to_numpy(keras_contact.mask_of(outputs))
    np.testing.assert_array_equal(mask, [[True, True, False]])
    assert keras_contact.mask_of(ops.zeros((2,))) is None


def test_layers_are_found_at_any_depth():
    inner = keras.layers.Dense(2)
    model = keras.Sequential([keras.Sequential([inner])])
    layers = keras_contact.flatten_layers(model)
    assert any(layer is inner for layer in layers)
    assert any(layer is model for layer in layers)
    assert keras_contact.flatten_layers(inner) == [inner]


def test_callbacks_read_from_a_metric_where_it_should_go():
    for direction, expected in (("up", ops.greater), ("down", ops.less)):
        metric = keras_contact.optimized(direction)(
            type("M", (keras.metrics.Mean,), {})
        )
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=[_of_squares(metric)])
        stop = keras.callbacks.EarlyStopping(monitor="m")
        model.fit(np.ones((2, 1)), np.ones(2), callbacks=[stop], verbose=0)
        assert stop.monitor_op is expected


class Ask(keras.layers.Dense):
    """Remembers, of the class, which models call it."""

    callers = []

    def call(self, inputs):
        self.callers.append(keras_contact.calling_model())
        return super().call(inputs)


def test_a_layer_knows_the_outermost_model_that_calls_it():
    model = keras.Sequential([keras.Sequential([Ask(1)])])
    model(np.ones((2, 1)))
    assert Ask.callers[-1] is model
    assert keras_contact.calling_model() is None
    for use in (model.fit, model.evaluate):
        model.compile("sgd", "mse", metrics=["mae"])
        Ask.callers.clear()
        use(np.ones((2, 1)), np.ones(2), verbose=0)
        assert any(caller is model for caller in Ask.callers)


def test_metrics_of_an_output_are_those_that_compile_was_given():
    inputs = keras.Input((1,))
    hidden = keras.layers.Dense(1, name="hidden")
    first, second = keras.layers.Dense(1, name="a"), keras.layers.Dense(1, name="b")
    x = hidden(inputs)
    one, two = keras.Model(inputs, first(x)), keras.Model(inputs, [first(x), second(x)])
    line = keras.Sequential([hidden, first])
    mae = keras.metrics.MeanAbsoluteError()
    of = keras_contact.compiled_metrics
    assert of(one, first) == []
    for model in (one, line):
        model.compile("sgd", "mse", metrics=["accuracy"], weighted_metrics=[mae])
        assert of(model, first) == ["accuracy", mae]
        assert of(model, hidden) == []
    two.compile("sgd", "mse", metrics=[["mse", mae], ["accuracy"]])
    assert of(two, first) == ["mse", mae]
    assert of(two, second) == ["accuracy"]
    two.compile("sgd", "mse", metrics={"b": "accuracy"})
    assert of(two, first) == []
    assert of(two, second) == ["accuracy"]


def _of_squares(metric):
    class OfSquares(metric):
        def update_state(self, y_true, y_pred, sample_weight=None):
            return super().update_state(ops.square(y_pred))

    return OfSquares(name="m")


def test_the_switches_that_leave_inputs_alone_are_there():
    layer = keras.layers.Layer()
    keras_contact.leave_inputs_alone(layer)
    assert layer._convert_input_args is False
    assert layer._allow_non_tensor_positional_args is True


def test_a_keras_without_the_switches_is_an_error_in_words():
    with pytest.raises(RuntimeError, match="no attribute `_convert_input_args`"):
        keras_contact.leave_inputs_alone(object.__new__(keras.layers.Layer))
