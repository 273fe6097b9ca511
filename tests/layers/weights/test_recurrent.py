"""Recurrent cells: one draw for each sequence, whoever runs the loop."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.recurrent import (
    BATCH,
    ESTIMATORS,
    FEATURES,
    KINDS,
    LENGTH,
    ONES,
    UNITS,
    X,
    assert_nothing_is_held,
    drawn,
    every_estimator,
    every_kind,
    make_built_cell,
    make_cell,
    reference,
    run_by_hand,
)
from tests.layers.weights.table import array, random_weights, set_stddev

# One draw for each sequence.


@pytest.mark.parametrize(
    ("kind", "estimator", "arguments"),
    [(kind, estimator, {}) for kind in KINDS for estimator in ESTIMATORS]
    + [("GRU", "Reparameterization", {"reset_after": False})],
)
def test_a_sequence_is_that_of_numpy_with_the_drawn_weights(kind, estimator, arguments):
    cell = make_built_cell(kind, estimator, **arguments)
    layer = keras.layers.RNN(cell, return_sequences=True)
    with bl.tape() as tape:
        outputs = array(layer(X))
    assert [path.rpartition("/")[2] for path in tape] == [
        "kernel",
        "recurrent_kernel",
        "bias",
    ]
    expected, _ = reference(kind, tape.values(), X)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


@every_estimator
def test_without_a_recurrent_kernel_all_steps_of_equal_inputs_are_equal(estimator):
    cells = [
        make_cell(
            "SimpleRNN",
            estimator,
            recurrent_initializer="zeros",
            recurrent_regularizer=None,
            seed=seed,
        )
        for seed in (1, 2)
    ]
    layer = keras.layers.RNN(keras.layers.StackedRNNCells(cells), return_sequences=True)
    model = keras.Sequential([keras.Input((LENGTH, FEATURES)), layer])
    set_stddev(model, 0.5)
    # Compiled, and not.
    for outputs in (model.predict_on_batch(ONES), array(model(ONES))):
        np.testing.assert_allclose(
            outputs, np.repeat(outputs[:, :1], LENGTH, axis=1), atol=1e-6
        )


@every_estimator
def test_a_recurrent_layer_draws_before_its_loop(estimator, monkeypatch):
    cell, count = make_built_cell("GRU", estimator), []
    draw_sequence = type(cell)._draw_sequence

    def counted(*args):
        count.append(args)
        return draw_sequence(*args)

    monkeypatch.setattr(type(cell), "_draw_sequence", counted)
    keras.layers.RNN(cell, unroll=True)(X)
    assert len(count) == 1


@every_estimator
def test_a_loop_inside_of_a_compiled_layer_has_one_draw(estimator):
    class Loop(keras.Layer):
        def __init__(self):
            super().__init__()
            self.cell = make_cell(
                "SimpleRNN",
                estimator,
                recurrent_initializer="zeros",
                recurrent_regularizer=None,
            )

        def call(self, inputs):
            states = self.cell.get_initial_state(batch_size=ops.shape(inputs)[0])
            outputs = []
            for t in range(LENGTH):
                output, states = self.cell(inputs[:, t], states)
                outputs.append(output)
            return ops.stack(outputs, axis=1)

    model = keras.Sequential([keras.Input((LENGTH, FEATURES)), Loop()])
    outputs = model.predict_on_batch(ONES)
    np.testing.assert_allclose(
        outputs, np.repeat(outputs[:, :1], LENGTH, axis=1), atol=1e-6
    )
    assert_nothing_is_held(model.layers[0].cell)


def test_a_keras_that_does_not_ask_before_its_loop_is_an_error_in_words(monkeypatch):
    monkeypatch.setattr(
        keras.layers.RNN, "_maybe_config_dropout_masks", lambda *args: None
    )
    layer = keras.layers.RNN(make_built_cell("GRU"))
    with pytest.raises(RuntimeError, match="would draw new weights in each step"):
        layer(X)


# Loops written by hand.


@pytest.mark.parametrize(
    ("kind", "estimator", "arguments"),
    [(kind, estimator, {}) for kind in KINDS for estimator in ESTIMATORS]
    + [
        ("LSTM", estimator, {"dropout": 0.3, "recurrent_dropout": 0.3})
        for estimator in ESTIMATORS
    ],
)
def test_a_loop_by_hand_is_the_run_of_an_equally_seeded_cell(
    kind, estimator, arguments
):
    first, second = (
        make_built_cell(kind, estimator, seed=3, **arguments) for _ in range(2)
    )
    second.set_weights(first.get_weights())
    layer = keras.layers.RNN(first, return_sequences=True)
    for _ in range(2):
        outputs = array(layer(X, training=True))
        # An `RNN` begins a sequence twice: for the states, and before its loop.
        second.get_initial_state(batch_size=BATCH)
        np.testing.assert_allclose(
            run_by_hand(second, training=True), outputs, atol=1e-5
        )


@every_kind
def test_a_loop_by_hand_keeps_its_weights_until_the_next_sequence(kind):
    # Not built: `get_initial_state` may come before the shape of the inputs.
    cell, draws = make_cell(kind), []
    for _ in range(2):
        outputs = run_by_hand(cell)
        draws.append(drawn(cell))
        np.testing.assert_allclose(outputs, reference(kind, draws[-1], X)[0], atol=1e-5)
    for old, new in zip(*draws, strict=True):
        assert np.mean(old != new) > 0.5
    assert_nothing_is_held(cell)


def test_without_get_initial_state_a_cell_keeps_one_draw():
    cell = make_built_cell("LSTM")
    zeros = [np.zeros((BATCH, UNITS), "float32")] * 2
    expected, _ = reference("LSTM", drawn(cell), X)
    for _ in range(2):
        np.testing.assert_allclose(run_by_hand(cell, states=zeros), expected, atol=1e-5)
    outputs = run_by_hand(cell)
    np.testing.assert_allclose(outputs, reference("LSTM", drawn(cell), X)[0], atol=1e-5)
    assert np.mean(outputs != expected) > 0.5


def test_the_inputs_will_do_for_their_batch_size():
    cell = make_built_cell("LSTM")
    for state in cell.get_initial_state(X[:, 0]):
        assert ops.shape(state) == (BATCH, UNITS)


# Handlers.


@pytest.mark.parametrize(
    ("kind", "estimator"), [("GRU", "Flipout"), ("LSTM", "Reparameterization")]
)
def test_handlers_see_each_weight_once_in_a_loop_by_hand(kind, estimator):
    cell = make_built_cell(kind, estimator)
    with bl.tape() as tape:
        outputs = run_by_hand(cell)
    assert list(tape.of_sources) == random_weights(cell)
    np.testing.assert_allclose(outputs, reference(kind, tape.values(), X)[0], atol=1e-5)
    values = {path: 0.5 * array(value) for path, value in tape.items()}
    with bl.condition(values):
        outputs = run_by_hand(cell)
    np.testing.assert_allclose(
        outputs, reference(kind, values.values(), X)[0], atol=1e-5
    )
    assert_nothing_is_held(cell)


def test_under_one_handler_each_sequence_has_a_draw_of_its_own():
    cell, draws = make_built_cell("GRU"), []
    with bl.condition({}):
        for _ in range(2):
            outputs = run_by_hand(cell)
            draws.append(drawn(cell))
            expected, _ = reference("GRU", draws[-1], X)
            np.testing.assert_allclose(outputs, expected, atol=1e-5)
    for old, new in zip(*draws, strict=True):
        assert np.mean(old != new) > 0.5


def test_a_handler_entered_within_a_sequence_sees_the_draw_of_the_sequence():
    cell = make_built_cell("GRU")
    outputs = run_by_hand(cell)
    with bl.tape() as tape:
        cell(X[:, 0], np.zeros((BATCH, UNITS), "float32"))
    np.testing.assert_allclose(
        outputs, reference("GRU", tape.values(), X)[0], atol=1e-5
    )


# Nothing is left behind.


@every_estimator
@pytest.mark.parametrize("unroll", [False, True])
def test_an_exception_inside_of_the_loop_leaves_nothing_behind(estimator, unroll):
    # Unrolled, the third step fails; otherwise the step while it is traced.
    failures = [False, False, True] if unroll else [True]

    def activation(x):
        if failures and failures.pop(0):
            raise RuntimeError("activation")
        return ops.tanh(x)

    cell = make_built_cell("SimpleRNN", estimator, activation=activation)
    layer = keras.layers.RNN(cell, return_sequences=True, unroll=unroll)
    with pytest.raises(RuntimeError, match="activation"):
        layer(X)
    assert failures == []
    assert_nothing_is_held(cell)
    with bl.tape() as tape:
        outputs = array(layer(X))
    expected, _ = reference("SimpleRNN", tape.values(), X)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    assert_nothing_is_held(cell)


def test_compiled_runs_leave_nothing_behind():
    cell = make_cell("LSTM", dropout=0.3)
    model = keras.Sequential([keras.Input((LENGTH, FEATURES)), keras.layers.RNN(cell)])
    model.compile("sgd", "mse")
    bl.scale_kl(model, dataset_size=BATCH * UNITS)
    model.fit(X, np.ones((BATCH, UNITS)), verbose=0)
    model.predict(X, verbose=0)
    assert_nothing_is_held(cell)
    # Without a new sequence: the seed that a compiled function left has to do.
    zeros = [np.zeros((BATCH, UNITS), "float32")] * 2
    for states in (zeros, None):
        outputs = run_by_hand(cell, states=states)
        expected, _ = reference("LSTM", drawn(cell), X)
        np.testing.assert_allclose(outputs, expected, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="It is a test of jax.jit.")
@every_estimator
def test_a_jitted_stateless_call_leaves_nothing_behind(estimator):
    import jax

    cell = make_cell("GRU", estimator)
    model = keras.Sequential([keras.Input((LENGTH, FEATURES)), keras.layers.RNN(cell)])
    trainable = [v.value for v in model.trainable_variables]
    state = [v.value for v in model.non_trainable_variables]
    run = jax.jit(model.stateless_call)
    # The seeds are state: those that come back give the next sequence.
    for _ in range(2):
        outputs, state = run(trainable, state, X)
        assert_nothing_is_held(cell)
        np.testing.assert_allclose(array(outputs), array(model(X)), atol=1e-5)
