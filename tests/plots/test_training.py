"""The curves of a training, against the logs."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.plots.predictions import labels, line

LOGS = {
    "loss": [3.0, 2.0, 1.0, 0.5],
    "nll": [2.0, 1.5, 0.9, 0.4],
    "kl": [100.0, 80.0, 50.0, 40.0],
    "val_loss": [4.0, 3.0, 2.0, 1.0],
    "val_nll": [2.5, 2.0, 1.0, 0.9],
    "accuracy": [0.1, 0.2, 0.3, 0.4],
}


def test_the_cost_of_data_and_of_weights_have_a_panel_each():
    left, right = bl.plots.training(LOGS)
    assert labels(left) == ["loss", "val_loss", "nll", "val_nll"]
    for name in labels(left):
        np.testing.assert_array_equal(line(left, name), [[1, 2, 3, 4], LOGS[name]])
    np.testing.assert_array_equal(line(right, "kl"), [[1, 2, 3, 4], LOGS["kl"]])
    styles = {curve.get_label(): curve.get_linestyle() for curve in left.lines}
    assert styles == {"loss": "-", "nll": "-", "val_loss": "--", "val_nll": "--"}
    assert len({curve.get_color() for curve in [*left.lines, *right.lines]}) == 5
    assert right.get_ylabel() == "KL of all weights (nats)"


def test_a_network_without_a_kl_has_one_panel_and_other_metrics_may_be_asked_for():
    logs = {name: values for name, values in LOGS.items() if name != "kl"}
    [panel] = bl.plots.training(logs, metrics=["accuracy"])
    assert [curve.get_label() for curve in panel.lines] == ["accuracy"]
    assert panel.get_ylabel() == "accuracy" and panel.get_legend() is None
    [again] = bl.plots.training(logs, metrics="nll", ax=panel)
    assert again is panel


def test_epochs_are_those_of_the_history_and_of_the_validation():
    history = keras.callbacks.History()
    history.history = {"loss": [4.0, 3.0, 2.0, 1.0, 0.5], "val_loss": [2.5, 1.5]}
    history.epoch = [4, 5, 6, 7, 8]
    [panel] = bl.plots.training(history, validation_freq=3)
    np.testing.assert_array_equal(line(panel, "loss")[0], [5, 6, 7, 8, 9])
    np.testing.assert_array_equal(line(panel, "val_loss"), [[6, 9], [2.5, 1.5]])
    [panel] = bl.plots.training(history, validation_freq=[2, 5, 8])
    np.testing.assert_array_equal(line(panel, "val_loss")[0], [5, 8])


def test_what_fit_returns_is_drawn():
    x = np.ones((8, 2), "float32")
    model = keras.Sequential(
        [keras.Input((2,)), bl.layers.DenseFlipout(1), bl.layers.Normal(1)]
    )
    model.compile(
        "adam",
        bl.losses.NegativeLogLikelihood(),
        metrics=[bl.metrics.NegativeLogLikelihood()],
    )
    history = model.fit(
        x,
        x[:, :1],
        epochs=4,
        validation_data=(x, x[:, :1]),
        validation_freq=2,
        callbacks=[bl.callbacks.KLSchedule(dataset_size=8)],
        verbose=0,
    )
    left, right = bl.plots.training(history, validation_freq=2)
    assert labels(left) == ["loss", "val_loss", "nll", "val_nll"]
    expected = [[2, 4], history.history["val_loss"]]
    np.testing.assert_allclose(line(left, "val_loss"), expected)
    np.testing.assert_allclose(line(right, "kl")[1], history.history["kl"])


def test_one_epoch_is_a_point_and_epochs_are_integers():
    left, right = bl.plots.training({"loss": [1.0], "kl": [2.0]})
    assert left.lines[0].get_marker() == right.lines[0].get_marker() == "o"
    left, _ = bl.plots.training(LOGS)
    left.figure.canvas.draw()
    assert all(tick == round(tick) for tick in left.get_xticks())


BAD = {
    "no history": (3, {}, TypeError, "what `model.fit` returned"),
    "empty": ({}, {}, ValueError, "at least one epoch"),
    "nothing known": ({"accuracy": [1.0]}, {}, ValueError, r"with \['accuracy'\]"),
    "unknown": (LOGS, {"metrics": ["mae"]}, ValueError, r"metrics=\['mae'\]"),
    "validation": (LOGS, {"validation_freq": 2}, ValueError, "each of 2 epochs"),
    "frequency": (LOGS, {"validation_freq": 0}, ValueError, "validation_freq=0"),
    "one panel": (LOGS, {"ax": 3}, TypeError, "array of 2 `Axes`"),
    "shape": ({"loss": [1.0], "kl": []}, {}, ValueError, r"'kl'.*\(0,\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises(name):
    history, kwargs, error, match = BAD[name]
    with pytest.raises(error, match=match):
        bl.plots.training(history, **kwargs)
