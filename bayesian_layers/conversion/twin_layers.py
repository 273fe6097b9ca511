"""The twins of layers that are trained already."""

import math

import numpy as np

from bayesian_layers import parameterizations
from bayesian_layers.conversion.copying import array_of, copy_weights
from bayesian_layers.layers.weights.twins import random_argument
from bayesian_layers.random_weights.kl import random_weights
from bayesian_layers.regularizers import AnchoredNormalKLDivergence


def make_twin(
    layer, cls, *, prior=None, posterior=None, scales=None, seed=None, arguments=None
):
    """Returns the twin of a layer, around its weights.

    Args:
        layer: A layer of Keras, built.
        cls: The class of the twin.
        prior: The regularizer of its random weights, or `None` for the default.
        posterior: Their initializer, or `None` for the default.
        scales: A function from a weight, an array, to the standard deviations that it
            starts with; or `None`: as the initializer says.
        seed: The seed of the draws.
        arguments: Further arguments of the constructor, by name.
    """
    given = {"initializer": posterior, "regularizer": prior}
    config = layer.get_config()
    for name in list(config):
        kind = random_argument(cls, name)
        if kind is not None:
            del config[name]
            if given[kind] is not None:
                config[name] = given[kind]
    twin = cls.from_config({**config, "seed": seed, **(arguments or {})})
    twin.build_from_config(layer.get_build_config())
    copy_weights(layer, twin)
    for weight in random_weights(twin):
        if weight.location is None:  # A mask: there is nothing to keep of it.
            continue
        value = array_of(weight.location)
        if isinstance(weight.regularizer, AnchoredNormalKLDivergence):
            (anchor,) = weight.prior_variables
            anchor.assign(value)
        if scales is not None:
            set_scale(weight, scales(value))
    return twin


def set_scale(weight, scale):
    """Sets the standard deviations of a random weight, given in natural units."""
    variable = weight.variables["scale"]
    if tuple(variable.shape) != scale.shape:  # One for all elements.
        scale = math.sqrt(np.mean(np.square(scale)))
    constraint = weight.initializer.parameters()["scale"].constraint
    variable.assign(parameterizations.untransformed(constraint, scale, variable.dtype))


def moped_scales(delta):
    """Returns the standard deviations of MOPED, a function of the trained weight."""
    if not delta > 0.0:
        raise ValueError(f"`delta` should be positive. Received: delta={delta}")

    def scales(weight):
        size = math.sqrt(np.mean(np.square(weight)))
        # Of a kernel of zeros nothing is known but that it is small.
        return delta * np.maximum(np.abs(weight), max(0.1 * size, 1e-3))

    return scales


def constant_scales(scale):
    """Returns one standard deviation for all elements, a function of the weight."""
    if isinstance(scale, str) or not scale > 0.0:
        raise ValueError(
            '`posterior_scale` should be "moped" or a positive number. '
            f"Received: posterior_scale={scale!r}"
        )
    return lambda weight: np.full_like(weight, scale)
