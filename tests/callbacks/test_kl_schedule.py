"""The scale of the KL over epochs, and the KL in the logs."""

import gc
import json
import weakref

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.outputs.table import array

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10, 3)).astype("float32")  # Batches of 4, 4 and 2.
Y = RNG.normal(size=(10, 1)).astype("float32")
COMPILES = keras.backend.backend() != "torch"


class Count(keras.Layer):
    """Hands on its inputs, and counts how often Python runs it."""

    calls = 0

    def call(self, inputs):
        self.calls += 1
        return inputs


def make_model(dense=bl.layers.DenseReparameterization, rate=0.0):
    """A model that does not learn: what is logged can be computed afterwards."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            Count(),
            dense(4, activation="tanh"),
            bl.layers.Normal(1),
        ]
    )
    model.compile(
        keras.optimizers.SGD(rate),
        bl.losses.NegativeLogLikelihood(),
        metrics=[bl.metrics.NegativeLogLikelihood()],
    )
    return model


def scale_of(model):
    return model.layers[1].kl_scale


def fit(model, *, callbacks, epochs=1, **kwargs):
    return model.fit(
        X,
        Y,
        batch_size=4,
        epochs=epochs,
        callbacks=callbacks,
        verbose=0,
        **kwargs,
    ).history


def evaluate(model, *data, **kwargs):
    return model.evaluate(*data, batch_size=4, verbose=0, return_dict=True, **kwargs)


class Scales(keras.callbacks.Callback):
    """Records the scale at the first batch of each epoch, and of each validation."""

    def __init__(self):
        super().__init__()
        self.trained, self.validated, self.ended = [], [], []

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0:
            self.trained.append(scale_of(self.model))

    def on_test_batch_begin(self, batch, logs=None):
        if batch == 0:
            self.validated.append(scale_of(self.model))

    def on_epoch_end(self, epoch, logs=None):
        self.ended.append(scale_of(self.model))


@pytest.fixture(scope="module")
def model():
    return make_model()


# The weight.


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"warmup_epochs": 0}, [1.0, 1.0, 1.0]),
        ({"warmup_epochs": 2}, [0.0, 0.5, 1.0, 1.0]),
        ({"warmup_epochs": 4, "initial_weight": 0.2}, [0.2, 0.4, 0.6, 0.8, 1.0, 1.0]),
        ({"warmup_epochs": 1, "final_weight": 0.1}, [0.0, 0.1, 0.1]),
        (
            {"warmup_epochs": 2, "initial_weight": 3.0, "final_weight": 1.0},
            [3.0, 2.0, 1.0],
        ),
        # By default over half of the epochs; the last one has the final weight.
        ({}, [1.0]),
        ({}, [0.0, 1.0]),
        ({}, [0.0, 1.0, 1.0]),
        ({"final_weight": 0.8}, [0.0, 0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.8]),
    ],
)
def test_the_weight_grows_linearly_and_stays(arguments, expected):
    schedule = bl.callbacks.KLSchedule(dataset_size=10, **arguments)
    epochs = len(expected)
    weights = [schedule.weight(epoch, epochs) for epoch in range(epochs)]
    np.testing.assert_allclose(weights, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dataset_size", 0),
        ("dataset_size", -3),
        ("warmup_epochs", -1),
        ("initial_weight", -0.5),
        ("final_weight", -1.0),
        ("final_weight", float("nan")),
    ],
)
def test_bad_arguments_raise_with_their_value(name, value):
    with pytest.raises(ValueError, match=rf"`{name}`.*Received: {name}={value}"):
        bl.callbacks.KLSchedule(**{"dataset_size": 10, name: value})


def test_without_a_size_the_error_has_the_line_to_paste():
    with pytest.raises(ValueError, match=r"bl.callbacks.KLSchedule\(dataset_size=len"):
        bl.callbacks.KLSchedule()


@pytest.mark.parametrize("arguments", [(100, 3, 0.1, 0.5), (100,)])
def test_the_config_survives_json(arguments):
    schedule = bl.callbacks.KLSchedule(*arguments)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(schedule)))
    copy = keras.saving.deserialize_keras_object(config)
    assert isinstance(copy, bl.callbacks.KLSchedule)
    assert copy.get_config() == schedule.get_config()
    assert list(copy.get_config().values())[: len(arguments)] == list(arguments)


# Training and validation.


@pytest.fixture(scope="module")
def held_fit():
    """The logs of a fit with held weights, and what `evaluate` says of them."""
    model = make_model()
    validation = (X[:5] + 1.0, Y[:5])
    schedule = bl.callbacks.KLSchedule(
        dataset_size=10, initial_weight=0.0, final_weight=1.5
    )
    scales, calls = Scales(), []
    count = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: calls.append(model.layers[0].calls)
    )
    with bl.weights(model, "mean"):
        history = fit(
            model,
            callbacks=[schedule, scales, count],
            epochs=4,
            validation_data=validation,
        )
        logs = evaluate(model, X, Y)
        val_logs = evaluate(model, *validation)
    return {
        "model": model,
        "history": {name: np.array(values) for name, values in history.items()},
        "logs": logs,
        "val_logs": val_logs,
        "scales": scales,
        "calls": calls,
    }


WEIGHTS = np.array([0.0, 0.75, 1.5, 1.5])


def test_each_epoch_has_its_scale(held_fit):
    np.testing.assert_allclose(held_fit["scales"].trained, WEIGHTS / 10)
    np.testing.assert_allclose(held_fit["scales"].ended, WEIGHTS / 10)


def test_validation_has_the_final_scale_in_all_epochs(held_fit):
    np.testing.assert_allclose(held_fit["scales"].validated, [1.5 / 10] * 4)


@pytest.mark.skipif(not COMPILES, reason="Keras runs torch without tracing.")
def test_nothing_is_traced_again_when_the_scale_changes(held_fit):
    # The first epoch traces training and validation, each for two sizes of batches.
    assert len(set(held_fit["calls"])) == 1


def test_the_loss_is_nll_plus_the_weighted_kl_per_example(held_fit):
    history = held_fit["history"]
    np.testing.assert_allclose(
        history["loss"], history["nll"] + history["kl"] * WEIGHTS / 10, rtol=1e-5
    )
    np.testing.assert_allclose(
        history["kl"], [array(bl.total_kl(held_fit["model"]))] * 4, rtol=1e-6
    )
    assert sorted(history) == ["kl", "loss", "nll", "val_loss", "val_nll"]


def test_val_loss_is_the_negative_evidence_bound_throughout(held_fit):
    history = held_fit["history"]
    np.testing.assert_allclose(
        history["val_loss"], history["val_nll"] + history["kl"] * 1.5 / 10, rtol=1e-5
    )


def test_evaluate_gives_the_same_afterwards(held_fit):
    history = held_fit["history"]
    for name in ("loss", "nll"):
        last = history[name][-1], history[f"val_{name}"][-1]
        logs = held_fit["logs"][name], held_fit["val_logs"][name]
        np.testing.assert_allclose(logs, last, rtol=1e-5)


def test_evaluate_with_the_schedule_has_the_final_scale(model):
    bl.scale_kl(model, dataset_size=1)
    scales = Scales()
    schedule = bl.callbacks.KLSchedule(dataset_size=10, final_weight=0.5)
    evaluate(model, X, Y, callbacks=[schedule, scales])
    np.testing.assert_allclose(scales.validated, [0.05])
    np.testing.assert_allclose(scale_of(model), 0.05)


def test_the_size_of_a_generator_is_given(model):
    def batches():
        while True:
            yield X[:4], Y[:4]

    schedule = bl.callbacks.KLSchedule(dataset_size=50)
    model.fit(
        batches(), steps_per_epoch=2, shuffle=False, verbose=0, callbacks=[schedule]
    )
    np.testing.assert_allclose(scale_of(model), 1 / 50)


def test_a_training_that_goes_on_has_the_weights_of_one_fit(model):
    schedule, scales = bl.callbacks.KLSchedule(dataset_size=10), Scales()
    fit(model, callbacks=[schedule, scales], epochs=6, initial_epoch=2)
    np.testing.assert_allclose(scales.trained, np.array([2 / 3, 1.0, 1.0, 1.0]) / 10)


# However `fit` ends.


def test_a_fit_shorter_than_the_warm_up_ends_with_the_final_weight(model):
    schedule, scales = bl.callbacks.KLSchedule(10, warmup_epochs=20), Scales()
    fit(model, callbacks=[schedule, scales], epochs=2)
    np.testing.assert_allclose(scales.ended, [0.0, 1 / 200])
    np.testing.assert_allclose(scale_of(model), 1 / 10)
    # A fit without the schedule trains with it; one with it begins anew.
    history = fit(model, callbacks=[])
    loss = history["nll"][0] + array(bl.total_kl(model)) / 10
    np.testing.assert_allclose(history["loss"], [loss], rtol=1e-5)
    assert sorted(history) == ["loss", "nll"]
    fit(model, callbacks=[schedule, scales])
    assert scales.ended[-1] == 0.0


def test_the_scale_can_be_read_in_every_callback():
    scales = []

    class Read(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            scales.append(scale_of(self.model))

    model = make_model()
    schedule = bl.callbacks.KLSchedule(dataset_size=10, warmup_epochs=0)
    fit(model, callbacks=[schedule, Read()], epochs=1)
    assert set(scales) == {0.1}


def test_divergences_that_keras_does_not_ask_for_are_an_error_in_words(monkeypatch):
    monkeypatch.setattr(
        bl.layers.RandomWeights, "_get_own_losses", lambda self: self._losses[:]
    )
    schedule = bl.callbacks.KLSchedule(dataset_size=10)
    with pytest.raises(RuntimeError, match="1 divergences of .* are not in its losses"):
        fit(make_model(), callbacks=[schedule])


@pytest.mark.parametrize("first", [True, False])
def test_early_stopping_leaves_the_final_weight(first):
    # Nothing is learned, and the weights are held: the first epoch stays the best.
    model = make_model()
    schedule = bl.callbacks.KLSchedule(dataset_size=10, warmup_epochs=20)
    stop = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=1, restore_best_weights=True
    )
    callbacks = [stop, schedule] if first else [schedule, stop]
    with bl.weights(model, "mean"):
        history = fit(model, callbacks=callbacks, epochs=20, validation_data=(X, Y))
    assert len(history["loss"]) == 2
    np.testing.assert_allclose(scale_of(model), 1 / 10)


def test_a_checkpoint_of_the_warm_up_does_not_bring_its_weight_back(tmp_path):
    model = make_model()
    path = tmp_path / "{epoch}.weights.h5"
    save = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    schedule = bl.callbacks.KLSchedule(dataset_size=10, warmup_epochs=20)
    fit(model, callbacks=[schedule, save])
    model.load_weights(tmp_path / "1.weights.h5")
    np.testing.assert_allclose(scale_of(model), 1 / 10)


def test_early_stopping_does_not_take_the_warm_up_for_a_loss_that_grows():
    # Held weights that do not learn: `val_loss` is the same in all epochs.
    model = make_model()
    schedule = bl.callbacks.KLSchedule(dataset_size=10, warmup_epochs=4)
    with bl.weights(model, "mean"):
        history = fit(model, callbacks=[schedule], epochs=6, validation_data=(X, Y))
    np.testing.assert_allclose(history["val_loss"], history["val_loss"][-1], rtol=1e-5)
    assert history["loss"][0] < history["loss"][-1]


def test_after_an_interruption_the_schedule_begins_anew():
    # Keras does not tell callbacks that training ended by an exception, such as that
    # of the button "stop" of a notebook.
    def interrupt(epoch, logs):
        raise KeyboardInterrupt

    model = make_model()
    schedule = bl.callbacks.KLSchedule(dataset_size=10, warmup_epochs=2)
    stop = keras.callbacks.LambdaCallback(on_epoch_end=interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit(model, callbacks=[schedule, stop])
    evaluate(model, X, Y, callbacks=[schedule])
    np.testing.assert_allclose(scale_of(model), 1 / 10)


def test_a_second_fit_traces_nothing(model):
    schedule = bl.callbacks.KLSchedule(dataset_size=10)
    fit(model, callbacks=[schedule])
    calls = model.layers[0].calls
    fit(model, callbacks=[schedule], epochs=2)
    if COMPILES:
        assert model.layers[0].calls == calls


def test_a_trained_model_dies_with_its_last_reference():
    model = make_model()
    fit(
        model,
        callbacks=[bl.callbacks.KLSchedule(dataset_size=10)],
        epochs=2,
        validation_data=(X, Y),
    )
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_a_model_without_bayesian_layers_is_trained_as_ever():
    # What warns would fail: a network and its Bayesian twin share their training code.
    model = make_model(keras.layers.Dense)
    history = fit(
        model,
        callbacks=[bl.callbacks.KLSchedule(dataset_size=10)],
        epochs=2,
        validation_data=(X, Y),
    )
    assert sorted(history) == ["loss", "nll", "val_loss", "val_nll"]
