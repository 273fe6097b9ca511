"""Noise that second moments cannot see: half of a pair of signs, a shared stream.

All means are zero and the noise is fixed by the seed: what is asserted of signs depends
on the draws of one call only, and fails for fair signs with a probability below 1e-12.
"""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.weights.recurrent import KINDS
from tests.layers.weights.table import ROWS, array, make_built, random_weights
from tests.layers.weights.table import set_stddev as set_stddev_of
from tests.statistics import assert_mean, assert_variance

ROWS_OF_X = 256
GATES = {"SimpleRNN": 1, "GRU": 3, "LSTM": 4}


def noisy(layer, stddev=1.0):
    """The layer with means of zero."""
    for weight in random_weights(layer):
        weight.location.assign(np.zeros(weight.location.shape))
    set_stddev_of(layer, stddev)
    return layer


def flipout(name):
    """A layer from 3 channels to 2, as a function from rows to rows."""
    arguments, shape = {
        "Dense": ({"units": 2}, (3,)),
        "EinsumDense": ({"equation": "abc,cd->abd", "output_shape": (1, 2)}, (1, 3)),
        "Conv1D": ({"filters": 2, "kernel_size": 1}, (1, 3)),
        "Conv2DTranspose": ({"filters": 2, "kernel_size": 1}, (1, 1, 3)),
    }[name]
    layer = getattr(bl.layers, f"{name}Flipout")(seed=3, **arguments)
    layer.build((None, *shape))
    noisy(layer)
    return lambda x: array(layer(x.reshape(-1, *shape))).reshape(-1, 2)


def unit(size):
    x = np.zeros((ROWS_OF_X, size), "float32")
    x[:, 0] = 1.0
    return x


def assert_both_signs(x):
    assert set(np.sign(x)) == {-1.0, 1.0}


def distinct(x):
    return len(np.unique(np.round(x, 4)))


# The signs of Flipout. With rows of one unit vector an output is s_n t_nj noise_j.


@pytest.mark.parametrize("name", ["Dense", "EinsumDense", "Conv1D", "Conv2DTranspose"])
def test_examples_have_signs_of_their_own(name):
    run = flipout(name)
    outputs = run(unit(3))
    # The sign of the input cancels: what is left are those of two outputs.
    assert_both_signs(outputs[:, 0] * outputs[:, 1])
    # |sum_i s_ni noise_ij| of three inputs: 4 values, and one if s were shared.
    outputs = run(np.ones((ROWS_OF_X, 3), "float32"))
    assert distinct(np.abs(outputs[:, 0])) == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["kernel", "recurrent_kernel"])
def test_examples_have_signs_of_their_own_in_cells(kind, kernel):
    layer = getattr(bl.layers, f"{kind}CellFlipout")(
        3, seed=3, bias_initializer="zeros", bias_regularizer=None
    )
    layer.build((None, 3))
    noisy(layer)

    def step(x):
        layer.get_initial_state(batch_size=ROWS_OF_X)
        zeros = np.zeros((ROWS_OF_X, 3), "float32")
        x, state = (x, zeros) if kernel == "kernel" else (zeros, x)
        states = [state, zeros] if kind == "LSTM" else [state]
        return array(layer(x, states)[0])

    # Gates are positive: an output has the sign of its candidate.
    outputs = step(unit(3))
    assert_both_signs(outputs[:, 1] * outputs[:, 2])
    # With input signs that are shared, only the output signs of the gates are left.
    outputs = step(np.ones((ROWS_OF_X, 3), "float32"))
    assert distinct(outputs[:, 0]) > 2 ** GATES[kind]


# Streams.


UNSEEDED = [
    "DenseReparameterization",
    "DenseFlipout",
    "DenseLocalReparameterization",
    "DenseVariationalDropout",
    "EmbeddingReparameterization",
    "LSTMCellReparameterization",
    "GRUFlipout",
    "MultiHeadAttentionReparameterization",
]


@pytest.mark.parametrize("name", UNSEEDED)
def test_layers_without_a_seed_have_noise_of_their_own(name):
    row = ROWS[name]
    first, second = (make_built(name) for _ in range(2))
    second.set_weights(first.get_weights())
    for layer in (first, second):
        set_stddev_of(layer, 0.5)
    outputs = [array(row.run(layer, row.inputs())) for layer in (first, second)]
    assert np.mean(np.abs(outputs[0] - outputs[1]) > 1e-5) > 0.5


def test_the_parts_of_a_layer_without_a_seed_have_noise_of_their_own():
    layer = noisy(make_built("MultiHeadAttentionReparameterization"))
    with bl.tape() as tape:
        layer(np.ones((1, 5, 2), "float32"), np.ones((1, 5, 2), "float32"))
    draws = [array(draw) for draw in tape.values()][:3]
    assert draws[0].shape == draws[1].shape == draws[2].shape
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.all(np.abs(draws[one] - draws[other]) > 1e-6)


# Random biases.


@pytest.mark.parametrize(
    "name",
    [
        "DenseReparameterization",
        "DenseFlipout",
        "DenseLocalReparameterization",
        "DenseVariationalDropout",
        "Conv1DFlipout",
        "Conv1DLocalReparameterization",
    ],
)
def test_a_random_bias_is_drawn(name):
    layer = make_built(name, bias_initializer="trainable_normal", seed=5)
    layer.bias.assign([2.0, 2.0])
    scale = layer.random_weights["bias"].variables["scale"]
    scale.assign(np.full(scale.shape, np.log(np.expm1(1.0))))
    # Of inputs that are zero the outputs are the bias.
    x = np.zeros((1, *ROWS[name].input_shape), "float32")
    draws = np.stack([array(layer(x)).reshape(-1, 2)[0] for _ in range(2000)])
    # Standard errors: 0.022 of the mean, 0.032 of the variance.
    assert_mean(draws, 2.0, detect=0.25)
    assert_variance(draws, 1.0, detect=0.4)
    assert np.corrcoef(draws.T)[0, 1] < 0.15


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("estimator", ["Reparameterization", "Flipout"])
def test_the_random_bias_of_a_cell_is_drawn_for_each_sequence(kind, estimator):
    cell = getattr(bl.layers, f"{kind}Cell{estimator}")(2, seed=5)
    cell.build((None, 3))
    noisy(cell)
    zeros = np.zeros((2, 3), "float32")
    sequences = []
    for _ in range(3):
        states = cell.get_initial_state(batch_size=2)
        sequences.append(array(cell(zeros, states)[0]))
        # One draw of the bias for the batch.
        np.testing.assert_allclose(*sequences[-1], rtol=1e-6)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.all(np.abs(sequences[one] - sequences[other]) > 1e-6)


@pytest.mark.parametrize("name", ["DenseFlipout", "DenseLocalReparameterization"])
def test_a_random_bias_is_trained_by_its_gradient(name):
    layer = make_built(name, bias_initializer="trainable_normal", kl_scale=0.0)
    model = keras.Sequential([keras.Input((3,)), layer])
    before = [array(v) for v in layer.random_weights["bias"].variables.values()]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    after = [array(v) for v in layer.random_weights["bias"].variables.values()]
    for old, new in zip(before, after, strict=True):
        assert np.all(old != new)


def test_flipout_draws_signs_of_one_and_shares_them_over_space():
    layer = bl.layers.Conv2DFlipout(2, 2, seed=1)
    signs = array(layer._signs((64, 4, 4, 2), {0, 3}, layer.draw_seed_generator))
    assert signs.shape == (64, 1, 1, 2)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    # 128 fair signs: a sum beyond 64 has a probability below 1e-7.
    assert abs(signs.sum()) < 64
