"""What of a model is the same for all draws of its weights."""

import keras
from keras.src.backend import get_keras_mask

from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.weights.defaults import RandomDefaults

RANDOM = (RandomDefaults, OutputLayer, ReceivesRandomVariables)


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


def split(model, stochastic=()):
    """Splits a model into a part that is the same for all draws, and the rest.

    Returns:
        A pair of models, of which the second takes the outputs of the first. Where
        there is nothing to share, or the graph of the model is not known, the first is
        `None` and the second the model itself.
    """
    outputs = getattr(model, "_outputs_struct", None)
    inputs = getattr(model, "_inputs_struct", None)
    if isinstance(model, keras.Sequential) and model.built:
        functional = getattr(model, "_functional", None)
        outputs = getattr(functional, "_outputs_struct", None)
        inputs = getattr(functional, "_inputs_struct", None)
    if outputs is None:
        return None, model
    frontier = _frontier(keras.tree.flatten(outputs), stochastic)
    known = {id(tensor) for tensor in keras.tree.flatten(inputs)}
    is_mask_lost = any(get_keras_mask(tensor) is not None for tensor in frontier)
    if not frontier or is_mask_lost or all(id(t) in known for t in frontier):
        return None, model
    # An output cannot be an input of the same model: it is handed on.
    shared = {id(tensor) for tensor in frontier}
    outputs = keras.tree.map_structure(
        lambda t: keras.layers.Identity()(t) if id(t) in shared else t, outputs
    )
    return keras.Model(inputs, frontier), keras.Model(frontier, outputs)


def _frontier(outputs, stochastic):
    """The tensors that are the same for all draws, and used where things are not."""
    frontier, verdicts = {}, {}

    def visit(tensor):
        """Whether a tensor may differ between draws."""
        if id(tensor) in verdicts:
            return verdicts[id(tensor)]
        operation, index, _ = tensor._keras_history
        nodes = operation._inbound_nodes if operation is not None else []
        node = nodes[index] if nodes else None
        parents = [] if node is None or node.is_input else node.input_tensors
        differs = [visit(parent) for parent in parents]
        verdict = any(differs) or is_random(operation, stochastic)
        if verdict:
            for parent, parent_differs in zip(parents, differs, strict=True):
                if not parent_differs:
                    frontier[id(parent)] = parent
        verdicts[id(tensor)] = verdict
        return verdict

    for output in outputs:
        if not visit(output):
            frontier[id(output)] = output
    return list(frontier.values())
