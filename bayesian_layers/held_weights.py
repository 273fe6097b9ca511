"""Weights held over calls: at their mean, or at one draw."""

import collections
import contextlib
import zlib

import numpy as np

from bayesian_layers.compiled_functions import exchange
from bayesian_layers.handlers import hand_on, handle
from bayesian_layers.kl import random_weights


def weights(model, value=None, *, seed=None):
    """Within the block, the random weights of a model are held.

    `"mean"` holds them at the means of their distributions, a seed at one draw: then
    the model is one function of its inputs, over all calls, batches and batch sizes,
    by every estimator (`f(x)[::-1] == f(x[::-1])`). The weights follow their
    distributions if these are trained meanwhile. Equal seeds give equal functions.

    It holds weights. Output layers draw as ever, and their distribution is the one of
    the held function. Layers that are random functions without random weights are not
    held.

    It works around eager calls, `predict`, `evaluate` and `fit` in any order: what the
    model has compiled outside of the block is set aside within it. A model that
    contains this one has compiled functions of its own: name that one instead.

    Args:
        model: A model or layer.
        value: `"mean"`, or `None` if a seed is given. A distribution without a mean is
            held at its mode.
        seed: Integer: which draw.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.DenseFlipout(2)])
    >>> x = np.ones((4, 3))
    >>> with bl.weights(model, seed=7):
    ...     y = ops.convert_to_numpy(model(x))
    ...     bool(np.allclose(model.predict(x, verbose=0), y, atol=1e-5))
    True
    """
    if (value, seed is None) not in (("mean", True), (None, False)):
        raise ValueError(
            'Expected `bl.weights(model, "mean")` or `bl.weights(model, seed=7)`. '
            f"Received: value={value!r}, seed={seed!r}"
        )
    if value == "mean":
        return _held(model, lambda site, key: _at_the_mean(site["distribution"]))
    return _held(model, lambda site, key: {"seed": _seed_of(seed, key)})


@contextlib.contextmanager
def _held(model, change):
    had = exchange(model, {})
    try:
        with hold(model, change):
            yield
    finally:
        exchange(model, had)


def hold(model, change):
    """Changes the sites of a model's random weights as `change(site, key)` says.

    The key is a string for each weight: its path, and a number if others have that.
    """
    keys = weight_keys(model)

    def handler(site):
        weight = getattr(site["name"], "weight", None)
        if weight is not None and id(weight) not in keys:
            keys.update(weight_keys(model))  # It may have been built meanwhile.
        if id(weight) in keys:
            site.update(change(site, keys[id(weight)]))
        return hand_on(site)

    return handle(handler)


def hold_at(values):
    """Sets random weights to values, given by weight."""

    def handler(site):
        weight = getattr(site["name"], "weight", None)
        if weight in values:
            site["value"] = values[weight]
        return hand_on(site)

    return handle(handler)


def weight_keys(model):
    """Returns the key of each random weight of a model, by the weight's `id`."""
    keys, count = {}, collections.Counter()
    for weight in random_weights(model):
        number = count[weight.path]
        count[weight.path] += 1
        keys[id(weight)] = f"{weight.path}#{number}" if number else str(weight.path)
    return keys


def _at_the_mean(distribution):
    try:
        return {"value": distribution.mean()}
    except NotImplementedError:
        return {"value": distribution.mode()}


def _seed_of(seed, name):
    """Returns the seed of one weight, an integer, from that of all."""
    sequence = np.random.SeedSequence([seed % 2**64, name_code(name)])
    return int(sequence.generate_state(1)[0]) & 0x7FFFFFFF


def name_code(name):
    """Returns an integer below 2**31 for a name, the same in each process."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF
