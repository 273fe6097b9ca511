"""The divergence of a model: its sum, and its scale in the loss."""

from keras import ops

from bayesian_layers.layers.weights.defaults import RandomDefaults
from bayesian_layers.layers.weights.random_weights import RandomWeights


def _random_layers(model):
    """The layers with random weights, and the composites: both have a `kl_scale`."""
    layers = [
        layer for layer in model._flatten_layers() if isinstance(layer, RandomDefaults)
    ]
    if not layers:
        raise ValueError(
            "Expected a model with layers that have distributions over their weights, "
            f"such as `bl.layers.DenseFlipout`. Received: {model!r} with none."
        )
    return layers


def has_random_weights(model):
    """Whether a model has any layer with random weights."""
    return any(isinstance(layer, RandomWeights) for layer in model._flatten_layers())


def random_weights(model):
    """Returns the random weights of a model, those of their parameters included."""
    found = [
        weight
        for layer in _random_layers(model)
        if isinstance(layer, RandomWeights)
        for weight in layer.random_weights.values()
    ]
    for weight in found:  # Grows while it runs: parameters may be random in turn.
        found.extend(weight.nested)
    return found


def total_kl(model):
    """The sum of the penalties on all random weights of a model, unscaled.

    With the default regularizers it is KL(posterior || prior) in nats. It does not
    depend on `bl.scale_kl`, and counts each weight once, however often its layer is
    used; layers that are frozen, and so left out of `model.losses`, count too.

    Args:
        model: A model or layer, built.

    Returns:
        A scalar tensor, through which gradients flow.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.DenseFlipout(2)])
    >>> bool(bl.total_kl(model) > 6 * 2.52)
    True
    """
    layers = _random_layers(model)
    unbuilt = [layer.name for layer in layers if not layer.built]
    if unbuilt:
        raise ValueError(
            "Expected a model that is built: it has no weights before. Call it on data "
            f"or give it an input shape. Received: layers {unbuilt} that are not built."
        )
    divergences = [
        weight.total_divergence()
        for layer in layers
        if isinstance(layer, RandomWeights)
        for weight in layer.random_weights.values()
    ]
    return sum(divergences, ops.zeros((), dtype="float32"))


def scale_kl(model, *, dataset_size, weight=1.0):
    """Scales the penalties in `model.losses` to one example of a data set.

    The evidence bound of a data set is the sum of the log-likelihoods of its N examples
    minus one KL. Keras averages over examples; so the KL is divided by N, once, for the
    whole model. With losses that also average over the elements of an output, such as
    `"mse"`, N counts those elements: `dataset_size = number of examples * number of
    output elements`.

    It sets one variable in each layer, which saving, loading and `clone_model` keep. A
    compiled model need not be compiled again.

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
    if not dataset_size > 0:
        raise ValueError(
            f"`dataset_size` should be positive. Received: dataset_size={dataset_size}"
        )
    if not weight >= 0:
        raise ValueError(f"`weight` should not be negative. Received: weight={weight}")
    for layer in _random_layers(model):
        layer.kl_scale = weight / dataset_size
