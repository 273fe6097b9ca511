"""The negative log-likelihood: its numbers, and how it meets shapes and masks."""

import json

import keras
import numpy as np
import pytest
from scipy import special, stats

import bayesian_layers as bl
from tests.differentiation import jit, run, values_and_grad
from tests.layers.outputs.table import array

RNG = np.random.default_rng(0)
LOC = RNG.normal(size=(4, 3, 2)).astype("float32")
SCALE = np.exp(RNG.normal(size=(4, 3, 2))).astype("float32")
Y = RNG.normal(size=(4, 3, 2)).astype("float32")
NLL = -stats.norm.logpdf(Y, LOC, SCALE)
LOGITS = RNG.normal(size=(4, 3)).astype("float32")
CLASSES = np.array([0, 2, 1, 1])


def normal(loc=LOC, scale=SCALE):
    return bl.RandomVariable(bl.distributions.Normal(loc, scale))


def categorical(logits=LOGITS):
    return bl.RandomVariable(bl.distributions.Categorical(logits))


def loss_of(y_true, loc=LOC, scale=SCALE, weight=None, **kwargs):
    loss = bl.losses.NegativeLogLikelihood(**kwargs)
    weights = [] if weight is None else [weight]
    return run(
        lambda y, loc, scale, *weights: loss(y, normal(loc, scale), *weights),
        *(y_true, loc, scale, *weights),
    )


# Numbers.


def test_it_is_summed_over_all_axes_but_the_first_and_averaged_over_that():
    np.testing.assert_allclose(loss_of(Y), NLL.sum(axis=(1, 2)).mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("sum", NLL.sum()),
        ("none", NLL.sum(axis=(1, 2))),
        (None, NLL.sum(axis=(1, 2))),
        ("mean", NLL.sum(axis=(1, 2)).mean()),
    ],
)
def test_reductions_are_over_examples(reduction, expected):
    np.testing.assert_allclose(loss_of(Y, reduction=reduction), expected, rtol=1e-5)


def test_classes_have_minus_the_log_of_their_probability():
    loss = bl.losses.NegativeLogLikelihood()
    value = run(lambda y, logits: loss(y, categorical(logits)), CLASSES, LOGITS)
    log_probs = special.log_softmax(LOGITS, axis=-1)[np.arange(4), CLASSES]
    np.testing.assert_allclose(value, -log_probs.mean(), rtol=1e-5)


def test_gradients_are_those_of_the_log_density():
    loss = bl.losses.NegativeLogLikelihood()
    _, (by_loc, by_scale) = values_and_grad(
        lambda loc, scale: loss(Y, normal(loc, scale)), LOC, SCALE
    )
    z = (Y - LOC) / SCALE
    np.testing.assert_allclose(by_loc, -z / SCALE / 4, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(by_scale, (1 - z**2) / SCALE / 4, rtol=1e-4, atol=1e-6)


# Shapes.


@pytest.mark.parametrize(
    ("given", "expected"),
    [((4,), (4, 1)), ((4, 1), (4,)), ((4, 3), (4, 3, 1)), ((4, 3, 1), (4, 3))],
)
def test_a_last_axis_of_1_may_lack_on_either_side(given, expected):
    y = np.resize(Y, given)
    loc, scale = np.resize(LOC, expected), np.resize(SCALE, expected)
    value = loss_of(y, loc, scale)
    nll = -stats.norm.logpdf(y.reshape(4, -1), loc.reshape(4, -1), scale.reshape(4, -1))
    np.testing.assert_allclose(value, nll.sum(axis=1).mean(), rtol=1e-5)


def test_classes_may_have_a_last_axis_of_1():
    loss = bl.losses.NegativeLogLikelihood(reduction="none")
    value = run(lambda y, p: loss(y, categorical(p)), CLASSES[:, None], LOGITS)
    expected = -special.log_softmax(LOGITS, axis=-1)[np.arange(4), CLASSES]
    np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("y_shape", "shape"),
    [((4,), (4, 3)), ((4, 3), (4,)), ((4, 1), (4, 3)), ((3,), (4,)), ((), (4,))],
)
def test_other_shapes_raise_with_both(y_shape, shape):
    loss = bl.losses.NegativeLogLikelihood()
    variable = normal(np.zeros(shape, "float32"), np.ones(shape, "float32"))
    with pytest.raises(ValueError) as error:
        loss(np.zeros(y_shape, "float32"), variable)
    assert f"y_true.shape={y_shape}" in str(error.value)
    assert f"y_pred.shape={shape}" in str(error.value)


@pytest.mark.parametrize("axes", [(), (2,)], ids=["examples", "steps"])
def test_targets_of_the_other_head_of_classes_raise_with_its_name(axes):
    loss = bl.losses.NegativeLogLikelihood()
    shape = (4, *axes)
    logits, labels = np.zeros((*shape, 3), "float32"), np.zeros(shape, "int32")
    vectors = np.eye(3, dtype="float32")[labels]
    with pytest.raises(ValueError, match=r"y_true.*y_pred.*bl.layers.OneHotCat") as e:
        loss(vectors, bl.layers.Categorical()(logits))
    assert f"y_true.shape={vectors.shape}, y_pred.shape={shape}" in str(e.value)
    for y in (labels, labels[..., None]):
        with pytest.raises(ValueError, match=r"y_true.*y_pred.*bl.layers.Categorical"):
            loss(y, bl.layers.OneHotCategorical()(logits))


@pytest.mark.parametrize("label", [3, -1])
def test_labels_out_of_range_raise_with_the_label_and_the_number_of_classes(label):
    loss = bl.losses.NegativeLogLikelihood()
    labels = np.array([0, label, 2, 1])
    with pytest.raises(ValueError, match=rf"3 classes. Received.*label {label}\."):
        loss(labels, categorical())
    # Padding without weight is no mistake.
    loss(labels, categorical(), np.array([1.0, 0.0, 1.0, 1.0]))


def test_where_labels_cannot_be_looked_at_their_loss_is_infinite():
    if keras.backend.backend() == "torch":
        pytest.skip("Keras compiles nothing on torch.")
    loss = bl.losses.NegativeLogLikelihood()
    function = jit(lambda y: loss(y, categorical()))
    labels = keras.ops.convert_to_tensor(np.array([0, 3, 2, 1], "int32"))
    assert float(function(labels)) == np.inf


def test_an_output_without_examples_raises():
    loss = bl.losses.NegativeLogLikelihood()
    with pytest.raises(ValueError, match=r"axis for the examples.*shape=\(\)"):
        loss(0.0, normal(0.0, 1.0))


def test_a_plain_tensor_raises_with_its_type():
    loss = bl.losses.NegativeLogLikelihood()
    tensor = keras.ops.zeros((4, 2))
    with pytest.raises(TypeError, match=f"random variable.*{type(tensor).__name__}"):
        loss(np.zeros((4, 2)), tensor)


# Weights.


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 3), (4, 3, 2), (4, 1, 1)])
def test_weights_multiply_examples_or_what_is_in_them(shape):
    weight = RNG.uniform(size=shape).astype("float32")
    broadcast = weight.reshape((*shape, *[1] * (3 - len(shape))))
    np.testing.assert_allclose(
        loss_of(Y, weight=weight), (NLL * broadcast).sum() / 4, rtol=1e-5
    )


def test_weights_of_examples_may_have_a_last_axis_of_1_that_the_output_lacks():
    weight = np.array([[0.0], [1.0], [2.0], [3.0]], "float32")
    np.testing.assert_allclose(
        loss_of(Y[:, 0, 0], LOC[:, 0, 0], SCALE[:, 0, 0], weight),
        (NLL[:, 0, 0] * weight[:, 0]).mean(),
        rtol=1e-5,
    )


def test_weights_of_another_shape_raise_with_both():
    loss = bl.losses.NegativeLogLikelihood()
    with pytest.raises(ValueError, match=r"\(4, 2\).*\(4, 3, 2\)"):
        loss(Y, normal(), np.ones((4, 2), "float32"))


def test_the_mean_by_weights_divides_by_their_sum():
    # As Keras has it: https://keras.io/api/losses ("mean_with_sample_weight").
    weight = np.array([0.5, 1.0, 2.0, 0.0], "float32")
    np.testing.assert_allclose(
        loss_of(Y, weight=weight, reduction="mean_with_sample_weight"),
        np.average(NLL.sum(axis=(1, 2)), weights=weight),
        rtol=1e-5,
    )


def test_an_example_of_weight_0_is_left_out_whatever_its_target():
    # 1e30 is so far off that its density is 0 in float32, and the loss infinite.
    y, weight = Y.copy(), np.array([1.0, 1.0, 0.0, 1.0], "float32")
    y[2] = 1e30
    expected = NLL.sum(axis=(1, 2))[[0, 1, 3]].sum() / 4
    np.testing.assert_allclose(loss_of(y, weight=weight), expected, rtol=1e-5)


# Models.


@pytest.fixture(scope="module")
def masked_model():
    """Sequences of two outputs for each step, zeros are masked."""
    inputs = keras.Input((4,), dtype="int32")
    x = keras.layers.Embedding(5, 3, mask_zero=True)(inputs)
    x = keras.layers.LSTM(3, return_sequences=True)(x)
    outputs = {
        "normal": bl.layers.Normal(2, name="normal")(x),
        "classes": bl.layers.Categorical(3, name="classes")(x),
    }
    model = keras.Model(inputs, outputs)
    nll = bl.losses.NegativeLogLikelihood
    model.compile(
        keras.optimizers.SGD(0.1),
        {"normal": nll(), "classes": nll()},
        loss_weights={"normal": 1.0, "classes": 0.5},
    )
    return model


TOKENS = np.array([[1, 2, 0, 0], [3, 1, 4, 2], [2, 0, 0, 0]], "int32")


def sequence_targets():
    rng = np.random.default_rng(1)
    normal = rng.normal(size=(3, 4, 2)).astype("float32")
    classes = rng.integers(0, 3, (3, 4)).astype("int32")
    # What stands where nothing was observed: no number, and no class at all.
    normal[TOKENS == 0] = np.nan
    classes[TOKENS == 0] = -1
    return {"normal": normal, "classes": classes}


def masked_values(model, y):
    """-log p of each example and output, by SciPy, of the steps with a token."""
    outputs = model(TOKENS)
    seen = TOKENS != 0
    distribution = outputs["normal"].distribution
    loc, scale = array(distribution.mean()), array(distribution.stddev())
    target = np.where(seen[..., None], y["normal"], 0.0)
    normal = -stats.norm.logpdf(target, loc, scale).sum(axis=-1)
    log_probs = np.log(array(outputs["classes"].distribution.probs))
    classes = np.where(seen, y["classes"], 0)
    classes = -np.take_along_axis(log_probs, classes[..., None], axis=-1)[..., 0]
    return {
        "normal": (normal * seen).sum(axis=1),
        "classes": (classes * seen).sum(axis=1),
    }


def test_masked_steps_are_left_out_and_outputs_added_up(masked_model):
    y = sequence_targets()
    logs = masked_model.evaluate(TOKENS, y, verbose=0, return_dict=True)
    expected = masked_values(masked_model, y)
    for name in ("normal", "classes"):
        np.testing.assert_allclose(
            logs[f"{name}_loss"], expected[name].mean(), rtol=1e-4
        )
    np.testing.assert_allclose(
        logs["loss"],
        (expected["normal"] + 0.5 * expected["classes"]).mean(),
        rtol=1e-4,
    )


def test_weights_of_steps_and_masks_work_together(masked_model):
    y = sequence_targets()
    weight = np.array([1.0, 0.0, 2.0], "float32")
    logs = masked_model.evaluate(
        TOKENS,
        y,
        sample_weight={"normal": weight, "classes": np.tile(weight[:, None], (1, 4))},
        verbose=0,
        return_dict=True,
    )
    expected = masked_values(masked_model, y)
    for name in ("normal", "classes"):
        np.testing.assert_allclose(
            logs[f"{name}_loss"], (expected[name] * weight).mean(), rtol=1e-4
        )


def test_masked_targets_leave_gradients_finite(masked_model):
    masked_model.fit(TOKENS, sequence_targets(), verbose=0)
    for weight in masked_model.trainable_weights:
        assert np.all(np.isfinite(array(weight))), weight.path


def test_it_can_be_saved():
    loss = bl.losses.NegativeLogLikelihood(reduction="sum", name="data")
    config = json.loads(json.dumps(keras.losses.serialize(loss)))
    copy = keras.losses.deserialize(config)
    assert isinstance(copy, bl.losses.NegativeLogLikelihood)
    assert (copy.reduction, copy.name) == ("sum", "data")
