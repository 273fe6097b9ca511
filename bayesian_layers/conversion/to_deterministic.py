"""From a Bayesian model to a plain one of Keras."""

import contextlib
import inspect

from bayesian_layers import initializers, keras_contact, regularizers
from bayesian_layers.conversion import heads as head_layers
from bayesian_layers.conversion.copying import Copier, copy_weights
from bayesian_layers.initializers.posterior import is_from_keras
from bayesian_layers.layers.returning import ReturnsRandomVariables
from bayesian_layers.random_weights import RandomWeights, weights
from bayesian_layers.random_weights.kl import random_layers


def to_deterministic(model, *, seed=None, heads="mean"):
    """Returns a copy of a Bayesian model in which every layer is one of Keras.

    Random weights become values: the means of their distributions, or, with a `seed`,
    one draw of all of them, that of `bl.weights(model, seed=seed)`. The copy loads
    without this library, and can be quantized and exported; it is not compiled, and the
    original is not changed. Layers of users are copied as they are; see
    `bl.to_bayesian` for what is copied how.

    An output layer becomes the mean of its distribution: of `bl.layers.Normal` and
    other families with a location that, of `Bernoulli`, `Categorical` and
    `OneHotCategorical` the probabilities. With `heads="keep"` output layers are kept,
    as layers of this library.

    Args:
        model: A model or layer, built.
        seed: Integer: which draw. Defaults to the means.
        heads: `"mean"` or `"keep"`.

    Returns:
        A model.

    Raises:
        ValueError: If a layer has no equal in Keras: a Gaussian process, an output
            layer whose mean is no layer of Keras, or a user's layer with random
            weights. All of them are named.

    Example:
    >>> model = keras.Sequential(
    ...     [keras.Input((3,)), bl.layers.DenseFlipout(4), bl.layers.Categorical(2)]
    ... )
    >>> net = bl.to_deterministic(model)
    >>> [type(layer).__name__ for layer in net.layers]
    ['Dense', 'Dense']
    >>> ops.shape(net(np.ones((5, 3))))
    (5, 2)
    """
    if heads not in ("mean", "keep"):
        raise ValueError(f'`heads` should be "mean" or "keep". Received: heads={heads}')
    unequal = [layer for layer in _whole_layers(model) if not _has_equal(layer, heads)]
    if unequal:
        listed = "\n".join(f"- {x.name} ({type(x).__name__})" for x in unequal)
        raise ValueError(
            f"These layers of {model.name!r} have no equal in Keras:\n{listed}\n"
            '`heads="keep"` keeps output layers.'
        )
    values = _values(model, seed)

    def replace(layer):
        if getattr(layer, "keras_counterpart", None) is not None:
            return _counterpart(layer, values)
        if isinstance(layer, ReturnsRandomVariables) and heads == "mean":
            return head_layers.mean_layer(layer)
        return None

    return Copier(replace).copy(model)


def _whole_layers(model):
    """The layers in a model; those in layers of ours belong to these."""
    found = []
    stack = [model]
    while stack:
        layer = stack.pop(0)
        if any(layer is other for other in found):
            continue
        found.append(layer)
        if not _is_ours(layer):
            stack.extend(keras_contact.parts_of(layer))
    return found


def _is_ours(layer):
    is_ours = type(layer).__module__.startswith("bayesian_layers.")
    return is_ours or isinstance(layer, RandomWeights)


def _has_equal(layer, heads):
    if not _is_ours(layer) or getattr(layer, "keras_counterpart", None) is not None:
        return True
    if not isinstance(layer, ReturnsRandomVariables) or _is_random(layer):
        return False
    return heads == "keep" or head_layers.has_mean_layer(layer)


def _is_random(layer):
    return bool(random_layers(layer))


def _values(model, seed):
    """The values of random weights, by the `id` of their locations."""
    if not random_layers(model):
        return {}
    held = weights(model, "mean") if seed is None else weights(model, seed=seed)
    with contextlib.ExitStack() as stack:
        stack.enter_context(held)
        return {
            id(weight.location): weight.draw()
            for layer in random_layers(model)
            for weight in layer.random_weights.values()
        }


def _counterpart(layer, values):
    """The layer of Keras that a layer is the twin of, with values for weights."""
    cls = layer.keras_counterpart
    known = inspect.signature(cls).parameters
    config = {}
    for name, value in layer.get_config().items():
        ours = name in ("kl_scale", "use_cudnn", "lora_rank", "lora_alpha")
        if ours or (name == "seed" and name not in known):
            continue
        if name.endswith("_initializer") and not is_from_keras(initializers.get(value)):
            continue
        if name.endswith("_regularizer"):
            penalty = regularizers.get(value)
            if isinstance(penalty, regularizers.KLDivergence):
                continue
        config[name] = value
    plain = cls.from_config(config)
    if layer.built:
        plain.build_from_config(layer.get_build_config())
        copy_weights(layer, plain, values)
    return plain
