"""What all metrics have in common: one table, and checks that every row passes."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers.prediction.moments import Moments
from tests.layers.outputs.table import array
from tests.metrics.table import (
    CLASSES,
    FLAGS,
    KINDS,
    LABELS,
    LOGITS,
    PROBS,
    RNG,
    ROWS,
    SCORES,
    SIZE,
    Y,
)

every_metric = pytest.mark.parametrize("name", ROWS)
ALL = np.arange(SIZE)
BATCHES = np.split(ALL, [16])


def test_every_metric_has_a_row():
    assert sorted(bl.metrics.__all__) == sorted(ROWS)


def update(metric, kind, rows, sample_weight=None):
    metric.update_state(kind.y[rows], kind.y_pred(rows), sample_weight)


def reference(row, rows):
    kind = KINDS[row.kind]
    return row.reference(kind.y[rows], *kind.arguments(rows))


@every_metric
def test_it_is_its_reference_over_batches_of_any_size_and_starts_again(name):
    row, metric = ROWS[name], ROWS[name].make()
    before = float(metric.result())
    for rows in BATCHES:
        update(metric, KINDS[row.kind], rows)
    expected = reference(row, ALL)
    np.testing.assert_allclose(float(metric.result()), expected, rtol=1e-4)
    metric.reset_state()
    np.testing.assert_equal(float(metric.result()), before)
    kind, some = KINDS[row.kind], BATCHES[0]
    result = metric(kind.y[some], kind.y_pred(some))
    np.testing.assert_allclose(float(result), reference(row, some), rtol=1e-4)


@every_metric
def test_a_weight_of_two_is_as_two_examples_and_of_none_as_no_example(name):
    row, metric = ROWS[name], ROWS[name].make()
    weights = np.resize([1, 2, 0, 3], SIZE)
    for rows in BATCHES:
        update(metric, KINDS[row.kind], rows, weights[rows].astype("float32"))
    expected = reference(row, np.repeat(ALL, weights))
    np.testing.assert_allclose(float(metric.result()), expected, rtol=1e-4)


@every_metric
def test_it_can_be_saved(name):
    row = ROWS[name]
    metric = row.make(name="of_mine", dtype="float32")
    config = keras.saving.serialize_keras_object(metric)
    copy = keras.saving.deserialize_keras_object(config)
    assert type(copy) is getattr(bl.metrics, name)
    assert copy.name == "of_mine"
    assert copy.get_config() == metric.get_config()
    update(copy, KINDS[row.kind], BATCHES[0])
    expected = reference(row, BATCHES[0])
    np.testing.assert_allclose(float(copy.result()), expected, rtol=1e-4)


def metrics_of(kind):
    return [row.make(name=n.lower()) for n, row in ROWS.items() if row.kind == kind]


def compiled(layer, kind, columns, loss):
    model = keras.Sequential([keras.Input((columns,)), layer])
    model.compile(loss=loss, metrics=metrics_of(kind))
    return model


def assert_logs(logs, kind, y, *arguments):
    for name, row in ROWS.items():
        if row.kind == kind:
            expected = row.reference(y, *arguments)
            np.testing.assert_allclose(logs[name.lower()], expected, rtol=1e-3)


NLL = bl.losses.NegativeLogLikelihood
EVALUATE = {"batch_size": 16, "verbose": 0, "return_dict": True}


def test_in_compile_metrics_of_classes_take_a_head():
    model = compiled(bl.layers.Categorical(), "classes", CLASSES, NLL())
    assert_logs(model.evaluate(LOGITS, LABELS, **EVALUATE), "classes", LABELS, PROBS)


def test_in_compile_metrics_of_classes_take_the_probabilities_of_a_plain_model():
    loss = keras.losses.SparseCategoricalCrossentropy()
    model = compiled(keras.layers.Softmax(), "classes", CLASSES, loss)
    assert_logs(model.evaluate(LOGITS, LABELS, **EVALUATE), "classes", LABELS, PROBS)


def test_in_compile_metrics_of_numbers_take_a_head():
    model = compiled(bl.layers.Normal(), "numbers", CLASSES, NLL())
    normal = model(LOGITS)
    parameters = array(normal.mean()), array(normal.stddev())
    assert_logs(model.evaluate(LOGITS, Y, **EVALUATE), "numbers", Y, *parameters)


def test_in_compile_metrics_of_scores_take_the_output_of_a_plain_model():
    model = compiled(keras.layers.Identity(), "scores", 1, "mse")
    logs = model.evaluate(SCORES[:, None], FLAGS, **EVALUATE)
    assert_logs(logs, "scores", FLAGS, SCORES)


@pytest.fixture(scope="module")
def predictions():
    inputs = keras.Input((CLASSES,))
    layer = bl.layers.DenseReparameterization(6)
    hidden = layer(inputs)
    layer.random_weights["kernel"].variables["scale"].assign(np.full((4, 6), 0.5))
    outputs = {
        "classes": bl.layers.Categorical()(hidden[:, :CLASSES]),
        "numbers": bl.layers.Normal()(hidden[:, :4]),
    }
    predicted = bl.predict(
        keras.Model(inputs, outputs), LOGITS, num_samples=4, seed=1, verbose=0
    )
    # Entropies far enough from each other for the histograms of scores.
    probs = np.linspace(0.5, 0.99, SIZE)[RNG.permutation(SIZE)].astype("float32")
    moments = Moments(bl.distributions.Bernoulli, 1, {"mean": probs})
    return {
        "classes": predicted["classes"],
        "draws": predicted["classes"],
        "scores": bl.Prediction(moments),
        "numbers": predicted["numbers"],
    }


@every_metric
def test_of_a_prediction_it_is_of_the_mixture_over_draws(name, predictions):
    row = ROWS[name]
    prediction, y = predictions[row.kind], KINDS[row.kind].y
    metric = row.make(score="entropy") if row.kind == "scores" else row.make()
    expected = row.of_prediction(y, prediction)
    np.testing.assert_allclose(float(metric(y, prediction)), expected, rtol=1e-3)


NORMAL = bl.RandomVariable(bl.distributions.Normal(np.zeros(SIZE), 1.0))
CATEGORICAL = bl.RandomVariable(bl.distributions.Categorical(logits=LOGITS))
NO_LABELS = np.where(ALL == 3, CLASSES, LABELS)
NO_NUMBERS = np.where(ALL == 3, np.nan, SCORES)
BAD = {
    "classes": {
        "logits": (ValueError, LABELS, LOGITS),
        "a distribution of numbers": (TypeError, LABELS, NORMAL),
        "labels as predictions": (TypeError, LABELS, LABELS),
        "a label that is no class": (ValueError, NO_LABELS, PROBS),
        "targets of another shape": (ValueError, np.eye(3)[LABELS % 3], PROBS),
        "weights of another shape": (ValueError, LABELS, PROBS, np.ones(3)),
    },
    "numbers": {
        "classes": (TypeError, Y[:, 0], CATEGORICAL),
        "targets of another shape": (ValueError, Y[:, 0], Y[None]),
        "weights of another shape": (
            ValueError,
            Y,
            KINDS["numbers"].y_pred(ALL),
            np.ones(3),
        ),
    },
    "scores": {
        "a random variable": (TypeError, FLAGS, CATEGORICAL),
        "targets that are neither": (ValueError, FLAGS + 1, SCORES),
        "targets of another shape": (ValueError, FLAGS[1:], SCORES),
        "scores that are no numbers": (ValueError, FLAGS, NO_NUMBERS),
        "weights of another shape": (ValueError, FLAGS, SCORES, np.ones(3)),
    },
    "draws": {
        "one draw": (TypeError, LABELS, PROBS),
        "a head": (TypeError, LABELS, CATEGORICAL),
        "logits": (ValueError, LABELS, LOGITS[None] * np.ones((2, 1, 1))),
        "weights of another shape": (
            ValueError,
            LABELS,
            KINDS["draws"].y_pred(ALL),
            np.ones(3),
        ),
    },
}
# They do not look at targets.
BLIND = {"PredictiveEntropy": ("label", "targets"), "IntervalWidth": ("targets",)}


@every_metric
def test_what_is_wrong_raises_and_leaves_the_state_alone(name):
    row = ROWS[name]
    metric = row.make()
    update(metric, KINDS[row.kind], BATCHES[0])
    before = [array(variable) for variable in metric.variables]
    for case, (error, *arguments) in BAD[row.kind].items():
        if any(word in case for word in BLIND.get(name, ())):
            continue
        if name == "NegativeLogLikelihood" and case == "a distribution of numbers":
            continue
        with pytest.raises(error, match="Received"):
            metric.update_state(*arguments)
    after = [array(variable) for variable in metric.variables]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


@every_metric
def test_callbacks_know_its_direction_unless_there_is_none(name):
    metric = ROWS[name].make()
    neither = ("IntervalCoverage", "IntervalWidth", "PredictiveEntropy")
    if name in (*neither, "MutualInformation"):
        assert not hasattr(metric, "_direction")
        return
    up = name in ("Accuracy", "AUROC")
    assert metric._direction == ("up" if up else "down")
