"""Classes: what a metric of classifiers is given, as a distribution and as labels."""

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import (
    Bernoulli,
    Categorical,
    OneHotCategorical,
    shapes,
)
from bayesian_layers.keras_contact import in_symbolic_scope
from bayesian_layers.losses.alignment import align
from bayesian_layers.metrics.weights import checked, weights_like
from bayesian_layers.prediction.moments import CLASSIFIERS
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.random_variable import RandomVariable


def classifier_of(y_pred, y_true=None):
    """Returns the predicted distribution of the classes of each example.

    Args:
        y_pred: The random variable of a head of classes; a `bl.Prediction` of a
            classifier; or probabilities, `[..., classes]`, or of one class, `[B]` or
            `[..., 1]`.
        y_true: The targets: of probabilities they say whether these are of labels or
            of one-hot vectors.
    """
    if isinstance(y_pred, Prediction):
        return y_pred.family(probs=y_pred.probs)
    if not isinstance(y_pred, RandomVariable):
        return _of_probabilities(y_pred, y_true)
    distribution = y_pred.distribution.predictive()
    if not isinstance(distribution, CLASSIFIERS):
        raise TypeError(
            "Expected a prediction of classes: the random variable of a head such as "
            "`bl.layers.Categorical`, a `bl.Prediction` of a classifier, or "
            f"probabilities. Received: y_pred={y_pred!r}"
        )
    return distribution


def _of_probabilities(y_pred, y_true):
    probs = ops.convert_to_tensor(y_pred)
    shape = shapes.static(probs)
    if not shape or not keras.backend.is_float_dtype(probs.dtype):
        raise TypeError(
            "Expected probabilities of shape [..., classes], or of one class, [B] or "
            f"[..., 1]. Received: y_pred of shape {shape} and dtype {probs.dtype}. A "
            "head such as `bl.layers.Categorical` gives a random variable."
        )
    family = _family(shape, y_true)
    if in_symbolic_scope():  # Where PyTorch has arrays of ones in place of outputs.
        probs = family.parameters["probs"].project(probs)
    return family(probs=probs)


def _family(shape, y_true):
    """The family of probabilities of a shape, given the targets or `None`."""
    if len(shape) == 1 or shape[-1] == 1:
        return Bernoulli
    if y_true is not None:
        targets = shapes.static(ops.convert_to_tensor(y_true))
        if shapes.matches(targets, shape):
            return OneHotCategorical
    return Categorical


def class_probs(distribution):
    """Returns probabilities `[..., classes]`; a `Bernoulli` has two classes."""
    probs = distribution.probs
    if isinstance(distribution, Bernoulli):
        return ops.stack([1.0 - probs, probs], axis=-1)
    return probs


def read_classes(y_true, y_pred, sample_weight, dtype):
    """Returns the distribution of classes, the labels and the weights of a batch.

    Labels that are no class raise, unless they have no weight; in a compiled function,
    where nobody can look at them, their weight is NaN.

    Returns:
        A distribution of batch shape `[B, ...]`, and integer labels and weights of
        that shape.
    """
    distribution = classifier_of(y_pred, y_true)
    targets = align(y_true, distribution.shape(), distribution)
    weights = weights_of_classes(distribution, y_pred, sample_weight, dtype)
    is_class = distribution.support.check(ops.cast(targets, "float32"))

    def message(position):
        count = class_probs(distribution).shape[-1]
        event = distribution.event_shape
        shown = ops.convert_to_numpy(targets).reshape((-1, *event))[position]
        return (
            f"Expected labels from 0 to {count - 1}, as there are {count} classes, or "
            f"their one-hot vectors. Received: y_true with {shown}. Give padding a "
            "`sample_weight` of 0."
        )

    weights = checked(weights, is_class, message)
    if isinstance(distribution, OneHotCategorical):
        targets = ops.argmax(targets, axis=-1)
    return distribution, ops.cast(targets, "int32"), weights


def weights_of_classes(distribution, y_pred, sample_weight, dtype):
    """Returns weights of the batch shape: NaN where there are no probabilities.

    So the result is NaN, and no wrong number, if a compiled function is given logits.
    """
    proper = distribution.parameters["probs"].check(distribution.probs)
    weights = weights_like(proper, y_pred, sample_weight, dtype)
    proper = ops.logical_or(proper, ops.equal(weights, 0.0))
    return ops.where(proper, weights, np.nan)
