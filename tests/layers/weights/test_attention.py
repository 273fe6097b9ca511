"""Attention: draws of its own for each projection, and Keras' own arithmetic."""

import itertools

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.weights.table import (
    array,
    assert_same_outputs,
    random_weights,
    set_stddev,
)

HEADS, KEY_DIM, LENGTH, FEATURES, BATCH = 2, 3, 4, 2, 2
ESTIMATORS = ("Reparameterization", "Flipout")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, FEATURES)).astype("float32")

every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def make(estimator, **kwargs):
    arguments = {"num_heads": HEADS, "key_dim": KEY_DIM, **kwargs}
    return getattr(bl.layers, f"MultiHeadAttention{estimator}")(**arguments)


def set_noise(layer, stddevs):
    """Gives the kernels of projections, by name, noise, and the others next to none."""
    for part in layer._random_parts():
        scale = part.random_weights["kernel"].variables["scale"]
        stddev = stddevs.get(part.name)
        value = -100.0 if stddev is None else np.log(np.expm1(stddev))
        scale.assign(np.full(scale.shape, value))


# The draws.


@pytest.mark.parametrize(
    "make_layer",
    [
        lambda: bl.layers.MultiHeadAttentionReparameterization(2, 8, seed=1),
        lambda: bl.layers.MultiHeadAttentionFlipout(2, 8, seed=1, use_gate=True),
        lambda: bl.layers.GroupedQueryAttentionReparameterization(8, 2, 2, seed=1),
    ],
    ids=["multi_head", "gate", "grouped_query"],
)
def test_projections_and_calls_draw_apart(make_layer):
    layer, noises = make_layer(), []
    x = np.ones((1, 2, 4), "float32")
    for _ in range(2):
        with bl.tape() as tape:
            layer(x, x)
        noises += [
            (array(entry.value) - array(entry.distribution.loc)).ravel()
            for entry in tape.values()
        ]
    assert len(noises) in (8, 10)
    # 64 numbers each: the correlation of independent noise has a standard error of
    # 0.125, and is beyond 0.7 with a probability below 2e-10, for each of 45 pairs.
    for first, second in itertools.combinations(noises, 2):
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.7


@every_estimator
def test_a_causal_mask_hides_later_positions(estimator):
    layer = make(estimator)
    with bl.tape() as tape:
        outputs = array(layer(X, X, use_causal_mask=True))
    changed = X.copy()
    changed[:, 2:] += 1.0
    with bl.replay(tape):
        others = array(layer(changed, changed, use_causal_mask=True))
    np.testing.assert_allclose(others[:, :2], outputs[:, :2], atol=1e-6)
    # They would be seen: the position that changed first sees itself.
    assert np.mean(others[:, 2:] != outputs[:, 2:]) > 0.5


def test_flipout_shares_the_draws_of_an_example_over_its_positions():
    layer = make("Flipout")
    layer.build(X.shape, X.shape)
    set_stddev(layer, 0.5)
    # Equal inputs at all positions, each of which attends to itself alone.
    x = np.repeat(X[:, :1], LENGTH, axis=1)
    mask = np.repeat(np.eye(LENGTH, dtype=bool)[None], BATCH, axis=0)
    outputs = array(layer(x, x, attention_mask=mask))
    np.testing.assert_allclose(
        outputs, np.repeat(outputs[:, :1], LENGTH, axis=1), atol=1e-5
    )


# Keras' layer, given the draws.

VALUE = RNG.normal(size=(BATCH, 3, 5)).astype("float32")
KEY = RNG.normal(size=(BATCH, 3, 1)).astype("float32")
MASK = np.tril(np.ones((BATCH, LENGTH, 3), bool))

CASES = {
    "cross": ({"output_shape": 3}, [X, VALUE], {"attention_mask": MASK}),
    "key": ({}, [X, VALUE, KEY], {}),
    "causal": ({"sliding_window": 2}, [X, X], {"use_causal_mask": True}),
    "scores": ({"value_dim": 2}, [X, X], {"return_attention_scores": True}),
    "gate": ({"use_gate": True, "use_bias": False}, [X, X], {}),
    "dropout": ({"dropout": 0.5}, [X, X], {"training": True}),
    "bias": (
        {
            "bias_initializer": "trainable_normal",
            "bias_regularizer": "normal_kl_divergence",
        },
        [X, X],
        {},
    ),
}


@every_estimator
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_keras_layer_given_the_draws(estimator, case):
    arguments, inputs, call_arguments = CASES[case]
    # The seed is also that of dropout, in Keras' layer and in ours.
    layer = make(estimator, seed=5, **arguments)
    layer.build(*(x.shape for x in inputs))
    set_stddev(layer, 0.5)
    with bl.tape() as tape:
        outputs = layer(*inputs, **call_arguments)
    names = {weight.path.split("/", 1)[0] for weight in random_weights(layer)}
    assert {path.split("/")[1] for path in tape} == names
    assert len(tape) == {"gate": 5, "bias": 8}.get(case, 4)
    assert len(layer.losses) == len(tape)

    known = {k: v for k, v in arguments.items() if not k.startswith("bias_")}
    reference = keras.layers.MultiHeadAttention(HEADS, KEY_DIM, seed=5, **known)
    reference.build(*(x.shape for x in inputs))
    drawn = {path.split("/", 1)[1]: array(value) for path, value in tape.items()}
    for weight in reference.weights:
        if weight.path.split("/", 1)[1] in drawn:
            weight.assign(drawn.pop(weight.path.split("/", 1)[1]))
    assert drawn == {}
    expected = reference(*inputs, **call_arguments)
    assert_same_outputs(outputs, expected)


@every_estimator
def test_flash_attention_is_used_or_refused_as_by_keras(estimator):
    def outcome(layer):
        try:
            return None, array(layer(X, X))
        except (ValueError, RuntimeError, ImportError) as error:
            # Keras puts the class before its message, and the inputs after it.
            return str(error).split("\n\n")[1], None

    ours = make(estimator, flash_attention=True)
    reference = keras.layers.MultiHeadAttention(HEADS, KEY_DIM, flash_attention=True)
    for layer in (ours, reference):
        layer.build(X.shape, X.shape)
    set_noise(ours, {})
    names = {w.name for w in reference.weights}
    reference.set_weights([array(w) for w in ours.weights if w.name in names])
    (error, outputs), (expected_error, expected) = outcome(ours), outcome(reference)
    assert error == expected_error
    if expected is not None:
        np.testing.assert_allclose(outputs, expected, atol=1e-5)


# Moments.

DRAWS = 500
STDDEV = 0.3


@every_estimator
@pytest.mark.parametrize("random", ["value", "attention_output"])
def test_outputs_have_the_mean_and_covariance_of_the_closed_form(estimator, random):
    # A sequence of one position attends to itself with a weight of one: x @ value @
    # output. With noise in one of the two kernels, it is linear in that one.
    inputs = keras.Input((1, FEATURES))
    layer = make(estimator, num_heads=1, use_bias=False, seed=11)
    model = keras.Model(inputs, layer(inputs, inputs))
    set_noise(layer, {random: STDDEV})
    # Two examples that point the same way: with a shared draw they are correlated.
    x = np.stack([X[0, :1], 0.7 * X[0, :1]])
    draws = np.stack([model.predict_on_batch(x)[:, 0] for _ in range(DRAWS)])

    value = array(layer.value_dense.kernel)[:, 0]
    output = array(layer.output_dense.kernel)[0]
    x = x[:, 0]
    mean = x @ value @ output
    if random == "value":
        between_examples, within = x @ x.T, output.T @ output
    else:
        between_examples, within = x @ value @ value.T @ x.T, np.eye(FEATURES)
    if estimator == "Flipout":
        between_examples = np.diag(np.diag(between_examples))
    expected = STDDEV**2 * np.kron(between_examples, within)

    # An entry of the covariance has a standard error of about sqrt(2 / 500) = 6.3% of
    # its variances. 14 entries within 6 standard errors: for normal entries the rate
    # of false failures is below 1e-7.
    centred = (draws - mean).reshape(DRAWS, -1)
    standard_error = centred.std(axis=0) / np.sqrt(DRAWS)
    assert np.all(np.abs(centred.mean(axis=0)) < 6.0 * standard_error)
    products = centred[:, :, None] * centred[:, None, :]
    standard_error = products.std(axis=0) / np.sqrt(DRAWS)
    assert np.all(np.abs(products.mean(axis=0) - expected) < 6.0 * standard_error)
    # The covariance between examples under a shared draw would be seen.
    assert 0.7 * expected[0, 0] > 6.0 * standard_error[0, FEATURES]


# What is refused.


@every_estimator
def test_time_distributed_is_refused(estimator):
    class SelfAttention(getattr(bl.layers, f"MultiHeadAttention{estimator}")):
        def build(self, input_shape):
            super().build(input_shape, input_shape)

        def call(self, inputs):
            return super().call(inputs, inputs)

    layer = SelfAttention(HEADS, KEY_DIM)
    assert array(layer(X)).shape == X.shape
    with pytest.raises(ValueError, match="`keras.layers.TimeDistributed`"):
        keras.layers.TimeDistributed(layer)(X[:, None])


def test_flipout_refuses_posteriors_without_symmetry():
    layer = make("Flipout", kernel_initializer="trainable_log_normal")
    with pytest.raises(ValueError, match="Use EinsumDenseReparameterization instead"):
        layer.build(X.shape, X.shape)
