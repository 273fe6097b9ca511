"""Means and standard deviations of the weights of a model."""

import collections
import dataclasses

import keras
import numpy as np
from keras import ops

from bayesian_layers.random_weights import weights as held_weights
from bayesian_layers.random_weights.kl import random_layers


@dataclasses.dataclass(frozen=True)
class LayerMoments:
    """The moments of the random weights of one layer, arrays `[n]`.

    Attributes:
        name: The name of the layer, unique in its model.
        mean: The means, finite.
        stddev: The standard deviations, finite and positive.
        left_out: The number of weights without such moments.
    """

    name: str
    mean: np.ndarray
    stddev: np.ndarray
    left_out: int

    @property
    def ratio(self):
        """The signal-to-noise ratio."""
        return np.abs(self.mean) / self.stddev


def moments_of_layers(model):
    """Returns the `LayerMoments` of all layers of a model with random weights.

    Random factors that stand for weights (masks of dropout, members of an ensemble) and
    the noise of random functions are no weights.
    """
    if not isinstance(model, keras.Layer):
        raise TypeError(
            f"Expected a model or a layer. Received: {type(model).__name__}"
        )
    layers = [layer for layer in random_layers(model) if _weights_of(layer)]
    if not layers:
        raise ValueError(
            "Expected a model with layers that have distributions over their weights, "
            "such as `bl.layers.DenseFlipout`, and that is built. "
            f"Received: {model.name!r} with no such weights."
        )
    names = collections.Counter(layer.name for layer in layers)
    # Posteriors whose parameters are random are looked at for the means of these.
    with held_weights(model, "mean"):
        moments = [
            _moments_of(layer, layer.name if names[layer.name] == 1 else layer.path)
            for layer in layers
        ]
    if not any(m.mean.size for m in moments):
        raise ValueError(
            "Expected weights whose distributions have a mean and a positive standard "
            f"deviation. Received: {model.name!r} with "
            f"{sum(m.left_out for m in moments)} weights without."
        )
    return moments


def _weights_of(layer):
    weights = layer.random_weights.values()
    return [weight for weight in weights if weight.location is not None]


def _moments_of(layer, name):
    pairs = [_mean_and_stddev(weight.posterior) for weight in _weights_of(layer)]
    mean, stddev = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    valid = np.isfinite(mean) & np.isfinite(stddev) & (stddev > 0.0)
    return LayerMoments(name, mean[valid], stddev[valid], int(np.sum(~valid)))


def _mean_and_stddev(posterior):
    """Arrays `[n]`, of NaN where the distribution has no such moments."""
    try:
        tensors = posterior.mean(), posterior.stddev()
    except NotImplementedError:
        nothing = np.full(int(np.prod(posterior.shape())), np.nan)
        return nothing, nothing
    return tuple(ops.convert_to_numpy(t).astype("float64").ravel() for t in tensors)
