"""The divergence of a model: its sum, and its scale in the loss."""

from typing import Any

import keras
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.random_weights.random_weight import RandomWeight
from bayesian_layers.random_weights.random_weights import RandomWeights


def _scaled_layers(model):
    """The layers with random weights and those made of them: all with a `kl_scale`."""
    layers = [
        layer
        for layer in keras_contact.flatten_layers(model)
        if hasattr(layer, "kl_scale")
    ]
    if not layers:
        raise ValueError(
            "Expected a model with layers that have distributions over their weights, "
            f"such as `bl.layers.DenseFlipout`. Received: {model!r} with none."
        )
    return layers


def random_layers(model: keras.Layer) -> list[RandomWeights]:
    """Returns the layers of a model that have, or will have, random weights."""
    layers = keras_contact.flatten_layers(model)
    return [layer for layer in layers if isinstance(layer, RandomWeights)]


def random_weights(model: keras.Layer) -> list[RandomWeight]:
    """Returns the random weights of a model, those of their parameters included.

    Their order is that in which the layers were made part of the model: the same for a
    model that was built anew, cloned, or saved and loaded.
    """
    return [
        part
        for layer in random_layers(model)
        for weight in layer.random_weights.values()
        for part in weight.flatten()
    ]


def total_kl(model: keras.Layer) -> Any:
    """The sum of KL(posterior || prior) over all random weights of a model, unscaled.

    In nats. It does not depend on `bl.scale_kl`, and counts each weight once, however
    often its layer is used; layers that are frozen, and so left out of `model.losses`,
    count too.

    Args:
        model: A model or layer, built.

    Returns:
        A scalar tensor, through which gradients flow.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.DenseFlipout(2)])
    >>> bool(bl.total_kl(model) > 6 * 2.52)
    True
    """
    unbuilt = [layer.name for layer in _scaled_layers(model) if not layer.built]
    if unbuilt:
        raise ValueError(
            "Expected a model that is built: it has no weights before. Call it on data "
            f"or give it an input shape. Received: layers {unbuilt} that are not built."
        )
    weights = [w for w in random_weights(model) if w.regularizer is not None]
    if not weights:
        return ops.zeros((), dtype="float32")
    divergences = [weight.kl() for weight in weights]
    wide = "float64" if any("64" in str(kl.dtype) for kl in divergences) else "float32"
    return sum(ops.cast(kl, wide) for kl in divergences)


def check_losses(model: keras.Layer) -> None:
    """Raises `RuntimeError` if divergences are missing from `model.losses`.

    Training would go on without them, and nothing else would show it.
    """
    expected = [
        weight
        for weight in random_weights(model)
        if weight.regularizer is not None and weight.is_trainable()
    ]
    if len(model.losses) < len(expected):
        raise RuntimeError(
            f"keras {keras.__version__} does not ask layers for losses of their own: "
            f"{len(expected)} divergences of {model.name!r} are not in its losses."
        )


def scale_kl(model: keras.Layer, *, dataset_size: float, weight: float = 1.0) -> None:
    """Scales the divergences in `model.losses` to one example of a data set.

    The evidence bound of a data set is the sum of the log-likelihoods of its N examples
    minus one KL. Keras averages over examples; so the KL is divided by N, once, for the
    whole model. With losses that also average over the elements of an output, such as
    `"mse"`, N counts those elements: `dataset_size = number of examples * number of
    output elements`.

    It sets one variable in each layer. That belongs to training, not to the weights:
    `load_weights` and `set_weights` leave it as it is; the config of the layer, and so
    a `.keras` file and `clone_model`, keep it. A compiled model need not be compiled
    again.

    Args:
        model: A model or layer, built or not.
        dataset_size: The number N of training examples, positive.
        weight: A further factor, not negative: below 1 it tempers the posterior.
            `bl.callbacks.KLSchedule` anneals it.

    Example:
    >>> model = keras.Sequential([bl.layers.DenseFlipout(8), bl.layers.DenseFlipout(1)])
    >>> bl.scale_kl(model, dataset_size=1000)
    >>> model.layers[0].kl_scale
    0.001
    """
    if not _is_number(dataset_size) or not dataset_size > 0:
        raise ValueError(
            "`dataset_size` should be a positive number, that of the training examples."
            f" Received: dataset_size={dataset_size}"
        )
    if not _is_number(weight) or not weight >= 0:
        raise ValueError(f"`weight` should not be negative. Received: weight={weight}")
    for layer in _scaled_layers(model):
        layer.kl_scale = weight / dataset_size


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)
