"""What of a model is the same for all draws of its weights."""

import keras

from bayesian_layers import keras_contact
from bayesian_layers.prediction.held import RANDOM_LAYERS


def is_random(operation, stochastic=()):
    """Whether an operation, or a layer within it, may give another result each time.

    So do our layers, those that the user names, and layers of users with a seed
    generator. Layers of Keras with one are random in training only.
    """
    if not isinstance(operation, keras.Layer):
        return False
    return any(
        isinstance(layer, (*RANDOM_LAYERS, *stochastic))
        or (
            keras_contact.seed_generators(layer)
            and not keras_contact.is_of_keras(type(layer))
        )
        for layer in keras_contact.flatten_layers(operation)
    )


class Rest:
    """What follows the trunk: a function of its outputs.

    Args:
        model: A model of the first of them, those that random layers, or what follows
            these, take.
        structure: The structure of the results: which of the outputs of the trunk,
            followed by those of the model, each is.
    """

    def __init__(self, model, structure):
        self.model = model
        self._structure = structure

    def __call__(self, features, *, training=False):
        """Returns what the whole model returns."""
        features = keras.tree.flatten(features)
        taken = features[: len(self.model.inputs)]
        results = keras.tree.flatten(self.model(taken, training=training))
        known = [*features, *results]
        return keras.tree.map_structure(lambda i: known[i], self._structure)


def split(model, stochastic=()):
    """Splits a model into a part that is the same for all draws, and the rest.

    Both are Keras models of the same layers, cut at intermediate tensors.

    Returns:
        A pair of functions, of which the second takes the outputs of the first. Where
        there is nothing to share, or the graph of the model is not known, the first is
        `None` and the second the model itself.
    """
    graph = keras_contact.graph_of(model)
    if graph is None:
        return None, model
    shared, rest = _sorted(graph, stochastic)
    if not shared or not rest:
        return None, model
    outputs = keras.tree.flatten(graph.outputs)
    random = {id(t): t for node in rest for t in node.outputs}
    taken = _unique(t for n in rest for t in n.input_tensors if id(t) not in random)
    frontier = _unique([*taken, *(t for t in outputs if id(t) not in random)])
    if any(map(keras_contact.has_mask, frontier)):
        return None, model  # Between the parts masks would be lost.
    results = _unique(t for t in outputs if id(t) in random)
    with keras_contact.nodes_restored(graph):
        trunk = keras.Model(graph.inputs, frontier)
        after = keras.Model(taken, results)
    indices = {id(tensor): i for i, tensor in enumerate([*frontier, *results])}
    structure = keras.tree.map_structure(lambda t: indices[id(t)], graph.outputs)
    return trunk, Rest(after, structure)


def _sorted(graph, stochastic):
    """The nodes whose outputs are the same for all draws, and the others."""
    random = {
        id(node.operation)
        for node in graph.nodes
        if is_random(node.operation, stochastic)
    }
    while True:
        shared, rest, differs = [], [], set()
        for node in graph.nodes:
            if id(node.operation) in random or any(
                id(tensor) in differs for tensor in node.input_tensors
            ):
                differs.update(map(id, node.outputs))
                rest.append(node)
            else:
                shared.append(node)
        # A layer on both sides would be an input of the rest, and a part of it.
        both = {id(n.operation) for n in shared} & {id(n.operation) for n in rest}
        if not both:
            return shared, rest
        random |= both


def _unique(tensors):
    return list({id(tensor): tensor for tensor in tensors}.values())
