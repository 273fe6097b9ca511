"""Each example counts once, and the covariance is computed once."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl

X = np.random.default_rng(0).normal(size=(24, 2)).astype("float32")
Y = X[:, :1]


def model_of():
    head = bl.layers.RandomFeatureGaussianProcess(
        1, 8, likelihood="gaussian", noise_variance=0.5, seed=1
    )
    model = keras.Sequential([keras.Input((2,)), head])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    bl.scale_kl(model, dataset_size=len(X))
    return model, head


class States(keras.callbacks.Callback):
    """Whether the covariance is current when batches of some kind end."""

    def __init__(self, head):
        super().__init__()
        self.head = head
        self.test, self.predict = [], []

    def on_test_begin(self, logs=None):
        self.test.append(bool(ops.convert_to_numpy(self.head.is_current)))

    def on_predict_begin(self, logs=None):
        self.predict.append(bool(ops.convert_to_numpy(self.head.is_current)))


def test_each_example_counts_once_over_epochs():
    model, head = model_of()
    callback, states = bl.callbacks.ResetPrecision(), States(head)
    model.fit(
        X,
        Y,
        batch_size=8,
        epochs=3,
        validation_data=(X, Y),
        verbose=0,
        callbacks=[callback, states],
    )
    phi = ops.convert_to_numpy(head.features(X, head.projection))
    information = ops.convert_to_numpy(head.information)
    np.testing.assert_allclose(information, phi.T @ phi / 0.5, atol=1e-3)
    assert states.test == [True, True, True]
    assert ops.convert_to_numpy(head.is_current)
    tril = ops.convert_to_numpy(head.scale_tril)
    np.testing.assert_array_equal(tril, np.tril(tril))
    covariance = np.linalg.inv(information.astype("float64") + np.eye(8))
    np.testing.assert_allclose(tril @ tril.T, covariance, rtol=1e-3, atol=1e-5)
    head(X, training=True)
    model.predict(X, verbose=0, callbacks=[callback, states])
    assert states.predict == [True]


def test_it_says_if_there_is_nothing_to_reset():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="RandomFeatureGaussianProcess"):
        model.fit(X, Y, verbose=0, callbacks=[bl.callbacks.ResetPrecision()])


def test_config():
    callback = bl.callbacks.ResetPrecision()
    config = keras.saving.serialize_keras_object(callback)
    assert type(keras.saving.deserialize_keras_object(config)) is type(callback)
