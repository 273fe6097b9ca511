"""Flipout of recurrent cells: each example sees one draw over its sequence."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.recurrent import sequence_of
from tests.layers.weights.table import array, set_stddev

UNITS, LENGTH, FEATURES, BATCH = 3, 3, 2, 2
KINDS = ("SimpleRNN", "GRU", "LSTM")
KERNELS = ("kernel", "recurrent_kernel")
X = np.random.default_rng(0).normal(size=(BATCH, LENGTH, FEATURES)).astype("float32")


def make_cell(kind, **kwargs):
    """A built cell whose draws are far from its means."""
    cell = getattr(bl.layers, f"{kind}CellFlipout")(UNITS, **kwargs)
    cell.build((None, FEATURES))
    set_stddev(cell, 0.5)
    return cell


def run(cell, x, **kwargs):
    """The outputs of all steps of a sequence that has begun already."""
    count = 2 if isinstance(cell, keras.layers.LSTMCell) else 1
    states = [np.zeros((len(x), UNITS), "float32")] * count
    outputs = []
    for t in range(x.shape[1]):
        output, states = cell(x[:, t], states, **kwargs)
        outputs.append(array(output))
    return np.stack(outputs, axis=1)


def kernel_of(cell, sequence, name, example):
    """The kernel that an example sees."""
    if f"{name}_flips" not in sequence:
        return array(getattr(cell, name))
    noise, signs_in, signs_out = map(array, sequence[f"{name}_flips"])
    flips = np.outer(signs_in[example], signs_out[example])
    return array(sequence[name]) + flips * noise


def mask_of(mask, example):
    """The dropout mask of an example: one, or one for each gate."""
    if isinstance(mask, list):
        return [mask_of(gate, example) for gate in mask]
    if mask is None:
        return None
    return ops.convert_to_tensor(array(mask)[example : example + 1])


def expected_outputs(kind, cell, sequence, example, arguments):
    """Those of Keras' cell, on an example alone, with the kernels that it sees."""
    reference = getattr(keras.layers, f"{kind}Cell")(UNITS, **arguments)
    reference.build((None, FEATURES))
    weights = [kernel_of(cell, sequence, name, example) for name in KERNELS]
    if cell.use_bias:
        weights.append(array(sequence["bias"]))
    reference.set_weights(weights)
    reference._dropout_mask = mask_of(cell._dropout_mask, example)
    reference._recurrent_dropout_mask = mask_of(cell._recurrent_dropout_mask, example)
    return run(reference, X[example : example + 1], training=True)[0]


CASES = {
    "plain": {},
    "no_bias": {"use_bias": False},
    "dropout": {"dropout": 0.3},
    "recurrent_dropout": {"recurrent_dropout": 0.3},
    "both_dropouts": {"dropout": 0.3, "recurrent_dropout": 0.3, "use_bias": False},
    "first_implementation": {"implementation": 1, "dropout": 0.3},
    "known_kernel": {
        "kernel_initializer": "glorot_uniform",
        "kernel_regularizer": None,
        "dropout": 0.3,
    },
    "known_recurrent_kernel": {
        "recurrent_initializer": "orthogonal",
        "recurrent_regularizer": None,
        "recurrent_dropout": 0.3,
    },
}


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        (kind, case)
        for kind in KINDS
        for case in CASES
        if (kind, case) != ("SimpleRNN", "first_implementation")
    ],
)
def test_each_example_sees_a_kernel_of_its_own(kind, case):
    arguments = CASES[case]
    cell = make_cell(kind, **arguments)
    random = [name for name in KERNELS if name in cell.random_weights]
    cell.get_initial_state(batch_size=BATCH)
    outputs = run(cell, X, training=True)
    sequence = sequence_of(cell, X[:, 0])
    assert [n for n in KERNELS if f"{n}_flips" in sequence] == random
    for name in random:
        np.testing.assert_array_equal(
            array(sequence[name]), array(cell.random_weights[name].posterior.loc)
        )
    for example in range(BATCH):
        expected = expected_outputs(kind, cell, sequence, example, arguments)
        np.testing.assert_allclose(outputs[example], expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_signs_are_of_one_and_stay_over_the_sequence(kind):
    cell = make_cell(kind, seed=1)
    x = np.ones((64, FEATURES), "float32")
    cell.get_initial_state(batch_size=64)
    first, second = sequence_of(cell, x), sequence_of(cell, x)
    columns = array(cell.kernel).shape[1]
    for name, rows in zip(KERNELS, (FEATURES, UNITS), strict=True):
        noise, *signs = map(array, first[f"{name}_flips"])
        assert noise.shape == (rows, columns)
        assert [s.shape for s in signs] == [(64, rows), (64, columns)]
        for sign in signs:
            assert set(np.unique(sign)) == {-1.0, 1.0}
            # A sum of n fair signs beyond 6 standard errors: 2e-9 each, 12 of them.
            assert abs(sign.sum()) < 6.0 * np.sqrt(sign.size)
        flips = (sequence[f"{name}_flips"] for sequence in (first, second))
        for old, new in zip(*flips, strict=True):
            np.testing.assert_array_equal(array(old), array(new))


def test_the_kernels_have_signs_of_their_own():
    # As many rows as columns in both: shared seeds would give the same signs.
    cell = bl.layers.SimpleRNNCellFlipout(UNITS, seed=1)
    cell.build((None, UNITS))
    cell.get_initial_state(batch_size=64)
    sequence = sequence_of(cell, np.ones((64, UNITS), "float32"))
    signs = [array(s).ravel() for n in KERNELS for s in sequence[f"{n}_flips"][1:]]
    # 192 products of two signs sum to 0 with a standard error of sqrt(192). Beyond 6
    # of them: 2e-9 for each of 6 pairs.
    products = np.array(signs) @ np.array(signs).T
    assert np.all(np.abs(products[np.triu_indices(4, k=1)]) < 6.0 * np.sqrt(192.0))


@pytest.mark.parametrize("name", ["GRUCellFlipout", "GRUFlipout"])
def test_a_gru_that_resets_before_is_refused(name):
    with pytest.raises(ValueError, match="reset_after=False. Use Reparam"):
        getattr(bl.layers, name)(UNITS, reset_after=False)


@pytest.mark.parametrize("argument", ["kernel", "recurrent"])
def test_posteriors_without_symmetry_are_refused(argument):
    cell = bl.layers.LSTMCellFlipout(
        UNITS, **{f"{argument}_initializer": "trainable_log_normal"}
    )
    with pytest.raises(ValueError, match="Use LSTMCellReparameterization instead"):
        cell.build((None, FEATURES))


def test_a_bias_without_symmetry_has_one_draw_for_the_batch():
    cell = make_cell("LSTM", bias_initializer="trainable_log_normal")
    cell.get_initial_state(batch_size=BATCH)
    sequence = sequence_of(cell, X[:, 0])
    assert array(sequence["bias"]).shape == (4 * UNITS,)
    assert np.all(array(sequence["bias"]) > 0.0)
