"""What is asked of a reversible layer: ours, or any Keras layer with `reverse`.

A layer of ours computes the map and its log-determinant in one go, by
`forward_and_log_det` and `reverse_and_log_det`. Any other is asked for `layer(x)`,
`layer.reverse(y)` and `layer.log_det_jacobian(x)`.
"""

import inspect

import keras
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.random_weights import RandomWeights


def takes_context(layer):
    """Whether a layer can be given a context."""
    if hasattr(layer, "takes_context"):
        return layer.takes_context
    return "context" in inspect.signature(layer.call).parameters


def given(layer, function, context):
    """The keyword arguments of a function of a layer that may know no context."""
    if context is None or not takes_context(layer):
        return {}
    known = "context" in inspect.signature(function).parameters
    return {"context": context} if known else {}


def run(layer, method, x, context):
    """Runs a method of a layer of ours, with draws for its random weights, if any."""
    if hasattr(layer, "check_shape"):
        layer.check_shape(x.shape, is_output=method == "reverse_and_log_det")
    function = getattr(type(layer), method)
    arguments = given(layer, function, context)
    is_random = isinstance(layer, RandomWeights) and layer.random_weights
    if is_random and not layer._is_substituted:
        return layer.estimate(function, x, **arguments)
    return function(layer, x, **arguments)


def _is_ours(layer):
    return hasattr(layer, "forward_and_log_det")


def forward(layer, x, context=None):
    """Returns y."""
    return layer(x, **given(layer, layer.call, context))


def reverse(layer, y, context=None):
    """Returns the x that the layer takes to y."""
    check_reversible(layer)
    return layer.reverse(y, **given(layer, layer.reverse, context))


def forward_and_log_det(layer, x, context=None):
    """Returns y and log |det dy / dx|."""
    if _is_ours(layer):
        return run(layer, "forward_and_log_det", x, context)
    check_has_density(layer)
    arguments = given(layer, layer.log_det_jacobian, context)
    return forward(layer, x, context), layer.log_det_jacobian(x, **arguments)


def reverse_and_log_det(layer, y, context=None):
    """Returns x and log |det dx / dy|."""
    if _is_ours(layer):
        return run(layer, "reverse_and_log_det", y, context)
    check_has_density(layer)
    x = reverse(layer, y, context)
    arguments = given(layer, layer.log_det_jacobian, context)
    return x, -layer.log_det_jacobian(x, **arguments)


def check_reversible(layer):
    """Raises `TypeError` if a layer has no `reverse`."""
    if not hasattr(layer, "reverse"):
        raise TypeError(
            f"Layer {layer.name!r} cannot be reversed. Expected a layer with a method "
            f"`reverse(y)`. Received: a {type(layer).__name__}, which has none."
        )


def check_has_density(layer):
    """Raises `TypeError` if a layer does not say how it changes volumes."""
    if not hasattr(layer, "log_det_jacobian"):
        raise TypeError(
            f"Layer {layer.name!r} has no log-determinant, and so its output no "
            "density. Expected a layer with a method `log_det_jacobian(x)`. "
            f"Received: a {type(layer).__name__}, which has none."
        )


class _Traced(keras.Operation):
    """The shapes of a map's value and log-determinant, without numbers."""

    def __init__(self, layer, context):
        super().__init__()
        self.layer = layer
        self.context = context

    def call(self, x):
        return forward_and_log_det(self.layer, x, self.context)


def ranks(layer, shape, context=None):
    """The numbers of trailing axes of input and output that the layer acts on.

    A layer of ours states them. Of another they follow from the shape of its
    log-determinant; without one all axes but the first belong together.
    """
    if _is_ours(layer):
        try:
            return layer.event_rank, layer.output_rank
        except AttributeError:
            pass  # It is made of layers that do not state theirs.
    x = keras.KerasTensor(shape, "float32")
    if not _is_ours(layer) and not hasattr(layer, "log_det_jacobian"):
        rank = len(layer.compute_output_spec(x).shape)
        return max(len(shape) - 1, 0), max(rank - 1, 0)
    y, log_det = _Traced(layer, context).compute_output_spec(x)
    return len(shape) - len(log_det.shape), len(y.shape) - len(log_det.shape)


def forward_shape(layer, shape):
    """Returns the shape of a layer's value, given one of its input or of an event."""
    if hasattr(layer, "forward_shape"):
        return tuple(layer.forward_shape(shape))
    if not shape:
        return ()
    # A layer of Keras knows shapes with an axis for the examples.
    build(layer, (None, *shape))
    spec = keras.KerasTensor((None, *shape), "float32")
    return tuple(layer.compute_output_spec(spec).shape[1:])


def reverse_shape(layer, shape):
    """Returns the shape of a layer's input; of a layer of Keras: it changes none."""
    return tuple(getattr(layer, "reverse_shape", tuple)(shape))


def build(layer, shape, context_shape=None):
    """Builds a layer for inputs of a shape, unless it is built."""
    if layer.built:
        return
    if context_shape is None or not takes_context(layer):
        layer.build(tuple(shape))
    else:
        layer.build(tuple(shape), tuple(context_shape))


def seed_generators(layer):
    """The seed generators of a layer and of all layers in it."""
    layers = keras_contact.flatten_layers(layer)
    return [g for part in layers for g in keras_contact.seed_generators(part)]


def total_log_det(log_dets):
    """The log-determinant of maps one after another, from those of each.

    Each has the leading axes that its map does not act on: what the others act on too
    is summed over.
    """
    rank = min(len(log_det.shape) for log_det in log_dets)
    total = 0.0
    for log_det in log_dets:
        axes = tuple(range(rank, len(log_det.shape)))
        total = total + (ops.sum(log_det, axis=axes) if axes else log_det)
    return total
