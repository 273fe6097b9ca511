"""All that metrics of classes take for predictions and for targets."""

import keras
import numpy as np
import pytest
from scipy import special, stats
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

import bayesian_layers as bl
from bayesian_layers.prediction.moments import Moments
from tests.layers.outputs.table import array
from tests.metrics import references
from tests.metrics.table import CLASSES, LABELS, LOGITS, PROBS, SIZE, no_loss

RNG = np.random.default_rng(1)
LOGIT = RNG.normal(size=SIZE).astype("float32")
PROB = special.expit(LOGIT)
BITS = RNG.integers(0, 2, SIZE)
TWO = np.stack([1.0 - PROB, PROB], axis=1)
OF_ONE_CLASS = {
    "Accuracy": accuracy_score(BITS, PROB > 0.5),
    "BrierScore": brier_score_loss(BITS, PROB),
    "NegativeLogLikelihood": log_loss(BITS, PROB.astype("float64")),
    "ExpectedCalibrationError": references.expected_calibration_error(BITS, TWO),
    "AdaptiveCalibrationError": references.adaptive_calibration_error(BITS, TWO),
    "PredictiveEntropy": stats.entropy(TWO, axis=1).mean(),
}
FORMS = {
    "probabilities": lambda: PROB,
    "a column": lambda: PROB[:, None],
    "a head": lambda: bl.RandomVariable(bl.distributions.Bernoulli(logits=LOGIT)),
    "a prediction": lambda: bl.Prediction(
        Moments(bl.distributions.Bernoulli, 1, {"mean": PROB})
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_one_class_is_given_by_its_probability(form):
    for name, expected in OF_ONE_CLASS.items():
        result = getattr(bl.metrics, name)()(BITS, FORMS[form]())
        np.testing.assert_allclose(float(result), expected, rtol=1e-4, err_msg=name)


def test_targets_may_be_one_hot():
    one_hot = np.eye(CLASSES, dtype="float32")[LABELS]
    head = bl.RandomVariable(bl.distributions.OneHotCategorical(logits=LOGITS))
    for name in ("Accuracy", "BrierScore", "NegativeLogLikelihood"):
        expected = float(getattr(bl.metrics, name)()(LABELS[:, None], PROBS))
        for y_pred in (PROBS, head):
            result = getattr(bl.metrics, name)()(one_hot, y_pred)
            np.testing.assert_allclose(float(result), expected, rtol=1e-5)


def test_uncertain_functions_are_integrated_out():
    latent = bl.distributions.Normal(LOGIT, 2.0)
    compound = bl.distributions.Compound(
        latent, bl.distributions.Bernoulli(logits=0.0), "logits"
    )
    result = bl.metrics.BrierScore()(BITS, bl.RandomVariable(compound))
    expected = brier_score_loss(BITS, array(compound.mean()))
    np.testing.assert_allclose(float(result), expected, rtol=1e-4)


def test_steps_have_weights():
    probs, labels = PROBS.reshape(-1, 2, CLASSES), LABELS.reshape(-1, 2)
    weights = RNG.uniform(size=labels.shape).astype("float32")
    squares = np.sum((PROBS - np.eye(CLASSES)[LABELS]) ** 2, axis=1)
    result = bl.metrics.BrierScore()(labels, probs, weights)
    expected = np.average(squares, weights=weights.ravel())
    np.testing.assert_allclose(float(result), expected, rtol=1e-5)


def test_masked_steps_of_a_plain_model_are_left_out():
    tokens = np.array([[1, 2, 0], [3, 0, 0]], "int32")
    labels = np.where(tokens > 0, tokens % 4, -1)
    inputs = keras.Input((3,), dtype="int32")
    x = keras.layers.Embedding(5, 3, mask_zero=True)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(4, activation="softmax")(x))
    names = ("BrierScore", "ExpectedCalibrationError", "NegativeLogLikelihood")
    model.compile(
        loss=no_loss, metrics=[getattr(bl.metrics, name)(name=name) for name in names]
    )
    logs = model.evaluate(tokens, labels, verbose=0, return_dict=True)
    kept = array(model(tokens))[tokens > 0], labels[tokens > 0]
    brier = np.sum((kept[0] - np.eye(4)[kept[1]]) ** 2, axis=1).mean()
    np.testing.assert_allclose(logs["BrierScore"], brier, rtol=1e-5)
    error = references.expected_calibration_error(kept[1], kept[0])
    np.testing.assert_allclose(logs["ExpectedCalibrationError"], error, rtol=1e-4)
    # The sum over steps, averaged over examples.
    nll = -np.log(kept[0][np.arange(3), kept[1]]).sum() / 2
    np.testing.assert_allclose(logs["NegativeLogLikelihood"], nll, rtol=1e-5)


def test_logits_in_a_compiled_function_give_no_number():
    model = keras.Sequential([keras.Input((CLASSES,)), keras.layers.Identity()])
    names = ("Accuracy", "ExpectedCalibrationError", "AdaptiveCalibrationError")
    names = (*names, "NegativeLogLikelihood", "PredictiveEntropy")
    model.compile(
        loss=no_loss, metrics=[getattr(bl.metrics, name)(name=name) for name in names]
    )
    try:
        logs = model.evaluate(LOGITS, LABELS, verbose=0, return_dict=True)
    except ValueError as error:
        # Where the numbers can be looked at.
        assert keras.backend.backend() == "torch"
        assert "`probs`" in str(error)
    else:
        assert all(np.isnan(logs[name]) for name in names), logs


def test_bins_of_equal_mass_tell_confident_predictions_apart():
    # All are in one bin of equal width; half of them are too confident.
    count = 64
    sure = np.r_[np.full(count, 1.0 - 1e-6), np.full(count, 1.0 - 1e-3)]
    sure = sure.astype("float32")
    wrong = np.r_[np.zeros(count), np.ones(count // 2), np.zeros(count // 2)] > 0
    probs = np.stack([1.0 - sure, sure], axis=1)
    labels = np.where(wrong, 0, 1)
    metric = bl.metrics.AdaptiveCalibrationError(num_bins=2)
    expected = references.adaptive_calibration_error(labels, probs, 2)
    np.testing.assert_allclose(float(metric(labels, probs)), expected, rtol=1e-4)


def test_the_number_of_classes_is_that_of_the_predictions():
    with pytest.raises(ValueError, match="5 classes.*Received: 4 classes"):
        bl.metrics.ClasswiseCalibrationError(5).update_state(LABELS, PROBS)
    for arguments in ({"num_classes": 1}, {"num_classes": 2, "num_bins": 0}):
        with pytest.raises(ValueError, match="Received: num_"):
            bl.metrics.ClasswiseCalibrationError(**arguments)


def test_mutual_information_of_one_class():
    draws = RNG.uniform(size=(3, SIZE, 1)).astype("float32")
    both = np.concatenate([1.0 - draws, draws], axis=-1)
    result = bl.metrics.MutualInformation()(None, draws)
    expected = references.mutual_information(both)
    np.testing.assert_allclose(float(result), expected, rtol=1e-4)


def test_one_draw_has_no_mutual_information():
    head = bl.RandomVariable(bl.distributions.Categorical(logits=LOGITS))
    with pytest.raises(TypeError, match="bl.predict"):
        bl.metrics.MutualInformation().update_state(LABELS, head)
