"""Targets, weights and masks, brought to the shape of what they belong to."""

from keras import ops

from bayesian_layers.distributions import shapes


def align(y_true, shape):
    """Returns targets of a shape, of which they may lack, or exceed, a last axis of 1.

    As Keras' losses do: `[B]` is taken for `[B, 1]`, and the reverse. Any other
    difference raises, as broadcasting `[B]` against `[B, 1]` gives `[B, B]`.
    """
    y_true = ops.convert_to_tensor(y_true)
    given = shapes.static(y_true)
    if len(given) == len(shape) - 1 and shape[-1] == 1:
        y_true = ops.expand_dims(y_true, axis=-1)
    elif len(given) == len(shape) + 1 and given[-1] == 1:
        y_true = ops.squeeze(y_true, axis=-1)
    if not shapes.matches(shapes.static(y_true), shape):
        raise ValueError(
            "Expected targets of the shape of the predictions. "
            f"Received: y_true.shape={given}, y_pred.shape={tuple(shape)}"
        )
    return y_true


def spread(weights, values):
    """Returns weights of leading axes, with axes of 1 for the others of `values`.

    `[B]` and `[B, 1]` weigh examples, `[B, T]` the steps of each, if `values` have
    such an axis.
    """
    weights = ops.cast(weights, values.dtype)
    rank = len(values.shape)
    while len(weights.shape) > rank and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    given, expected = shapes.static(weights), shapes.static(values)
    fits = len(given) <= rank and all(
        None in pair or pair[0] in (1, pair[1])
        for pair in zip(given, expected, strict=False)
    )
    if not fits:
        raise ValueError(
            "Expected weights or a mask of the leading axes of the log-probabilities. "
            f"Received: shape {given} for log-probabilities of shape {expected}"
        )
    return ops.reshape(weights, (*ops.shape(weights), *[1] * (rank - len(given))))
