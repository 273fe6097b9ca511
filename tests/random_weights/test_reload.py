"""Draws under a seed, and their names, after saving, loading and building anew."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.weights.table import array, set_stddev

X = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("float32")


@keras.saving.register_keras_serializable("tests")
class Network(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.recurrent = bl.layers.GRUFlipout(3)
        self.dense = bl.layers.DenseFlipout(2)

    def call(self, inputs):
        return self.dense(self.recurrent(inputs))


def sequential():
    model = keras.Sequential([bl.layers.GRUFlipout(3), bl.layers.DenseFlipout(2)])
    model(X)
    return model


def functional():
    shared = bl.layers.DenseFlipout(3)
    inputs = keras.Input((5, 3))
    outputs = bl.layers.MultiHeadAttentionFlipout(1, 2)(shared(shared(inputs)), inputs)
    return keras.Model(inputs, outputs)


def subclassed():
    model = Network()
    model(X)
    return model


MODELS = {f.__name__: f for f in (sequential, functional, subclassed)}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_equal_weights_and_seeds_are_equal_functions(make, tmp_path):
    model = make()
    set_stddev(model, 0.5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = make()
    again.set_weights(model.get_weights())
    with bl.weights(model, seed=7):
        expected = array(model(X))
    for copy in (loaded, again):
        with bl.weights(copy, seed=7):
            np.testing.assert_allclose(array(copy(X)), expected, atol=1e-6)
    with bl.weights(model, seed=8):
        assert np.mean(np.abs(array(model(X)) - expected) > 1e-4) > 0.5
    expected = bl.predict(model, X, num_samples=2, seed=1, verbose=0).samples
    for copy in (loaded, again):
        found = bl.predict(copy, X, num_samples=2, seed=1, verbose=0).samples
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_names_of_draws_survive_saving_and_loading(make, tmp_path):
    model = make()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    with bl.tape() as tape:
        expected = array(model(X))
    with bl.tape() as other:
        loaded(X)
    assert list(tape) == list(other)
    values = {name: array(entry) for name, entry in tape.items()}
    with bl.replay(values):
        np.testing.assert_allclose(array(loaded(X)), expected, atol=1e-6)


def test_a_shared_layer_is_one_weight_with_one_draw():
    model = functional()
    with bl.tape() as tape:
        model(X)
    assert len(tape) == 5  # The shared kernel, and the four of the attention.


@pytest.mark.parametrize("use", ["condition", "replay"])
def test_a_weight_with_two_names_has_the_value_that_is_given_for_the_first(use):
    shared = bl.layers.DenseReparameterization(3, use_bias=False, name="shared")
    inputs = keras.Input((3,))
    inner = keras.Sequential([shared], name="inner")
    model = keras.Model(inputs, shared(inner(inputs)), name="outer")
    set_stddev(model, 1.0)
    x = X[:, 0]
    kernel = np.arange(9.0, dtype="float32").reshape(3, 3)
    with getattr(bl, use)({"outer/inner/shared/kernel": kernel}):
        outputs = array(model(x))
    np.testing.assert_allclose(outputs, x @ kernel @ kernel, rtol=1e-4)
