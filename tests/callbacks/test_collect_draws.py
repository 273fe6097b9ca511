"""Which steps are kept, of which weights, and what they can be used for."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl

X = np.random.default_rng(0).normal(size=(20, 2)).astype("float32")
Y = X[:, :1]


class Weights(keras.callbacks.Callback):
    """The first weight after each step, by way of `get_weights`."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(self.model.get_weights()[0].copy())


def compiled(*layers, **arguments):
    model = keras.Sequential([keras.Input((2,)), *layers])
    model.compile(bl.optimizers.SGLD(0.1, dataset_size=20), "mse", **arguments)
    return model


def fit(model, *callbacks, epochs=3, **kwargs):
    callbacks = list(callbacks)
    model.fit(
        X, Y, batch_size=4, epochs=epochs, verbose=0, callbacks=callbacks, **kwargs
    )


def test_it_keeps_the_weights_after_the_steps_it_names():
    model = compiled(keras.layers.Dense(1))
    collect, weights = bl.callbacks.CollectDraws(burn_in=3, every=4), Weights()
    fit(model, weights, collect, validation_data=(X, Y))
    fit(model, weights, collect)  # Goes on, over 30 steps in all.
    kernel = next(iter(collect.draws.values()))
    expected = [weights.seen[step - 1] for step in range(7, 31, 4)]
    np.testing.assert_array_equal(kernel[0], expected)
    assert [value.shape for value in collect.draws.values()] == [
        (1, 6, 2, 1),
        (1, 6, 1),
    ]


def test_it_stops_at_its_largest_number():
    collect = bl.callbacks.CollectDraws(max_draws=2)
    fit(compiled(keras.layers.Dense(1)), collect)
    assert collect.draws.num_draws == 2


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="Keras runs one step at a time there."
)
def test_steps_that_run_together_are_counted():
    collect = bl.callbacks.CollectDraws(every=5)
    fit(compiled(keras.layers.Dense(1), steps_per_execution=5), collect)
    assert collect.draws.num_draws == 3


def test_frozen_layers_are_left_out_and_statistics_of_others_are_kept():
    frozen = keras.layers.Dense(2, name="frozen")
    frozen.trainable = False
    model = compiled(
        frozen, keras.layers.BatchNormalization(name="norm"), keras.layers.Dense(1)
    )
    collect = bl.callbacks.CollectDraws(every=15)
    fit(model, collect)
    assert not any("frozen" in name for name in collect.draws)
    assert sum("norm" in name for name in collect.draws) == 4
    # One draw, the last: its predictions are those of the model as it is.
    prediction = bl.predict(model, X, draws=collect.draws, verbose=0)
    np.testing.assert_allclose(prediction.mean, model.predict(X, verbose=0), rtol=1e-4)


def test_weights_of_one_path_are_kept_apart():
    class Twice(keras.Model):
        def __init__(self):
            super().__init__()
            self.parts = [keras.layers.Dense(2, name="same") for _ in range(2)]
            self.head = keras.layers.Dense(1)

        def call(self, inputs):
            return self.head(self.parts[1](self.parts[0](inputs)))

    model = Twice()
    model.compile(bl.optimizers.SGLD(0.1, dataset_size=20), "mse")
    model(X)
    collect = bl.callbacks.CollectDraws()
    fit(model, collect)
    assert len(collect.draws) == 6


def test_distributions_are_refused_and_points_are_not():
    model = compiled(bl.layers.DenseFlipout(1))
    bl.scale_kl(model, dataset_size=20)
    with pytest.raises(ValueError, match="dense_flipout.*/kernel.*bl.mcmc"):
        fit(model, bl.callbacks.CollectDraws())
    layer = bl.layers.DenseReparameterization(
        1, kernel_initializer="trainable_deterministic"
    )
    model, collect = compiled(layer), bl.callbacks.CollectDraws()
    bl.scale_kl(model, dataset_size=20)
    fit(model, collect)
    assert collect.draws.num_draws == 15
    prediction = bl.predict(model, X, draws=collect.draws, verbose=0)
    kernels, biases = (ops.convert_to_numpy(v)[0] for v in collect.draws.values())
    outputs = X @ kernels + biases[:, None]
    np.testing.assert_allclose(prediction.mean, outputs.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(prediction.epistemic, outputs.var(axis=0), rtol=1e-3)


def test_another_model_and_no_steps_are_errors():
    collect = bl.callbacks.CollectDraws(burn_in=30)
    fit(compiled(keras.layers.Dense(1)), collect)
    with pytest.raises(ValueError, match="15 steps"):
        _ = collect.draws
    collect = bl.callbacks.CollectDraws()
    fit(compiled(keras.layers.Dense(1)), collect)
    with pytest.raises(ValueError, match="other weights"):
        fit(compiled(keras.layers.Dense(2), keras.layers.Dense(1)), collect)


@pytest.mark.parametrize(
    "arguments", [{"burn_in": -1}, {"every": 0}, {"max_draws": 0}, {"every": 1.5}]
)
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        bl.callbacks.CollectDraws(**arguments)


def test_config():
    callback = bl.callbacks.CollectDraws(burn_in=3, every=2, max_draws=7)
    config = keras.saving.serialize_keras_object(callback)
    copy = keras.saving.deserialize_keras_object(config)
    assert copy.get_config() == callback.get_config()
