"""Targets, weights and masks, brought to the shape of what they belong to."""

from keras import ops

from bayesian_layers.distributions import Categorical, OneHotCategorical, shapes
from bayesian_layers.keras_contact import mask_of


def match_rank(y_true, shape):
    """Returns targets with a last axis of 1 added, or removed, if `shape` asks for it.

    As Keras' losses do: `[B]` is taken for `[B, 1]`, and the reverse.
    """
    y_true = ops.convert_to_tensor(y_true)
    given = shapes.static(y_true)
    if len(given) == len(shape) - 1 and shape[-1] == 1:
        return ops.expand_dims(y_true, axis=-1)
    if len(given) == len(shape) + 1 and given[-1] == 1:
        return ops.squeeze(y_true, axis=-1)
    return y_true


def align(y_true, shape, distribution=None):
    """Returns targets of a shape, of which they may lack, or exceed, a last axis of 1.

    Any other difference raises, as broadcasting `[B]` against `[B, 1]` gives `[B, B]`.
    The message names the head that such targets belong to, if `distribution` is one of
    classes.
    """
    aligned = match_rank(y_true, shape)
    if not shapes.matches(shapes.static(aligned), shape):
        given = shapes.static(ops.convert_to_tensor(y_true))
        raise ValueError(
            "Expected targets of the shape of the predictions. "
            f"Received: y_true.shape={given}, y_pred.shape={tuple(shape)}"
            f"{_other_head(given, distribution)}"
        )
    return aligned


def _other_head(given, distribution):
    """Words on targets that are labels where vectors are expected, or the reverse."""
    if isinstance(distribution, OneHotCategorical):
        batch = distribution.batch_shape
        if shapes.matches(given, batch) or shapes.matches(given, (*batch, 1)):
            return (
                ". Integer labels belong to the head `bl.layers.Categorical`; "
                "`OneHotCategorical` takes `keras.ops.one_hot(labels, "
                f"{distribution.num_categories})`."
            )
    if isinstance(distribution, Categorical) and shapes.matches(
        given, (*distribution.batch_shape, distribution.num_categories)
    ):
        return (
            ". One-hot targets belong to the head `bl.layers.OneHotCategorical`; "
            "`Categorical` takes `keras.ops.argmax(y_true, axis=-1)`."
        )
    return ""


def weights_of(y_pred, sample_weight, shape, dtype):
    """Returns the product of weights and of the mask of an output, or `None`.

    Args:
        y_pred: The output, which may carry a mask.
        sample_weight: Weights, or `None`.
        shape: The static shape of what is weighted.
        dtype: The dtype of the result.

    Returns:
        A tensor of the rank of `shape`, that broadcasts to it, or `None` if there are
        neither weights nor a mask.
    """
    given = [w for w in (mask_of(y_pred), sample_weight) if w is not None]
    weights = [_broadcast_leading(ops.cast(w, dtype), shape) for w in given]
    return weights[0] * weights[-1] if len(weights) > 1 else next(iter(weights), None)


def _broadcast_leading(weights, shape):
    """Returns weights of leading axes, with axes of 1 for the others of `shape`.

    `[B]` and `[B, 1]` weigh examples, `[B, T]` the steps of each, if there is such an
    axis.
    """
    rank = len(shape)
    while len(weights.shape) > rank and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    given = shapes.static(weights)
    fits = len(given) <= rank and all(
        None in pair or pair[0] in (1, pair[1])
        for pair in zip(given, shape, strict=False)
    )
    if not fits:
        raise ValueError(
            "Expected weights or a mask of the leading axes of the log-probabilities. "
            f"Received: shape {given} for log-probabilities of shape {tuple(shape)}"
        )
    return ops.reshape(weights, (*ops.shape(weights), *[1] * (rank - len(given))))
