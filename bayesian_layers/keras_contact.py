"""Every private part of Keras that the package touches: one named function each."""

import contextlib
import dataclasses
import functools

import keras
import numpy as np
from keras.src.backend import get_keras_mask
from keras.src.models.functional import Functional
from keras.src.trainers.data_adapters import get_data_adapter
from keras.src.trainers.data_adapters.data_adapter_utils import (
    unpack_x_y_sample_weight,
)
from keras.src.trainers.data_adapters.torch_data_loader_adapter import (
    TorchDataLoaderAdapter,
)

# Layers.


def flat_layers(layer):
    """Returns a layer and all layers within it, in the order of their variables."""
    return list(layer._flatten_layers())


def seed_generators(layer):
    """Returns the seed generators that a layer itself holds."""
    return list(layer._seed_generators)


def is_seed_state(variable):
    """Whether a variable is the state of a seed generator."""
    return variable.path.endswith("seed_generator_state")


@contextlib.contextmanager
def called_in_training(layers):
    """Within the block, layers run with `training=True`, whatever they are given."""
    # `Layer.__call__` looks `call` up on the instance.
    for layer in layers:
        vars(layer)["call"] = functools.partial(_call_in_training, layer)
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["call"]


def _call_in_training(layer, *args, training=None, **kwargs):
    return type(layer).call(layer, *args, training=True, **kwargs)


def kept_with(layer, name, make):
    """Returns an object that lives and dies with a layer, made when first asked for.

    It is neither tracked nor saved: Keras does both for what is set as an attribute.
    """
    return vars(layer).setdefault(f"_bayesian_layers_{name}", make())


# Graphs.


@dataclasses.dataclass
class Graph:
    """The graph of a Functional or Sequential model.

    Attributes:
        inputs: The symbolic inputs, in the structure of the model's argument.
        outputs: The symbolic outputs, in the structure of its result.
        nodes: The calls of operations, in the order in which they are run; each has an
            `operation`, `input_tensors` and `outputs`.
    """

    inputs: object
    outputs: object
    nodes: list


def graph_of(model):
    """Returns the graph of a model, or `None` if its `call` may do something else."""
    call = type(model).call
    if isinstance(model, keras.Sequential) and call is keras.Sequential.call:
        model = model._functional
    elif call is not Functional.call:
        return None
    if model is None:
        return None
    depths = sorted(model._nodes_by_depth, reverse=True)
    nodes = [node for depth in depths for node in model._nodes_by_depth[depth]]
    nodes = [node for node in nodes if node.operation and not node.is_input]
    return Graph(model._inputs_struct, model._outputs_struct, nodes)


def has_mask(tensor):
    """Whether a symbolic tensor carries a mask."""
    return get_keras_mask(tensor) is not None


@contextlib.contextmanager
def nodes_restored(graph):
    """Takes back, at the end of the block, the calls that it added to a graph.

    A model of intermediate tensors adds a copy of each call to its layers, which would
    stay for as long as the layers do, and says of the inputs that they come from one.
    """
    inputs = keras.tree.flatten(graph.inputs)
    histories = [tensor._keras_history for tensor in inputs]
    operations = [node.operation for node in graph.nodes]
    operations += [history.operation for history in histories]
    lists = [o._inbound_nodes for o in operations]
    lists += [o._outbound_nodes for o in operations]
    before = [list(nodes) for nodes in lists]
    try:
        yield
    finally:
        for nodes, old in zip(lists, before, strict=True):
            nodes[:] = old
        for tensor, history in zip(inputs, histories, strict=True):
            tensor._keras_history = history


# Data.


def batches_of(x, batch_size):
    """Returns the number of batches of any data, or `None`, and their inputs.

    Args:
        x: What `keras.Model.predict` takes.
        batch_size: The number of examples of a batch, for arrays and tensors.

    Returns:
        The number, and an iterator over structures of NumPy arrays.
    """
    adapter = get_data_adapter(x, batch_size=batch_size, shuffle=False)
    if isinstance(adapter, TorchDataLoaderAdapter):
        # The adapter takes a batch that is one tensor for the tuple of its rows.
        batches = adapter.get_torch_dataloader()
    else:
        batches = adapter.get_numpy_iterator()
    return adapter.num_batches, map(_inputs, batches)


def _inputs(batch):
    x, _, _ = unpack_x_y_sample_weight(batch)
    return keras.tree.map_structure(_array, x)


def _array(tensor):
    return np.asarray(tensor.cpu() if hasattr(tensor, "cpu") else tensor)
