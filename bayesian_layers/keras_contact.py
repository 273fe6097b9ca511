"""The one contact with what is private in Keras: a named function for each hook."""

from keras.src.backend import get_keras_mask


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
