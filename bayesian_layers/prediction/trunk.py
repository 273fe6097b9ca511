"""What of a model is the same for all draws of its weights."""

import keras
from keras.src.backend import get_keras_mask

from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.weights.composite import Composite
from bayesian_layers.random_weights import RandomWeights

RANDOM = (RandomWeights, Composite, OutputLayer, ReceivesRandomVariables)


def is_random(operation, stochastic=()):
    """Whether an operation, or a layer within it, may give another result each time.

    So do our layers, those that the user names, and layers of users with a seed
    generator. Layers of Keras with one are random in training only.
    """
    if not isinstance(operation, keras.Layer):
        return False
    return any(
        isinstance(layer, (*RANDOM, *stochastic))
        or (layer._seed_generators and not type(layer).__module__.startswith("keras."))
        for layer in operation._flatten_layers()
    )


class Part:
    """Some of the nodes of a model's graph, as a function.

    Args:
        nodes: The nodes, in the order in which they are run.
        inputs: The symbolic tensors that it is given, a list.
        outputs: The symbolic tensors that it returns, in any structure.
        standardize: What is done to the arguments first, to get that list.
    """

    def __init__(self, nodes, inputs, outputs, standardize=keras.tree.flatten):
        self._nodes = nodes
        self._inputs = inputs
        self._outputs = outputs
        self._standardize = standardize

    @property
    def layers(self):
        """The operations of the nodes."""
        return [node.operation for node in self._nodes]

    def __call__(self, inputs, *, training=False):
        """Returns the outputs."""
        given = self._standardize(inputs)
        values = dict(zip(map(id, self._inputs), given, strict=True))
        for node in self._nodes:
            args, kwargs = node.arguments.fill_in(values)
            if getattr(node.operation, "_call_has_training_arg", False):
                kwargs["training"] = training
            outputs = keras.tree.flatten(node.operation(*args, **kwargs))
            values.update(zip(map(id, node.outputs), outputs, strict=True))
        return keras.tree.map_structure(lambda t: values[id(t)], self._outputs)


def split(model, stochastic=()):
    """Splits a model into a part that is the same for all draws, and the rest.

    Returns:
        A pair of functions, of which the second takes the outputs of the first, a
        list. Where there is nothing to share, or the graph of the model is not known,
        the first is `None` and the second the model itself.
    """
    functional = model
    if isinstance(model, keras.Sequential):
        functional = getattr(model, "_functional", None)
    if not hasattr(functional, "_nodes_by_depth"):
        return None, model
    inputs, outputs = functional._inputs, functional._outputs_struct
    shared, rest = _sorted(functional, stochastic)
    if not shared:
        return None, model
    frontier = _frontier(shared, rest, inputs, keras.tree.flatten(outputs))
    if any(get_keras_mask(tensor) is not None for tensor in frontier):
        return None, model  # Between the parts masks would be lost.
    trunk = Part(shared, inputs, frontier, functional._standardize_inputs)
    return trunk, Part(rest, frontier, outputs)


def _sorted(functional, stochastic):
    """The nodes whose outputs are the same for all draws, and the others."""
    shared, rest, differs = [], [], set()
    for depth in sorted(functional._nodes_by_depth, reverse=True):
        for node in functional._nodes_by_depth[depth]:
            if node.is_input or not node.operation:
                continue
            if is_random(node.operation, stochastic) or any(
                id(tensor) in differs for tensor in node.input_tensors
            ):
                differs.update(map(id, node.outputs))
                rest.append(node)
            else:
                shared.append(node)
    return shared, rest


def _frontier(shared, rest, inputs, outputs):
    """The tensors that the rest takes from what is shared."""
    known = {id(tensor): tensor for tensor in inputs}
    known.update({id(t): t for node in shared for t in node.outputs})
    used = [*outputs, *(t for node in rest for t in node.input_tensors)]
    return list({id(t): t for t in used if id(t) in known}.values())
