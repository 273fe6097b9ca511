"""All metrics: how each is made, and what it should be."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from keras import ops
from scipy import special, stats
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    log_loss,
    mean_pinball_loss,
    roc_auc_score,
)

import bayesian_layers as bl
from tests.metrics import references

RNG = np.random.default_rng(0)
SIZE = 24
CLASSES = 4
LOGITS = RNG.normal(size=(SIZE, CLASSES)).astype("float32")
PROBS = special.softmax(LOGITS, axis=1)
LABELS = RNG.integers(0, CLASSES, SIZE)
LOC = RNG.normal(size=(SIZE, 2)).astype("float32")
SCALE = RNG.uniform(0.3, 2.0, size=(SIZE, 2)).astype("float32")
Y = (LOC + SCALE * RNG.normal(size=(SIZE, 2))).astype("float32")
FLAGS = RNG.integers(0, 2, SIZE)
SCORES = (FLAGS + 100.0 * RNG.standard_cauchy(size=SIZE)).astype("float32")
DRAWS = special.softmax(RNG.normal(size=(5, SIZE, CLASSES)), axis=-1).astype("float32")


def no_loss(y_true, y_pred):
    """What `compile` needs, on some backends, of a model that is evaluated only."""
    return 0.0 * ops.mean(ops.cast(y_pred, "float32"), axis=-1)


class Kind(NamedTuple):
    """A kind of data: `y_pred(rows)` and, as arrays, the `arguments` of references."""

    y: np.ndarray
    y_pred: Callable
    arguments: Callable


KINDS = {
    "classes": Kind(LABELS, lambda i: PROBS[i], lambda i: (PROBS[i],)),
    "numbers": Kind(
        Y,
        lambda i: bl.RandomVariable(bl.distributions.Normal(LOC[i], SCALE[i])),
        lambda i: (LOC[i], SCALE[i]),
    ),
    "scores": Kind(FLAGS, lambda i: SCORES[i], lambda i: (SCORES[i],)),
    "draws": Kind(LABELS, lambda i: DRAWS[:, i], lambda i: (DRAWS[:, i],)),
}


class Row(NamedTuple):
    """A metric of a kind of data.

    `reference` is a function of the targets and the arguments of the kind;
    `of_prediction` one of the targets and a `bl.Prediction`.
    """

    kind: str
    make: Callable
    reference: Callable
    of_prediction: Callable


def of_classes(make, reference):
    return Row("classes", make, reference, lambda y, p: reference(y, p.probs))


def of_scores(make, reference):
    return Row("scores", make, reference, lambda y, p: reference(y, p.entropy))


def normalized(probs):
    """In float64 scikit-learn finds that the sum of those in float32 is not 1."""
    probs = probs.astype("float64")
    return probs / probs.sum(axis=1, keepdims=True)


def normal_parameters(prediction):
    distribution = prediction.distribution
    return [np.asarray(x, "float64") for x in (distribution.loc, distribution.scale)]


def ends(loc, scale, probability):
    return stats.norm.interval(probability, loc, scale)


metrics = bl.metrics
ROWS = {
    "Accuracy": of_classes(
        metrics.Accuracy, lambda y, p: accuracy_score(y, p.argmax(axis=1))
    ),
    "BrierScore": of_classes(
        metrics.BrierScore,
        lambda y, p: brier_score_loss(
            y, normalized(p), labels=range(CLASSES), scale_by_half=False
        ),
    ),
    "ExpectedCalibrationError": of_classes(
        lambda **kwargs: metrics.ExpectedCalibrationError(num_bins=5, **kwargs),
        lambda y, p: references.expected_calibration_error(y, p, 5),
    ),
    "AdaptiveCalibrationError": of_classes(
        lambda **kwargs: metrics.AdaptiveCalibrationError(num_bins=7, **kwargs),
        lambda y, p: references.adaptive_calibration_error(y, p, 7),
    ),
    "ClasswiseCalibrationError": of_classes(
        lambda **kwargs: metrics.ClasswiseCalibrationError(CLASSES, 5, **kwargs),
        lambda y, p: references.classwise_calibration_error(y, p, 5),
    ),
    "PredictiveEntropy": of_classes(
        metrics.PredictiveEntropy, lambda y, p: stats.entropy(p, axis=1).mean()
    ),
    "NegativeLogLikelihood": of_classes(
        metrics.NegativeLogLikelihood,
        lambda y, p: log_loss(y, normalized(p), labels=range(CLASSES)),
    ),
    "MutualInformation": Row(
        "draws",
        metrics.MutualInformation,
        lambda y, draws: references.mutual_information(draws),
        lambda y, p: references.mutual_information(
            np.asarray(p.distribution.probs, "float64")
        ),
    ),
    "CRPS": Row(
        "numbers",
        lambda **kwargs: metrics.CRPS(num_samples=10, seed=1, **kwargs),
        lambda y, loc, scale: references.crps_of_normal_mixtures(
            y, loc[None], scale[None]
        ),
        lambda y, p: references.crps_of_normal_mixtures(y, *normal_parameters(p)),
    ),
    "IntervalCoverage": Row(
        "numbers",
        lambda **kwargs: metrics.IntervalCoverage(0.5, **kwargs),
        lambda y, *normal: np.mean(
            (ends(*normal, 0.5)[0] <= y) & (y <= ends(*normal, 0.5)[1])
        ),
        lambda y, p: np.mean((p.quantile(0.25) <= y) & (y <= p.quantile(0.75))),
    ),
    "IntervalWidth": Row(
        "numbers",
        lambda **kwargs: metrics.IntervalWidth(0.8, **kwargs),
        lambda y, *normal: np.mean(ends(*normal, 0.8)[1] - ends(*normal, 0.8)[0]),
        lambda y, p: np.mean(p.quantile(0.9) - p.quantile(0.1)),
    ),
    "PinballLoss": Row(
        "numbers",
        lambda **kwargs: metrics.PinballLoss(0.2, **kwargs),
        lambda y, *normal: mean_pinball_loss(
            y, stats.norm.ppf(0.2, *normal), alpha=0.2
        ),
        lambda y, p: mean_pinball_loss(y, p.quantile(0.2), alpha=0.2),
    ),
    "AUROC": of_scores(metrics.AUROC, roc_auc_score),
    "FPR95": of_scores(metrics.FPR95, references.fpr95),
}
