"""Targets of held-out data, as arrays on the host."""

import numpy as np
from keras import ops

from bayesian_layers.losses.alignment import align


def host_targets(y, shape):
    """Returns targets of a shape, of which they may lack, or exceed, a last axis of 1.

    They keep their dtype, which as a tensor of some backend they would not.
    """
    y = ops.convert_to_numpy(y)
    align(y, shape)
    return y.reshape(shape)


def is_binary(prediction):
    """Whether the outputs of a classifier are each 0 or 1, not one of k classes.

    One of k classes has one entropy for all its probabilities.
    """
    return prediction.aleatoric.shape == prediction.probs.shape


def with_both_classes(probs):
    """Returns the probabilities of 0 and of 1, on a new last axis."""
    return np.stack([1.0 - probs, probs], axis=-1)


def class_labels(y, prediction):
    """Returns the labels of a classifier's examples, integers.

    Args:
        y: Integers, of the shape of the classes with or without a last axis of 1, or
            one-hot vectors.
        prediction: The `Prediction` of a classifier, with `probs` `[..., k]`, or of
            outputs that are 0 or 1.

    Returns:
        An array `[...]` of numbers from 0 to k - 1; or of 0 and 1, of the shape of
        the `probs`.
    """
    shape, y = prediction.probs.shape, ops.convert_to_numpy(y)
    if is_binary(prediction):
        return _checked(host_targets(y, shape), 2)
    if y.shape == shape and y.ndim > 1:
        return _of_one_hot(y)
    return _checked(host_targets(y, shape[:-1]), shape[-1])


def _of_one_hot(y):
    if not (np.all((y == 0) | (y == 1)) and np.all(np.sum(y, axis=-1) == 1)):
        raise ValueError(
            "Expected one-hot vectors, zeros and one 1, or integer labels. "
            f"Received: y of shape {y.shape} from {y.min()} to {y.max()}"
        )
    return np.argmax(y, axis=-1)


def _checked(y, num_classes):
    if not np.all(np.isin(y, np.arange(num_classes))):
        raise ValueError(
            f"Expected labels that are integers from 0 to {num_classes - 1}. "
            f"Received: y from {np.min(y)} to {np.max(y)}"
        )
    return y.astype("int64")
