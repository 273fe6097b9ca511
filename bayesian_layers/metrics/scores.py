"""Scores of how far an example is from the data of training."""

from keras import ops

from bayesian_layers.metrics.classes import class_probs, classifier_of
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.random_variable import RandomVariable


def _one_minus_max_prob(distribution):
    probs = class_probs(distribution)
    largest = ops.one_hot(
        ops.argmax(probs, axis=-1), probs.shape[-1], dtype=probs.dtype
    )
    # The sum of the others: 1 minus the largest cancels where that is close to 1.
    return ops.sum(probs * (1.0 - largest), axis=-1)


# Functions of the distribution of classes.
OF_CLASSES = {
    "entropy": lambda distribution: distribution.entropy(),
    "max_prob": _one_minus_max_prob,
}
# Attributes of a `bl.Prediction`.
OF_PREDICTIONS = ("mutual_information", "epistemic", "aleatoric", "stddev")


def check_score(score):
    """Raises `ValueError` unless it is the name of a score, or `None`."""
    known = [*OF_CLASSES, *OF_PREDICTIONS]
    if score is not None and score not in known:
        raise ValueError(
            f"`score` should be `None` or one of {known}. Received: score={score!r}"
        )


def scores_of(y_pred, score):
    """Returns the scores of a batch, larger for what is more out of distribution.

    Args:
        y_pred: Scores, if `score` is `None`; else a `bl.Prediction` or, for scores of
            classes, a random variable of these or probabilities.
        score: The name of a score, or `None`.
    """
    if score is None:
        if isinstance(y_pred, (Prediction, RandomVariable)):
            raise TypeError(
                "Expected scores, an array. Name the score that is to be taken of a "
                f"prediction: `score='entropy'`, say. Received: y_pred={y_pred!r} and "
                "score=None"
            )
        return ops.cast(y_pred, "float32")
    if score in OF_CLASSES:
        return _of_examples(OF_CLASSES[score](classifier_of(y_pred)))
    if not isinstance(y_pred, Prediction):
        raise TypeError(
            f"The score {score!r} is of a `bl.Prediction`, made by `bl.predict`. "
            f"Received: y_pred of type {type(y_pred).__name__}"
        )
    return _of_examples(ops.convert_to_tensor(getattr(y_pred, score)))


def _of_examples(values):
    """The sum over all outputs of an example."""
    return ops.sum(values, axis=tuple(range(1, len(values.shape))))
