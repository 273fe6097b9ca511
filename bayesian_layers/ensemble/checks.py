"""What models can be members of one ensemble."""

import numbers
import warnings

import keras
import numpy as np

from bayesian_layers import backend, keras_contact


def made(build_model, size):
    """Returns `size` models that a function made, or says what is wrong with it."""
    if isinstance(build_model, keras.Layer) or not callable(build_model):
        raise TypeError(
            "`build_model` should be a function without arguments that returns a new "
            f"`keras.Model` at each call. Received: build_model={build_model!r}"
        )
    if not isinstance(size, numbers.Integral) or isinstance(size, bool) or size < 1:
        raise ValueError(f"`size` should be a positive integer. Received: size={size}")
    members = [build_model() for _ in range(size)]
    for member in members:
        if not isinstance(member, keras.Model):
            raise TypeError(
                "`build_model` should return a `keras.Model`. "
                f"Received: {member!r} from {build_model!r}"
            )
    layers = [id(part) for m in members for part in keras_contact.flatten_layers(m)]
    if len(set(layers)) < len(layers):
        raise ValueError(
            "`build_model` should make a new model, of new layers, at each call: "
            "members are trained apart. Received: models that share layers."
        )
    return members


def check_alike(members):
    """Raises `ValueError` unless all members are of one architecture."""
    first = architecture(members[0])
    for i, member in enumerate(members[1:], start=1):
        other = architecture(member)
        for what, ours, theirs in zip(PARTS, first, other, strict=True):
            if ours != theirs:
                raise ValueError(
                    "Expected members of one architecture: `build_model` should make "
                    "the same model at each call, with other initial weights. To "
                    "predict by models that differ, train them apart and call "
                    f"`bl.predict([model_a, model_b], x)`. Received: members 0 and {i} "
                    f"with different {what}: {_differences(ours, theirs)}"
                )


PARTS = ("layers", "weights", "configurations")


def architecture(model):
    """What models have in common that are one function of their weights."""
    layers = keras_contact.flatten_layers(model)
    weights = [
        (tuple(v.shape), v.dtype, v.trainable)
        for layer in layers
        if layer.built
        for v in keras_contact.own_variables(layer)
    ]
    operations = [o for layer in layers for o in getattr(layer, "operations", [])]
    names = [part.name for part in [*layers, *operations]]
    positions = {name: f"operation {i}" for i, name in enumerate(names)}
    kinds = [type(layer).__name__ for layer in layers]
    return kinds, weights, _plain(_config(model), positions)


def _config(model):
    try:
        with warnings.catch_warnings():
            # Of lambdas, which are saved without safety: nothing is saved here.
            warnings.simplefilter("ignore")
            return model.get_config()
    except NotImplementedError:
        return None  # A model of a user who does not want to save it.


def _plain(config, positions):
    """A config without what may differ: names, which Keras counts up, and seeds."""
    if isinstance(config, dict):
        return {
            key: _plain(value, positions)
            for key, value in config.items()
            if key not in ("name", "seed", "shared_object_id")
        }
    if isinstance(config, (list, tuple)):
        return [_plain(value, positions) for value in config]
    if isinstance(config, np.ndarray):
        return config.tolist()
    if isinstance(config, str):
        return positions.get(config, config)
    if config is None or isinstance(config, (bool, numbers.Number)):
        return config
    return getattr(config, "__qualname__", type(config).__qualname__)


def _differences(ours, theirs):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in {**ours, **theirs}:
            if ours.get(key) != theirs.get(key):
                return _differences(ours.get(key), theirs.get(key))
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for a, b in zip(ours, theirs, strict=True):
            if a != b:
                return _differences(a, b)
    return f"{ours} and {theirs}"


def warn_of_equal_starts(members):
    """Warns if members begin with the same weights: they would stay the same."""
    if len(members) < 2:
        return
    first, *others = ([v.numpy() for v in m.trainable_variables] for m in members)
    if first and any(all(map(np.array_equal, first, other)) for other in others):
        warnings.warn(
            "Members of the ensemble begin with the same weights: trained on the same "
            "batches, they remain the same function. Remove fixed seeds of "
            "initializers from `build_model`, and do not set the global seed there.",
            stacklevel=2,
        )


def check_undistributed():
    """Raises `ValueError` where the stacked members would have to be distributed."""
    distribution = keras.distribution.distribution()
    if backend.maps_models and distribution is not None:
        raise ValueError(
            "On JAX an ensemble is trained as one program, on one device. Train the "
            "members apart, and predict with `bl.predict([model_a, model_b], x)`. "
            f"Received: keras.distribution.distribution()={distribution}"
        )
