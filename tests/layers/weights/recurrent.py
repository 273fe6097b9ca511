"""What the tests of recurrent layers share: cells, and slow references of them."""

import gc

import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.weights.table import array, set_stddev

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


def sequence_of(cell, inputs):
    """What is drawn for the sequence under way: values, and noise and signs."""
    values, drawn = cell._sequence(inputs)
    return values | {f"{name}_flips": flips for name, flips in drawn.items()}


def drawn(cell):
    """The weights of the sequence under way."""
    sequence = sequence_of(cell, X[:, 0])
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
