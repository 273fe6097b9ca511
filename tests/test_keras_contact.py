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
    layers = keras_contact.layers_of(model)
    assert any(layer is inner for layer in layers)
    assert any(layer is model for layer in layers)
    assert keras_contact.layers_of(inner) == [inner]


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


def _of_squares(metric):
    class OfSquares(metric):
        def update_state(self, y_true, y_pred, sample_weight=None):
            return super().update_state(ops.square(y_pred))

    return OfSquares(name="m")
