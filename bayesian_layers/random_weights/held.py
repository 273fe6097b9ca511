"""Weights held over calls: at their mean, or at one draw."""

import contextlib

import keras

from bayesian_layers import keras_contact, seeds
from bayesian_layers.handlers import hand_on, handle
from bayesian_layers.random_weights.kl import random_layers, random_weights
from bayesian_layers.random_weights.random_weight import RandomWeight


def weights(
    model: keras.Layer, value: str | None = None, *, seed: int | None = None
) -> contextlib.AbstractContextManager[None]:
    """Within the block, the random weights of a model are held.

    `"mean"` holds them at the means of their distributions, a seed at one draw: then
    the model is one function of its inputs, over all calls, batches and batch sizes,
    by every estimator (`f(x)[::-1] == f(x[::-1])`). The weights follow their
    distributions if these are trained meanwhile. Equal seeds give equal functions, also
    after saving and loading: a draw depends on the seed and on the position of the
    weight in the model.

    An ensemble (`bl.layers.DenseBatchEnsemble`, ...) is held at the member of the
    number `seed`, modulo the number of members.

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
    if not random_layers(model):
        raise ValueError(
            "Expected a model with layers that have distributions over their weights, "
            f"such as `bl.layers.DenseFlipout`. Received: {model!r} with none."
        )
    if value == "mean":
        return _held(model, lambda site, position: _at_the_mean(site["distribution"]))

    def at_seed(site, position):
        if hasattr(site["source"], "of_index"):
            return {"value": site["source"].of_index(seed)}
        return {"seed": seeds.at_position(seed, position)}

    return _held(model, at_seed)


@contextlib.contextmanager
def _held(model, change):
    had = keras_contact.exchange_compiled_functions(model, {})
    try:
        with hold(model, change):
            yield
    finally:
        keras_contact.exchange_compiled_functions(model, had)


def hold(model, change):
    """Changes the sites of a model's random weights by `change(site, position)`."""
    positions = {}

    def is_held(name, source):
        if isinstance(source, RandomWeight) and source not in positions:
            # It may have been built meanwhile.
            found = random_weights(model)
            positions.update(zip(found, range(len(found)), strict=True))
        return source in positions

    def handler(site):
        if is_held(site["name"], site["source"]):
            site.update(change(site, positions[site["source"]]))
        return hand_on(site)

    return handle(handler, is_held)


def hold_at(values):
    """Sets random weights to values, given by weight."""

    def handler(site):
        if site["source"] in values:
            site["value"] = values[site["source"]]
        return hand_on(site)

    return handle(handler, lambda name, source: source in values)


def _at_the_mean(distribution):
    try:
        return {"value": distribution.mean()}
    except NotImplementedError:
        return {"value": distribution.mode()}
