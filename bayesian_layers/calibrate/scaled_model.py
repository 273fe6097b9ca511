"""A Keras model with its logits divided by a temperature."""

import keras
import numpy as np
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.calibrate.predictions import has_random_draws
from bayesian_layers.conversion import to_deterministic
from bayesian_layers.distributions import Bernoulli
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.prediction.moments import CLASSIFIERS

# Of probabilities that were rounded to 0, or to 1, more is not known.
LEAST = float(np.finfo("float32").tiny)
LEAST_FAILURE = float(np.finfo("float32").epsneg)


def scaled_model(model, temperature, from_logits):
    """Returns a Keras model of logits, or of probabilities, at another temperature.

    Args:
        model: A Sequential or Functional model that is not random, built.
        temperature: What logits are divided by.
        from_logits: Whether the outputs of the model are logits. `None` if it ends with
            a head.
    """
    inputs, logits, activation = _logits(model, from_logits)
    outputs = keras.layers.Rescaling(1.0 / temperature, dtype="float32")(logits)
    if activation is not None:
        outputs = keras.layers.Activation(activation, dtype="float32")(outputs)
    return keras.Model(inputs, outputs)


def _logits(model, from_logits):
    """Symbolic inputs and logits, and what of the logits the model returns."""
    graph = None if has_random_draws(model) else keras_contact.graph_of(model)
    if graph is None:
        raise ValueError(
            "Expected a Sequential or Functional model, built and not random. "
            "`bl.to_deterministic(model)` makes one of a random model, which then is "
            f"calibrated by itself. Received: {model!r}"
        )
    if len(keras.tree.flatten(graph.outputs)) != 1:
        raise ValueError(f"Expected a model with one output. Received: {graph.outputs}")
    heads = [n.operation for n in graph.nodes if isinstance(n.operation, OutputLayer)]
    if heads:
        return _of_head(model, heads[0])
    if from_logits is None:
        raise ValueError(
            "`from_logits` should say whether the outputs of the model are logits. "
            "Received: from_logits=None"
        )
    (outputs,) = keras.tree.flatten(graph.outputs)
    if from_logits:
        return graph.inputs, outputs, None
    probs = ops.cast(outputs, "float32")
    logits = ops.log(ops.maximum(probs, LEAST))
    if probs.shape[-1] > 1:
        return graph.inputs, logits, "softmax"
    logits = logits - ops.log(ops.maximum(1.0 - probs, LEAST_FAILURE))
    return graph.inputs, logits, "sigmoid"


def _of_head(model, head):
    family = getattr(head, "family", None)
    if family not in CLASSIFIERS:
        raise ValueError(
            "Expected a head with probabilities of classes. "
            f"Received: {type(head).__name__}"
        )
    # A copy of our own: what was the head computes probabilities by an activation.
    copy = to_deterministic(model)
    copy.get_layer(head.name).activation = keras.activations.linear
    graph = keras_contact.graph_of(copy)
    (logits,) = keras.tree.flatten(graph.outputs)
    activation = "sigmoid" if family is Bernoulli else "softmax"
    return graph.inputs, logits, activation
