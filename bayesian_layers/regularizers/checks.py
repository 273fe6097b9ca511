"""Regularizers that do not fit their weight: a word where there would be silence."""

import functools

import keras

from bayesian_layers.regularizers.kl_divergence import KLDivergence


def check(regularizer, name):
    """Raises `ValueError` for a regularizer of Keras on a random weight.

    It would penalize a draw in place of the distribution, whose scale then vanishes.

    Args:
        regularizer: What was given.
        name: The name of the weight.
    """
    if isinstance(regularizer, KLDivergence):
        return
    if not isinstance(regularizer, keras.regularizers.Regularizer):
        return
    raise ValueError(
        f"The random weight {name!r} needs a prior, not a penalty on its draws. With N "
        "training examples the L2 penalty of factor l is the prior "
        "`bl.regularizers.NormalKLDivergence(stddev=(1 / (2 * l * N)) ** 0.5)`; leave "
        "the argument out for a standard normal prior. "
        f"Received: {type(regularizer).__name__} with {regularizer.get_config()}"
    )


def of_known_weight(regularizer, name):
    """Returns the regularizer of a weight that is one value.

    A function for random weights fails there, with a message that says so.
    """
    if regularizer is None or isinstance(regularizer, keras.regularizers.Regularizer):
        return regularizer

    @functools.wraps(regularizer)
    def penalty(weight):
        try:
            return regularizer(weight)
        except AttributeError as error:
            raise ValueError(
                f"The regularizer of {name!r} expects a random variable, but the "
                "weight is one value: its initializer is no distribution, such as "
                "`bl.initializers.TrainableNormal()`."
            ) from error

    return penalty
