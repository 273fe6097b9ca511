"""Recurrent layers: what Keras' can do, moments, divergence, defaults."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.weights.recurrent import (
    BATCH,
    FEATURES,
    LENGTH,
    UNITS,
    X,
    assert_nothing_is_held,
    every_estimator,
    every_kind,
    make_cell,
    reference,
    standardized,
)
from tests.layers.weights.table import (
    array,
    assert_same_outputs,
    random_weights,
    set_stddev,
)

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
    assert_same_outputs(outputs, expected)


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
    assert list(tape.of_sources) == random_weights(layer)
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
    assert_directions_draw_apart(loaded)


def test_a_backward_layer_of_its_own_with_the_same_seed_draws_apart():
    forward, backward = (
        bl.layers.LSTMReparameterization(UNITS, seed=1, go_backwards=go_backwards)
        for go_backwards in (False, True)
    )
    inputs = keras.Input((LENGTH, FEATURES))
    layer = keras.layers.Bidirectional(forward, backward_layer=backward)
    assert_directions_draw_apart(keras.Model(inputs, layer(inputs)))


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
        "kernel": {"recurrent_initializer": "zeros", "recurrent_regularizer": None},
        "recurrent_kernel": {
            "kernel_initializer": "glorot_uniform",
            "kernel_regularizer": None,
        },
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
    mean, stddev = array(weight.posterior.loc), array(weight.posterior.scale)
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
        np.testing.assert_array_equal(array(weight.posterior.loc), expected)
        # The scale by name: softplus(-3).
        np.testing.assert_allclose(array(weight.posterior.scale), 0.0486, rtol=1e-3)


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
