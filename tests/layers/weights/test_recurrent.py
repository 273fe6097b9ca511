"""Recurrent layers: one draw for each sequence, whoever runs the loop."""

import gc

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.table import (
    array,
    random_weights,
    set_stddev,
)

UNITS, LENGTH, FEATURES, BATCH = 3, 4, 2, 2
KINDS = ("SimpleRNN", "GRU", "LSTM")
ESTIMATORS = ("Reparameterization", "Flipout")
X = np.random.default_rng(0).normal(size=(BATCH, LENGTH, FEATURES)).astype("float32")
ONES = np.ones((BATCH, LENGTH, FEATURES), "float32")

every_kind = pytest.mark.parametrize("kind", KINDS)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def make_cell(kind, estimator="Reparameterization", **kwargs):
    return getattr(bl.layers, f"{kind}Cell{estimator}")(UNITS, **kwargs)


def make_built_cell(kind, estimator="Reparameterization", **kwargs):
    """A cell whose draws are far from its means."""
    cell = make_cell(kind, estimator, **kwargs)
    cell.build((None, FEATURES))
    set_stddev(cell, 0.5)
    return cell


# Slow references: the equations of the three cells, with weights fixed over time.


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def simple_rnn_step(x, states, kernel, recurrent_kernel, bias):
    h = np.tanh(x @ kernel + states[0] @ recurrent_kernel + bias)
    return [h]


def gru_step(x, states, kernel, recurrent_kernel, bias):
    (h,) = states
    kernels, recurrent = np.split(kernel, 3, 1), np.split(recurrent_kernel, 3, 1)
    if bias.ndim == 2:
        # Keras' `reset_after=True`: the state has a bias of its own.
        (bz, br, bh), (cz, cr, ch) = (np.split(b, 3) for b in bias)
    else:
        (bz, br, bh), (cz, cr, ch) = np.split(bias, 3), (0.0, 0.0, 0.0)
    z = sigmoid(x @ kernels[0] + bz + h @ recurrent[0] + cz)
    r = sigmoid(x @ kernels[1] + br + h @ recurrent[1] + cr)
    if bias.ndim == 2:
        candidate = np.tanh(x @ kernels[2] + bh + r * (h @ recurrent[2] + ch))
    else:
        candidate = np.tanh(x @ kernels[2] + bh + (r * h) @ recurrent[2])
    return [z * h + (1.0 - z) * candidate]


def lstm_step(x, states, kernel, recurrent_kernel, bias):
    h, c = states
    gates = np.split(x @ kernel + h @ recurrent_kernel + bias, 4, axis=1)
    i, f, o = sigmoid(gates[0]), sigmoid(gates[1]), sigmoid(gates[3])
    c = f * c + i * np.tanh(gates[2])
    return [o * np.tanh(c), c]


STEPS = {"SimpleRNN": simple_rnn_step, "GRU": gru_step, "LSTM": lstm_step}


def reference(kind, weights, x, states=None):
    """The outputs of all steps and the last states, given the drawn weights."""
    weights = [array(weight) for weight in weights]
    if states is None:
        states = [np.zeros((len(x), UNITS))] * (2 if kind == "LSTM" else 1)
    outputs = []
    for t in range(x.shape[1]):
        states = STEPS[kind](x[:, t], states, *weights)
        outputs.append(states[0])
    return np.stack(outputs, axis=1), states


def run_by_hand(cell, x=X, states=None, training=False):
    """The outputs of all steps of a loop that begins a sequence, or continues one."""
    if states is None:
        states = cell.get_initial_state(batch_size=len(x))
    outputs = []
    for t in range(x.shape[1]):
        output, states = cell(x[:, t], states, training=training)
        outputs.append(array(output))
    return np.stack(outputs, axis=1)


def drawn(cell):
    """The weights of the sequence under way."""
    sequence = cell._sequence(X[:, 0])
    return [array(sequence[name]) for name in ("kernel", "recurrent_kernel", "bias")]


def assert_nothing_is_held(cell):
    gc.collect()
    assert len(cell._held._values) == 0
    assert any(cell.kernel is variable for variable in cell.trainable_variables)


def standardized(tape):
    """The standard normal noise behind each draw, by path."""
    return {
        path: (array(entry.value) - array(entry.distribution.loc))
        / array(entry.distribution.scale)
        for path, entry in tape.items()
    }


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
        make_cell("SimpleRNN", estimator, recurrent_initializer="zeros", seed=seed)
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
    draw_sequence = type(cell).draw_sequence

    def counted(*args):
        count.append(args)
        return draw_sequence(*args)

    monkeypatch.setattr(type(cell), "draw_sequence", counted)
    keras.layers.RNN(cell, unroll=True)(X)
    assert len(count) == 1


@every_estimator
def test_a_loop_inside_of_a_compiled_layer_has_one_draw(estimator):
    class Loop(keras.Layer):
        def __init__(self):
            super().__init__()
            self.cell = make_cell("SimpleRNN", estimator, recurrent_initializer="zeros")

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


# Handlers.


@pytest.mark.parametrize(
    ("kind", "estimator"), [("GRU", "Flipout"), ("LSTM", "Reparameterization")]
)
def test_handlers_see_each_weight_once_in_a_loop_by_hand(kind, estimator):
    cell = make_built_cell(kind, estimator)
    with bl.tape() as tape:
        outputs = run_by_hand(cell)
    assert list(tape) == [weight.path for weight in random_weights(cell)]
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


# What Keras' layers can do.

MASK = np.array([[True, False, True, False], [True, True, False, True]])


@pytest.mark.parametrize(
    ("arguments", "call_arguments"),
    [
        ({"return_sequences": True, "return_state": True}, {}),
        ({"go_backwards": True, "unroll": True}, {}),
        ({"return_sequences": True, "return_state": True}, {"mask": MASK}),
        ({"return_sequences": True, "zero_output_for_mask": True}, {"mask": MASK}),
        ({"dropout": 0.4, "recurrent_dropout": 0.4}, {"training": True}),
        ({"dropout": 0.4, "use_bias": False}, {"training": True}),
    ],
    ids=["states", "backwards", "mask", "zero_output", "dropout", "no_bias"],
)
@pytest.mark.parametrize(
    ("kind", "estimator"), [("GRU", "Flipout"), ("LSTM", "Reparameterization")]
)
def test_it_is_the_keras_layer_given_the_draws(
    kind, estimator, arguments, call_arguments
):
    # The seed is also that of dropout, in Keras' layer and in ours.
    arguments = {"units": UNITS, "seed": 5, "use_cudnn": False, **arguments}
    layer = getattr(bl.layers, f"{kind}{estimator}")(**arguments)
    layer.build(X.shape)
    set_stddev(layer, 0.5)
    with bl.tape() as tape:
        outputs = layer(X, **call_arguments)
    keras_twin = getattr(keras.layers, kind)(**arguments)
    keras_twin.build(X.shape)
    keras_twin.set_weights([array(value) for value in tape.values()])
    expected = keras_twin(X, **call_arguments)
    if not isinstance(outputs, (list, tuple)):
        outputs, expected = [outputs], [expected]
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(array(ours), array(theirs), atol=1e-5)


@every_estimator
def test_masked_steps_keep_the_state(estimator):
    layer = getattr(bl.layers, f"LSTM{estimator}")(UNITS, return_sequences=True)
    outputs = array(layer(X, mask=MASK))
    for example, t in zip(*np.nonzero(~MASK), strict=True):
        np.testing.assert_array_equal(outputs[example, t], outputs[example, t - 1])


def test_a_given_initial_state_is_where_the_sequence_begins():
    layer = bl.layers.GRUReparameterization(UNITS, return_sequences=True)
    state = np.full((BATCH, UNITS), 0.3, "float32")
    with bl.tape() as tape:
        outputs = array(layer(X, initial_state=state))
    expected, _ = reference("GRU", tape.values(), X, [state])
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_a_stateful_layer_continues_its_state_with_new_weights():
    layer = bl.layers.LSTMReparameterization(
        UNITS, stateful=True, return_sequences=True
    )
    layer.build(X.shape)
    set_stddev(layer, 0.5)
    states, draws = None, []
    for _ in range(2):
        with bl.tape() as tape:
            outputs = array(layer(X))
        draws.append(tape)
        expected, states = reference("LSTM", tape.values(), X, states)
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
    for old, new in zip(*(tape.values() for tape in draws), strict=True):
        assert np.mean(array(old) != array(new)) > 0.5
    layer.reset_state()
    with bl.replay(draws[0]):
        outputs = array(layer(X))
    expected, _ = reference("LSTM", draws[0].values(), X)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_stacked_cells_are_drawn_once_each():
    cells = [make_cell("LSTM"), make_cell("GRU", "Flipout")]
    layer = keras.layers.RNN(keras.layers.StackedRNNCells(cells), return_sequences=True)
    with bl.tape() as tape:
        outputs = array(layer(X))
    assert list(tape) == [weight.path for weight in random_weights(layer)]
    draws = list(tape.values())
    hidden, _ = reference("LSTM", draws[:3], X)
    expected, _ = reference("GRU", draws[3:], hidden)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    for cell in cells:
        assert_nothing_is_held(cell)


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_the_implementation_of_the_cell_is_the_one_that_was_asked_for(kind):
    for implementation in (1, 2):
        arguments = {"implementation": implementation, "dropout": 0.5}
        theirs = getattr(keras.layers, kind)(UNITS, **arguments)
        ours = getattr(bl.layers, f"{kind}Reparameterization")(UNITS, **arguments)
        assert ours.cell.implementation == theirs.cell.implementation


# Bidirectional.


def directions(inner):
    """A model of both directions of a layer with an integer seed."""
    inputs = keras.Input((LENGTH, FEATURES))
    if inner == "layer":
        layer = bl.layers.LSTMReparameterization(UNITS, seed=1)
    else:
        layer = keras.layers.RNN(make_cell("LSTM", seed=1))
    outputs = keras.layers.Bidirectional(layer, name="both")(inputs)
    return keras.Model(inputs, outputs)


def assert_directions_draw_apart(model):
    with bl.tape() as tape:
        model(X)
    noises = [noise.ravel() for noise in standardized(tape).values()]
    assert len(noises) == 6
    forward, backward = np.concatenate(noises[:3]), np.concatenate(noises[3:])
    # 72 pairs: the correlation of independent noise has a standard error of 0.12,
    # and is beyond 0.6 with a probability below 1e-7.
    assert abs(np.corrcoef(forward, backward)[0, 1]) < 0.6


@pytest.mark.parametrize("inner", ["layer", "cell"])
def test_the_directions_of_a_seeded_layer_draw_apart(inner):
    assert_directions_draw_apart(directions(inner))


@pytest.mark.parametrize("inner", ["layer", "cell"])
def test_the_directions_draw_apart_in_a_model_that_was_loaded(inner, tmp_path):
    directions(inner).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    forward, backward = (
        random_weights(layer)
        for layer in (
            loaded.get_layer("both").forward_layer,
            loaded.get_layer("both").backward_layer,
        )
    )
    for first, second in zip(forward, backward, strict=True):
        assert first.path != second.path
    assert_directions_draw_apart(loaded)


def test_the_directions_draw_apart_whatever_the_layer_around_them_is_called():
    class Around(keras.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            layer = bl.layers.LSTMReparameterization(UNITS, seed=1)
            self.both = keras.layers.Bidirectional(layer)

        def build(self, input_shape):
            self.both.build(input_shape)

        def call(self, inputs):
            return self.both(inputs)

    assert_directions_draw_apart(Around(name="backward_pass"))


# Moments.

DRAWS = 500
STDDEV = 0.3


@every_estimator
@pytest.mark.parametrize("random", ["kernel", "recurrent_kernel"])
def test_outputs_have_the_mean_and_covariance_of_the_closed_form(estimator, random):
    # Two steps of a linear cell from a state of zeros: x2 @ kernel + x1 @ kernel @
    # recurrent_kernel. With one of the two random, it is linear in that one.
    known = {
        "kernel": {"recurrent_initializer": "zeros"},
        "recurrent_kernel": {"kernel_initializer": "glorot_uniform"},
    }[random]
    layer = getattr(bl.layers, f"SimpleRNN{estimator}")(
        UNITS, activation=None, use_bias=False, seed=11, **known
    )
    model = keras.Sequential([keras.Input((2, FEATURES)), layer])
    set_stddev(layer, STDDEV)
    # Two examples that point the same way: with a shared draw they are correlated.
    x = np.stack([X[0, :2], 0.7 * X[0, :2]])
    draws = np.stack([model.predict_on_batch(x) for _ in range(DRAWS)])

    x1, x2 = x[:, 0], x[:, 1]
    kernel = array(layer.cell.kernel)
    recurrent_kernel = array(layer.cell.recurrent_kernel)
    mean = x2 @ kernel + x1 @ kernel @ recurrent_kernel
    multiplied = x2 if random == "kernel" else x1 @ kernel
    between_examples = STDDEV**2 * multiplied @ multiplied.T
    if estimator == "Flipout":
        between_examples = np.diag(np.diag(between_examples))
    expected = np.kron(between_examples, np.eye(UNITS))

    # An entry of the covariance has a standard error of about sqrt(2 / 500) = 6.3% of
    # its variances. 27 entries within 6 standard errors: for normal entries the rate
    # of false failures is below 1e-7.
    centred = (draws - mean).reshape(DRAWS, -1)
    standard_error = centred.std(axis=0) / np.sqrt(DRAWS)
    assert np.all(np.abs(centred.mean(axis=0)) < 6.0 * standard_error)
    products = centred[:, :, None] * centred[:, None, :]
    standard_error = products.std(axis=0) / np.sqrt(DRAWS)
    assert np.all(np.abs(products.mean(axis=0) - expected) < 6.0 * standard_error)
    # The covariance between examples under a shared draw would be seen.
    assert abs(multiplied[0] @ multiplied[1]) * STDDEV**2 > 6.0 * standard_error[0, 3]


# Divergence and defaults.


def closed_form(weight):
    """KL(Normal(mean, stddev) || Normal(0, 1)), summed over a weight."""
    mean, stddev = array(weight.distribution.loc), array(weight.distribution.scale)
    return np.sum(0.5 * (mean**2 + stddev**2 - 1.0) - np.log(stddev))


@pytest.mark.parametrize("name", ["GRUFlipout", "LSTMReparameterization"])
def test_the_divergence_counts_each_weight_once_whatever_the_length(name):
    layer = getattr(bl.layers, name)(UNITS)
    for length in (1, LENGTH):
        layer(keras.Input((length, FEATURES)))
        assert len(layer.losses) == 3
        expected = sum(closed_form(weight) for weight in random_weights(layer))
        np.testing.assert_allclose(array(sum(layer.losses)), expected, rtol=1e-5)
        np.testing.assert_allclose(array(bl.total_kl(layer)), expected, rtol=1e-5)
    layer.kl_scale = 0.25
    np.testing.assert_allclose(array(sum(layer.losses)), 0.25 * expected, rtol=1e-5)


def test_scale_kl_reaches_the_parts_before_and_after_they_are_built():
    class Network(keras.Model):
        def __init__(self):
            super().__init__()
            self.recurrent = bl.layers.LSTMReparameterization(
                UNITS, return_sequences=True
            )
            self.attention = bl.layers.MultiHeadAttentionFlipout(1, 2)
            self.last = keras.layers.RNN(make_cell("SimpleRNN"))

        def call(self, inputs):
            hidden = self.recurrent(inputs)
            return self.last(self.attention(hidden, hidden))

    model = Network()
    for size in (50, 20):
        bl.scale_kl(model, dataset_size=size)
        model(keras.Input((LENGTH, FEATURES)))
        parts = [p for p in model._flatten_layers() if hasattr(p, "random_weights")]
        assert len(parts) == 1 + 4 + 1
        for part in (*parts, model.recurrent, model.attention):
            np.testing.assert_allclose(part.kl_scale, 1.0 / size, rtol=1e-6)
        assert len(model.losses) == 3 + 4 + 3
        np.testing.assert_allclose(
            size * array(sum(model.losses)), array(bl.total_kl(model)), rtol=1e-5
        )


@every_estimator
def test_the_mean_of_the_bias_starts_at_one_at_the_forget_gate(estimator):
    for unit_forget_bias, forget in ((True, 1.0), (False, 0.0)):
        layer = getattr(bl.layers, f"LSTM{estimator}")(
            UNITS, unit_forget_bias=unit_forget_bias
        )
        layer.build(X.shape)
        weight = layer.cell.random_weights["bias"]
        expected = np.repeat([0.0, forget, 0.0, 0.0], UNITS)
        np.testing.assert_array_equal(array(weight.distribution.loc), expected)
        # The scale by name: softplus(-3).
        np.testing.assert_allclose(array(weight.distribution.scale), 0.0486, rtol=1e-3)


def test_a_mean_of_the_bias_that_was_given_stands_beside_the_forget_gate():
    posterior = bl.initializers.TrainableNormal(
        mean_initializer=keras.initializers.Constant(0.5)
    )
    cell = make_cell("LSTM", bias_initializer=posterior)
    cell.build((None, FEATURES))
    expected = np.repeat([0.5, 1.0, 0.5, 0.5], UNITS)
    np.testing.assert_array_equal(array(cell.bias), expected)


@every_kind
def test_the_mean_of_the_recurrent_kernel_starts_orthogonal(kind):
    # As Keras' does: the default of that argument, not of the kernel's.
    cell = make_cell(kind)
    cell.build((None, FEATURES))
    rows = array(cell.recurrent_kernel)
    np.testing.assert_allclose(rows @ rows.T, np.eye(UNITS), atol=1e-5)


# What is refused.


@pytest.mark.parametrize("name", ["GRUFlipout", "LSTMReparameterization"])
def test_fused_kernels_are_refused_and_off(name):
    with pytest.raises(ValueError, match="cannot use fused kernels"):
        getattr(bl.layers, name)(UNITS, use_cudnn=True)
    assert getattr(bl.layers, name)(UNITS).use_cudnn is False


@every_estimator
def test_time_distributed_is_refused(estimator):
    inner = getattr(bl.layers, f"LSTM{estimator}")(UNITS)
    layer = keras.layers.TimeDistributed(inner)
    with pytest.raises(ValueError, match="`keras.layers.TimeDistributed`"):
        layer(np.ones((BATCH, 2, LENGTH, FEATURES), "float32"))
