"""The substitution: a layer's own code runs, with other values for its attributes."""

import keras


def call_with(layer, call, args, kwargs, values):
    """Runs `call(layer, *args, **kwargs)` with attributes of the layer replaced.

    It runs on a shallow copy of the layer, of which nobody else knows: no exception,
    thread or nested call can take a draw for the weight, and nothing has to be put
    back. Attributes that `call` sets are set on the layer.

    Args:
        layer: A layer.
        call: A function of the layer, such as the `call` of a base class.
        args: Positional arguments.
        kwargs: Keyword arguments.
        values: The values by the names of the attributes that they replace, which the
            layer has to have.
    """
    entries = dict(vars(layer))
    missing = [name for name in values if name not in entries]
    if missing:
        raise AttributeError(
            f"Layer {layer.name!r} has no attributes {missing} that could be replaced "
            f"by a draw. It has: {sorted(entries)}"
        )
    entries.update(values, _is_substituted=True)
    copy = object.__new__(type(layer))
    vars(copy).update(entries)
    outputs = call(copy, *args, **kwargs)
    for name, value in vars(copy).items():
        if name not in entries or value is not entries[name]:
            vars(layer)[name] = value
    return outputs


def without_bias_and_activation(layer):
    """Returns the values for `call_with` that leave only the linear map of a layer."""
    entries = vars(layer)
    values = {}
    if entries.get("activation") is not None:
        values["activation"] = keras.activations.linear
    if entries.get("bias") is not None:
        if layer.keras_counterpart is not None:
            values["bias"] = None  # All of Keras' layers may be without.
            if "use_bias" in entries:
                values["use_bias"] = False
        else:
            bias = keras.ops.convert_to_tensor(entries["bias"])
            values["bias"] = keras.ops.zeros_like(bias)
    return values
