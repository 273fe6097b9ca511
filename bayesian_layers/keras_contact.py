"""The one contact with what is private in Keras: a named function for each hook."""

import keras
from keras.src.backend import get_keras_mask
from keras.src.backend.common import global_state


def mask_of(output):
    """Returns the mask that Keras has attached to the output of a layer, or `None`."""
    return get_keras_mask(output)


def layers_of(model):
    """Returns a model, or layer, and all layers inside of it, at any depth."""
    return list(model._flatten_layers())


def optimized(direction):
    """Tells callbacks whether a metric should go `"up"` or `"down"`: a decorator.

    `EarlyStopping` and `ModelCheckpoint` with `mode="auto"` read it from the metric.
    """

    def decorate(metric):
        metric._direction = direction
        return metric

    return decorate


def calling_model():
    """Returns the model, or other layer, whose call is under way, or `None`.

    It is the outermost one of those that call each other. `fit` and `evaluate` of a
    model that was just compiled call it on all backends; on JAX that is once, to build
    its metrics, as `stateless_call` leaves out the `__call__` of the model.
    """
    context = global_state.get_global_attribute("current_call_ctx")
    return None if context is None else context.entry_layer


def compiled_metrics(model, layer):
    """Returns what `compile` was given as metrics of the output of a layer.

    Args:
        model: A model, compiled or not.
        layer: A layer.

    Returns:
        A list of strings, functions and metrics: empty if the layer is no output of the
        model, or if that cannot be told, as in a model with a `call` of its own.
    """
    compiled = getattr(model, "_compile_metrics", None)
    if compiled is None:
        return []
    if isinstance(model, keras.Sequential):
        names = [model.layers[-1].name]
    else:
        names = getattr(model, "output_names", [])
    if layer.name not in names:
        return []
    found = []
    for given in (compiled._user_metrics, compiled._user_weighted_metrics):
        if isinstance(given, dict):
            given = given.get(layer.name)
        elif given is not None and len(names) > 1:
            given = given[names.index(layer.name)]
        found += [] if given is None else keras.tree.flatten(given)
    return found
