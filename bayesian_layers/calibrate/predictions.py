"""What kind of predictions there are, and by which draws."""

import keras

from bayesian_layers import keras_contact
from bayesian_layers.distributions import Deterministic
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.prediction.trunk import is_random
from bayesian_layers.random_weights.kl import random_layers


def is_one_value(prediction):
    """Whether a prediction is one value for each output, with no uncertainty."""
    return issubclass(prediction.family, Deterministic) and prediction.num_samples == 1


def draws_of(prediction):
    """Returns two integers, which tell the draws of predictions from each other."""
    return [int(prediction.num_samples), int(prediction.seed)]


def has_random_draws(model):
    """Whether the predictions of a model, or of several, may differ from draw to draw.

    Those of one do not if nothing is random but a head at the end, whose distribution
    `bl.predict` takes instead of a draw. Where the graph of a model is not known, they
    may.
    """
    if not isinstance(model, keras.Model):
        return True
    if not is_random(model):
        return False
    graph = keras_contact.graph_of(model)
    if graph is None:
        return True
    ends = {id(tensor) for tensor in keras.tree.flatten(graph.outputs)}
    random = [node for node in graph.nodes if is_random(node.operation)]
    return not all(_is_known_head(node, ends) for node in random)


def _is_known_head(node, ends):
    head = node.operation
    is_end = all(id(tensor) in ends for tensor in node.outputs)
    return is_end and isinstance(head, OutputLayer) and not random_layers(head)
