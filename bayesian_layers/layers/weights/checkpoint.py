"""Loading: where the checkpoint of a deterministic model has a layer's weights."""

import re

from keras.src.utils.naming import to_snake_case

from bayesian_layers.layers.weights.defaults import keras_counterpart


def turn_to_deterministic_entry(store, layer):
    """Turns a store that is empty for a layer to what a deterministic model filed.

    Keras files layers by the names of their classes: `layers/dense_1` is the second
    `Dense`. In the file of the deterministic model the entry of a
    `DenseReparameterization` is therefore beside the place where Keras looks: under
    the layer's own name, which Keras notes in each entry, or else under the
    counterpart's class name with the same number. A part of a composite layer is in
    the entry of that, under the same attribute. If there is none, nothing changes.
    """
    path = getattr(store, "_h5_entry_path", None)
    if store.keys() or path is None:
        return
    attribute = ""
    if layer.owner is not None:
        layer = layer.owner()
        path, _, attribute = path.rpartition("/")
    entry = _deterministic_entry(store.h5_file, path, layer)
    if entry is not None:
        store.get(f"{entry}/{attribute}" if attribute else entry)


def _deterministic_entry(file, path, layer):
    """The path beside `path` of the counterpart of a layer, or `None`."""
    parent, _, own = path.rpartition("/")
    prefix = to_snake_case(keras_counterpart(type(layer)).__name__)
    number = re.search(r"_\d+$", own)
    siblings = file.get(parent, {})
    candidates = [key for key in siblings if re.fullmatch(rf"{prefix}(_\d+)?", key)]
    named = [key for key in candidates if _layer_name(siblings[key]) == layer.name]
    same = prefix + (number.group() if number else "")
    for key in (*named, same):
        if key in candidates:
            return f"{parent}/{key}"
    return None


def _layer_name(entry):
    return entry["vars"].attrs.get("name") if "vars" in entry else None
