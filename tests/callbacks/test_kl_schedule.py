"""The scale of the KL over epochs, and what the logs say the loss is made of."""

import json

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.outputs.table import array
from tests.layers.weights.table import set_stddev

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


def make_model(**kwargs):
    """A model that does not learn: what is logged can be computed afterwards."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            Count(),
            bl.layers.DenseReparameterization(
                4, activation="tanh", kl_scale=1.0, **kwargs
            ),
            bl.layers.Normal(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.0), bl.losses.NegativeLogLikelihood())
    return model


def random_layer(model):
    return model.layers[1]


def fit(model, x=X, y=Y, *, callbacks, epochs=1, **kwargs):
    return model.fit(
        x,
        y,
        batch_size=4,
        epochs=epochs,
        callbacks=callbacks,
        verbose=0,
        **kwargs,
    ).history


def structure(model):
    """What `evaluate` returns, and what the model says of its metrics."""
    logs = model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)
    return sorted(logs), model.metrics_names


@pytest.fixture(scope="module")
def model():
    return make_model()


# The weight.


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [1.0, 1.0, 1.0]),
        ({"warmup_epochs": 2}, [0.0, 0.5, 1.0, 1.0]),
        ({"warmup_epochs": 4, "initial_weight": 0.2}, [0.2, 0.4, 0.6, 0.8, 1.0, 1.0]),
        ({"warmup_epochs": 1, "final_weight": 0.1}, [0.0, 0.1, 0.1]),
        (
            {"warmup_epochs": 2, "initial_weight": 3.0, "final_weight": 1.0},
            [3.0, 2.0, 1.0],
        ),
    ],
)
def test_the_weight_grows_linearly_and_stays(arguments, expected):
    schedule = bl.callbacks.KLSchedule(**arguments)
    weights = [schedule.weight(epoch) for epoch in range(len(expected))]
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
        bl.callbacks.KLSchedule(**{name: value})


def test_the_config_survives_json():
    schedule = bl.callbacks.KLSchedule(100, 3, 0.1, 0.5)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(schedule)))
    copy = keras.saving.deserialize_keras_object(config)
    assert isinstance(copy, bl.callbacks.KLSchedule)
    assert copy.get_config() == schedule.get_config()
    assert copy.get_config() == {
        "dataset_size": 100,
        "warmup_epochs": 3,
        "initial_weight": 0.1,
        "final_weight": 0.5,
    }


# The logs.


@pytest.fixture(scope="module")
def held_fit():
    """The logs of a fit with held weights, and what `evaluate` says of them."""
    model = make_model(seed=1)
    validation = (X[:5] + 1.0, Y[:5])
    schedule = bl.callbacks.KLSchedule(
        warmup_epochs=2, initial_weight=0.0, final_weight=1.5
    )
    calls, scales = [], []
    record = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: (
            calls.append(model.layers[0].calls),
            scales.append(random_layer(model).kl_scale),
        )
    )
    with bl.weights(model, "mean"):
        history = fit(
            model,
            callbacks=[schedule, record],
            epochs=4,
            validation_data=validation,
        )
        loss = model.evaluate(X, Y, batch_size=4, verbose=0)
        bl.scale_kl(model, dataset_size=1, weight=0.0)
        nll = model.evaluate(X, Y, batch_size=4, verbose=0)
        val_nll = model.evaluate(*validation, batch_size=4, verbose=0)
    return {
        "model": model,
        "history": history,
        "loss": loss,
        "nll": nll,
        "val_nll": val_nll,
        "calls": calls,
        "scales": scales,
    }


def test_each_epoch_has_its_scale(held_fit):
    np.testing.assert_allclose(held_fit["scales"], np.array([0, 0.75, 1.5, 1.5]) / 10)


@pytest.mark.skipif(not COMPILES, reason="Keras runs torch without tracing.")
def test_nothing_is_traced_again_when_the_scale_changes(held_fit):
    # The first epoch traces training and validation, each for two sizes of batches.
    assert len(set(held_fit["calls"])) == 1


def test_nll_is_what_evaluate_gives_without_the_divergence(held_fit):
    for name in ("nll", "val_nll"):
        np.testing.assert_allclose(
            held_fit["history"][name], [held_fit[name]] * 4, rtol=1e-5
        )


def test_the_loss_is_nll_plus_the_weighted_divergence_per_example(held_fit):
    history = {name: np.array(values) for name, values in held_fit["history"].items()}
    weight = np.array([0.0, 0.75, 1.5, 1.5])
    for prefix in ("", "val_"):
        np.testing.assert_allclose(
            history[f"{prefix}loss"],
            history[f"{prefix}nll"] + history["kl"] * weight / 10,
            rtol=1e-5,
        )
    np.testing.assert_allclose(
        history["kl"], [array(bl.total_kl(held_fit["model"]))] * 4, rtol=1e-6
    )
    assert sorted(history) == ["kl", "loss", "nll", "val_loss", "val_nll"]


def test_the_scale_of_the_last_epoch_stays_for_evaluate(held_fit):
    np.testing.assert_allclose(
        held_fit["loss"], held_fit["history"]["loss"][-1], rtol=1e-5
    )


def test_metrics_of_the_model_are_logged_as_well_and_stay_as_they_were():
    model = make_model()
    model.compile(
        keras.optimizers.SGD(0.0),
        bl.losses.NegativeLogLikelihood(),
        metrics=["mae"],
    )
    before = structure(model)
    history = fit(model, callbacks=[bl.callbacks.KLSchedule()])
    assert sorted(history) == ["kl", "loss", "mae", "nll"]
    assert structure(model) == before
    assert before[0] == ["loss", "mae"]


# Other callbacks.


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_early_stopping_can_watch_val_nll_on_either_side(model, first):
    # Nothing is learned, and the weights are held: the second epoch is no better.
    stop = keras.callbacks.EarlyStopping(monitor="val_nll", patience=1)
    callbacks = [stop, bl.callbacks.KLSchedule()]
    with bl.weights(model, "mean"):
        history = fit(
            model,
            callbacks=callbacks if first else callbacks[::-1],
            epochs=5,
            validation_data=(X, Y),
        )
    assert stop.monitor_op is ops.less
    assert len(history["val_nll"]) == 2


# The number of examples.


def scale_after(model, x=X, y=Y, **kwargs):
    fit(model, x, y, callbacks=[bl.callbacks.KLSchedule()], **kwargs)
    return random_layer(model).kl_scale


def test_the_examples_are_those_of_the_arrays(model):
    np.testing.assert_allclose(scale_after(model), 1 / 10)


def test_the_examples_are_those_that_are_left_for_training(model):
    np.testing.assert_allclose(scale_after(model, validation_split=0.2), 1 / 8)


def test_the_examples_are_those_of_the_data_set_of_a_data_loader(model):
    import torch.utils.data

    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    schedule = bl.callbacks.KLSchedule()
    model.fit(loader, callbacks=[schedule], shuffle=False, verbose=0)
    np.testing.assert_allclose(random_layer(model).kl_scale, 1 / 10)


def test_a_given_size_is_taken(model):
    fit(model, callbacks=[bl.callbacks.KLSchedule(dataset_size=500)])
    np.testing.assert_allclose(random_layer(model).kl_scale, 1 / 500)


def test_a_generator_needs_the_size_to_be_given(model):
    def batches():
        while True:
            yield X[:4], Y[:4]

    arguments = {"steps_per_epoch": 2, "shuffle": False, "verbose": 0}
    with pytest.raises(ValueError, match="dataset_size=..."):
        model.fit(batches(), callbacks=[bl.callbacks.KLSchedule()], **arguments)
    schedule = bl.callbacks.KLSchedule(dataset_size=50)
    model.fit(batches(), callbacks=[schedule], **arguments)
    np.testing.assert_allclose(random_layer(model).kl_scale, 1 / 50)
    assert structure(model) == (["loss"], ["loss"])


# One fit after another.


def test_a_second_fit_tracks_again_and_traces_nothing(model):
    schedule = bl.callbacks.KLSchedule()
    fit(model, callbacks=[schedule])
    calls = model.layers[0].calls
    history = fit(model, callbacks=[schedule], epochs=2)
    assert sorted(history) == ["kl", "loss", "nll"]
    if COMPILES:
        assert model.layers[0].calls == calls
    assert structure(model) == (["loss"], ["loss"])


def test_a_fit_without_it_logs_as_ever(model):
    fit(model, callbacks=[bl.callbacks.KLSchedule()])
    assert sorted(fit(model, callbacks=[])) == ["loss"]


def test_after_an_interruption_evaluate_returns_what_it_did():
    # Keras does not tell callbacks that training ended by an exception, such as that
    # of the button "stop" of a notebook.
    def interrupt(epoch, logs):
        raise KeyboardInterrupt

    model = make_model()
    before = structure(model)
    stop = keras.callbacks.LambdaCallback(on_epoch_end=interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit(model, callbacks=[bl.callbacks.KLSchedule(), stop])
    assert structure(model) == before


def test_it_tracks_held_weights_in_a_block_and_drawn_ones_outside_of_it():
    # What was compiled in a block must not stay, nor what was compiled before it.
    model = make_model(seed=1)
    model.layers[-1].projection.kernel.assign([[1000.0, 0.0]] * 4)
    set_stddev(model, 5.0)
    schedule = bl.callbacks.KLSchedule()
    drawn = []
    for _ in range(2):
        drawn.append(fit(model, callbacks=[schedule], epochs=2)["nll"])
        with bl.weights(model, "mean"):
            held = fit(model, callbacks=[schedule], epochs=2)["nll"]
            bl.scale_kl(model, dataset_size=1, weight=0.0)
            expected = [model.evaluate(X, Y, batch_size=4, verbose=0)] * 2
        np.testing.assert_allclose(held, expected, rtol=1e-4)
        drawn.append(fit(model, callbacks=[schedule], epochs=2)["nll"])
    # Draws are far from the mean of the weights, and each from the others: losses of
    # the order of 1e6 agree to 1e-4 in both epochs with a probability of about 1e-8,
    # for each of ten pairs.
    losses = np.array([*drawn, expected])
    distances = np.abs(losses[:, None] - losses).max(axis=-1) / losses.max()
    assert np.min(distances + np.eye(5)) > 1e-4
