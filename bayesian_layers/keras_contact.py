"""The one contact with what is private in Keras.

Each function stands for one thing that Keras does not promise; `tests/
test_keras_contact.py` says in words what broke if it changes. Where a change would be
silent the function checks at run time that Keras is as it expects.
"""

import contextlib
import dataclasses
import functools
import threading

import keras
import numpy as np
from keras.src.backend import get_keras_mask, set_keras_mask
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import (
    get_stateless_scope,
    in_stateless_scope,  # noqa: F401
)
from keras.src.backend.common.symbolic_scope import in_symbolic_scope  # noqa: F401
from keras.src.backend.common.variables import AutocastScope
from keras.src.layers.layer import CallContext
from keras.src.models.functional import Functional, functional_like_constructor
from keras.src.trainers.data_adapters import get_data_adapter
from keras.src.trainers.data_adapters.data_adapter_utils import (
    unpack_x_y_sample_weight,
)
from keras.src.trainers.data_adapters.torch_data_loader_adapter import (
    TorchDataLoaderAdapter,
)
from keras.src.trainers.trainer import Trainer

# Layers.


def flatten_layers(layer):
    """Returns a layer and all layers in it, each once, in the order of their making."""
    return list(layer._flatten_layers())


def own_variables(layer):
    """Returns the variables of a layer itself, as Keras orders them to save them."""
    return layer._trainable_variables + layer._non_trainable_variables


def own_trainable_variables(layer):
    """Returns the variables of a layer itself that train unless it is frozen."""
    return list(layer._trainable_variables)


def parts_of(layer):
    """Returns the layers that a layer itself holds, in the order of their tracking."""
    return layer._flatten_layers(include_self=False, recursive=False)


_KEPT = "_bayesian_layers_"

# What a copy of a layer takes over, of all that `keras.Layer` and `keras.Model` set.
_COPIED = (
    "_supports_masking",
    "_input_spec",
    "supports_jit",
    "_convert_input_args",
    "_allow_non_tensor_positional_args",
    "activity_regularizer",
    "autocast",
    "_build_shapes_dict",
    "_called",
    "_path",
    "_parent_path",
    "_auto_config",
    "_call_context_args",
    "_call_has_context_arg",
)
# What `compile`, `fit` and calls add: it belongs to the model that was trained.
_OF_TRAINING = (
    "optimizer",
    "history",
    "stop_training",
    "stop_evaluating",
    "stop_predicting",
    "_jax_state",
    "_eval_epoch_iterator",
    "_compiled_trainable_state",
    "_compile_config",
    "_saved_model_inputs_spec",
    "_saved_model_arg_spec",
    "_tracked",
    "_torch_params",
    # TensorFlow's.
    "_self_name_based_restores",
    "_self_saveable_object_factories",
    "_self_setattr_tracking",
    "_self_tracked_trackables",
    "_self_unconditional_checkpoint_dependencies",
    "_self_unconditional_deferred_dependencies",
    "_self_unconditional_dependency_names",
    "_self_update_uid",
)


def blank_copy(layer):
    """Returns a layer of the same class without its attributes, and these by name.

    The constructor of the class is not run: it may take anything. The layer is as
    `keras.Layer`, or `keras.Model`, leaves it, and the attributes are all that is to be
    set on it, with layers and variables still those of the original.
    """
    copy = type(layer).__new__(type(layer))
    base = keras.Model if isinstance(layer, keras.Model) else keras.Layer
    base.__init__(
        copy, name=layer.name, dtype=layer.dtype_policy, trainable=layer._trainable
    )
    # On torch layers are among the modules.
    attributes = {**vars(layer), **getattr(layer, "_modules", {})}
    set_by_keras = {*vars(copy), *_OF_TRAINING}.difference(_COPIED)
    return copy, {
        name: value
        for name, value in attributes.items()
        if name not in set_by_keras and not name.startswith(_KEPT)
    }


def copied_variable(variable):
    """Returns a variable like another, with the same value."""
    copy = keras.Variable(
        keras.ops.convert_to_numpy(variable.value),
        dtype=variable.dtype,
        trainable=variable.trainable,
        autocast=variable._autocast,
        aggregation=variable.aggregation,
        name=variable.name,
    )
    copy.regularizer = variable.regularizer
    copy.constraint = variable.constraint
    return copy


@contextlib.contextmanager
def building(layer):
    """Within the block the attributes of a layer are set; at the end it is built."""
    with layer._open_name_scope():
        yield
    layer.built = True
    layer._post_build()
    layer._lock_state()


def own_losses(layer, cls):
    """Returns the losses of a layer itself as the bases of `cls` give them.

    `Layer.losses` asks each layer once for them; whoever overrides `_get_own_losses`
    has its say in `model.losses`, also in a stateless scope.
    """
    return super(cls, layer)._get_own_losses()


if not hasattr(keras.Layer, "_get_own_losses"):
    raise ImportError(
        "bayesian_layers adds the divergences of random weights to `Layer.losses` by "
        f"`Layer._get_own_losses`, which keras {keras.__version__} does not have."
    )


def forget_losses(layer):
    """Makes a layer forget the losses that it added in a call.

    Keras knows losses that are added in a stateless scope by their `id`, which another
    tensor may have when the scope has ended.
    """
    layer._clear_losses()


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
    return vars(layer).setdefault(f"{_KEPT}{name}", make())


def uncast_variables():
    """Within the block, variables are read in the dtype that they are stored in.

    In the call of a layer with mixed precision Keras casts those that are read.
    """
    return AutocastScope(None)


@contextlib.contextmanager
def unlocked(layer):
    """Within the block a layer that is built may get further weights."""
    was_locked = layer._tracker.locked
    layer._tracker.unlock()
    try:
        yield
    finally:
        if was_locked:
            layer._tracker.lock()


def untrack(layer, variable):
    """Makes a layer forget one of its variables."""
    layer._untrack_variable(variable)


def is_of_keras(cls):
    """Whether a class is Keras' own, not a user's or ours."""
    return cls.__module__.startswith("keras.")


def is_quantized(layer):
    """Whether the dtype policy of a layer is one for quantized weights."""
    return getattr(layer.dtype_policy, "quantization_mode", None) is not None


def has_lora(layer):
    """Whether LoRA is on for a layer."""
    return getattr(layer, "lora_enabled", False)


def read_with_lora(layer, attribute):
    """Returns a weight as the layer's own `call` reads it: with its LoRA matrices.

    Keras keeps such a weight under `_kernel` (or `_embeddings`) and reads it through
    the property without the underscore, which adds the product of the matrices.
    """
    return getattr(layer, attribute.removeprefix("_"))


def is_lora(name):
    """Whether a weight of this name is a matrix that LoRA adds to a layer."""
    return name is not None and name.startswith("lora_")


def lora_variables(layer):
    """Returns the variables of the LoRA matrices of a layer."""
    if not has_lora(layer):
        return []
    return [w for w in layer.weights if is_lora(w.name)]


def leave_inputs_alone(layer):
    """Stops `Layer.__call__` from turning the inputs of a layer into tensors.

    Both attributes are needed on JAX and torch, where a variable is not a tensor: the
    first is what converts it, the second what refuses it.
    """
    for name in ("_convert_input_args", "_allow_non_tensor_positional_args"):
        if name not in vars(layer):
            raise RuntimeError(
                f"`keras.Layer` has no attribute `{name}` in this version of Keras: "
                "its inputs would lose their distributions. Use a version that "
                "bayesian_layers was tested with."
            )
    layer._convert_input_args = False
    layer._allow_non_tensor_positional_args = True


def take_layout(variable, location):
    """Gives a variable the layout of the weight that it belongs to.

    A `keras.distribution.LayoutMap` matches whole paths: a pattern for `kernel` says
    nothing of `kernel_scale`, which would be replicated on every device.
    """
    layout = getattr(location, "_layout", None)
    if variable is location or layout is None or variable.shape != location.shape:
        return
    variable._layout = layout
    if variable._value is not None:
        variable._direct_assign(variable._value)


_filing = threading.Lock()


@contextlib.contextmanager
def filed_under(names):
    """Within the block, Keras files the layers of some classes under other names.

    Keras names the entries of a weight file after the classes of layers, and counts
    those of a name within a model: a `DenseFlipout` among `Dense` is filed as if there
    were two kinds of layers. With the names of their counterparts it is found where the
    deterministic model has it.

    Args:
        names: The names, by class.
    """
    with _filing:
        own = {cls: cls.__name__ for cls in names}
        try:
            for cls, name in names.items():
                cls.__name__ = name
            yield
        finally:
            for cls, name in own.items():
                cls.__name__ = name


# Calls that are under way.


def model_call():
    """Returns what lives as long as the outermost layer call under way, or `None`."""
    return global_state.get_global_attribute("current_call_ctx")


def calling_model():
    """Returns the model, or other layer, whose call is under way, or `None`.

    It is the outermost one of those that call each other. `fit` and `evaluate` of a
    model that was just compiled call it on all backends; on JAX that is once, to build
    its metrics, as `stateless_call` leaves out the `__call__` of the model.
    """
    call = model_call()
    return None if call is None else call.entry_layer


def is_training():
    """Returns the value of `training` in the call that is under way, or `None`."""
    call = model_call()
    return None if call is None else call.get_value("training")


@contextlib.contextmanager
def calling(layer, training):
    """Within the block, layers run as if `layer` called them with this `training`.

    What a layer has made may be computed with after its call has ended, as the density
    of its output in a loss: the layers inside have to run as they did in the call.
    """
    outer = model_call()
    call = CallContext(entry_layer=layer)
    call.set_value("training", training)
    global_state.set_global_attribute("current_call_ctx", call)
    try:
        yield
    finally:
        global_state.set_global_attribute("current_call_ctx", outer)


def trained_model():
    """Returns the model whose call is under way, and whether it is being trained.

    The model is `None` unless it is compiled.
    """
    model = calling_model()
    if not isinstance(model, Trainer) or not getattr(model, "optimizer", None):
        return None, False
    return model, bool(model_call().get_value("training"))


def steps_of_epoch(model):
    """Returns the number of batches of an epoch of the last `fit`, 0 if not known."""
    history = getattr(model, "history", None)
    parameters = getattr(history, "params", None) or {}
    return parameters.get("steps") or 0


def has_own_loss(model):
    """Whether a model overrides how `fit` computes its loss."""
    methods = ("compute_loss", "train_step")
    return any(
        getattr(type(model), name) is not getattr(keras.Model, name) for name in methods
    )


def _scopes():
    return global_state.get_global_attribute("name_scope_stack") or []


def called_path(layer):
    """Returns the names of the layers whose calls are under way, down to `layer`.

    Unlike the paths of variables, which depend on who built a layer first, they are
    the same for a model that was saved and loaded: a layer of a user's own model goes
    by the attribute that holds it, as Keras counts up its name with each instance.
    """
    callers = [scope.caller for scope in _scopes()]
    names = [scope.name for scope in _scopes()]
    if not callers or callers[-1] is not layer:
        callers.append(layer)
        names.append(layer.name)
    for i in range(1, len(names)):
        names[i] = _attribute_name(callers[i - 1], callers[i]) or names[i]
    return "/".join(names)


def _attribute_name(outer, inner):
    """The attribute of a user's layer that holds another, or `None`."""
    if outer is None:
        return None  # A scope of no layer: that of a loss.
    if type(outer).__module__.startswith(("keras.", "bayesian_layers.")):
        return None
    # On torch layers are among the modules.
    attributes = {**vars(outer), **getattr(outer, "_modules", {})}
    for name, value in attributes.items():
        if value is inner and not name.startswith("_"):
            return name
        if isinstance(value, (list, tuple)) and not name.startswith("_"):
            for index, part in enumerate(value):
                if part is inner:
                    return f"{name}_{index}"
    return None


def in_time_distributed():
    """Whether the call of a `TimeDistributed` is under way, which loops over steps."""
    wrapper = keras.layers.TimeDistributed
    return any(isinstance(scope.caller, wrapper) for scope in _scopes())


def in_rnn():
    """Whether the call of a `keras.layers.RNN` is under way, which loops over steps."""
    return any(isinstance(scope.caller, keras.layers.RNN) for scope in _scopes())


def in_backward_direction():
    """Whether the call of the backward layer of a `Bidirectional` is under way."""
    callers = [scope.caller for scope in _scopes()]
    return any(
        isinstance(outer, keras.layers.Bidirectional) and outer.backward_layer is inner
        for outer, inner in zip(callers, callers[1:], strict=False)
    )


# Scopes that hold the values of variables.


class KeptVariables(keras.StatelessScope):
    """A scope in which variables read as ever, and what is assigned to them is lost.

    Keras, or `bl.predict`, enter a scope for a program that they run many times, with
    the states of seeds as its arguments; this one is for the side effects of one run.

    Attributes:
        read: The variables that were read, by their identities.
    """

    def __init__(self):
        super().__init__()
        self.read = {}

    def get_current_value(self, variable):
        """Returns what was assigned to a variable inside, or `None`."""
        # `Variable.value` asks here first.
        self.read[id(variable)] = variable
        return super().get_current_value(variable)


def variables_read(function):
    """Returns the variables that a function without arguments reads, as they were."""
    with KeptVariables() as scope:
        function()
    return list(scope.read.values())


def carrying_scope():
    """Returns the scope in force that carries the states of seeds, or `None`."""
    scope = get_stateless_scope()
    return None if isinstance(scope, KeptVariables) else scope


# Outputs, losses and metrics.


def mask_of(output):
    """Returns the mask that Keras has attached to the output of a layer, or `None`."""
    return get_keras_mask(output)


def attach_mask(output, mask):
    """Attaches a mask to the output of a layer, unless it is `None`."""
    if mask is not None:
        set_keras_mask(output, mask)


def carried_losses(model):
    """Returns the losses of a stateless call while Keras computes its loss, or `[]`.

    On JAX the scope of the call has ended by then, and with it what the call added.
    """
    return model._losses_override


def optimized(direction):
    """Tells callbacks whether a metric should go `"up"` or `"down"`: a decorator.

    `EarlyStopping` and `ModelCheckpoint` with `mode="auto"` read it from the metric.
    """

    def decorate(metric):
        metric._direction = direction
        return metric

    return decorate


def compiled_metrics(model, layer):
    """Returns what `compile` was given as metrics of the output of a layer.

    Args:
        model: A model, compiled or not.
        layer: A layer.

    Returns:
        A list of strings, functions and metrics: empty if the layer is no output of the
        model, or if that cannot be told, as in a model with a `call` of its own.
    """
    compiled = getattr(model, "_compile_metrics", None)
    if compiled is None:
        return []
    if isinstance(model, keras.Sequential):
        names = [model.layers[-1].name]
    else:
        names = getattr(model, "output_names", [])
    if layer.name not in names:
        return []
    found = []
    for given in (compiled._user_metrics, compiled._user_weighted_metrics):
        if isinstance(given, dict):
            given = given.get(layer.name)
        elif given is not None and len(names) > 1:
            given = given[names.index(layer.name)]
        found += [] if given is None else keras.tree.flatten(given)
    return found


# Compiled functions.

_FUNCTIONS = ("train_function", "test_function", "predict_function")
_STEPS = ("train_step", "test_step", "predict_step")


def exchange_compiled_functions(model, functions):
    """Gives a model other compiled functions, and returns those it had.

    Keras compiles `fit`, `evaluate` and `predict` once, with all that was in force
    then, such as handlers. What changes one of these sets the functions aside and lets
    Keras make new ones.

    Args:
        model: A model; a layer that cannot be trained has none.
        functions: What this function returned before, or an empty dictionary: then
            Keras makes all of them anew.
    """
    if not isinstance(model, Trainer):
        return {}
    had = {name: getattr(model, name) for name in _FUNCTIONS}
    had.update({name: vars(model).pop(name, None) for name in _STEPS})
    for name in _FUNCTIONS:
        setattr(model, name, functions.get(name))
    for name in _STEPS:
        step = functions.get(name)
        if not functions and hasattr(model, name):
            # JAX would find what it compiled for the method, which equals itself.
            step = functools.partial(getattr(type(model), name), model)
        if step is not None:
            vars(model)[name] = step
    return had


# The state of training on JAX.


class OwnTrainState:
    """A mixin for models whose state in `fit`, on JAX, has a form of its own.

    Keras takes the state from the variables when an epoch begins, hands it from step to
    step and puts it back when somebody needs it. A subclass writes `train_state()` and
    `set_train_state(state)`. Evaluation and prediction have the state that Keras gives
    them. Without these hooks `train_step` would get lists of all variables.

    Attributes:
        frees_memory: Whether the values of the variables are not needed any more, once
            there is a newer state.
    """

    _KINDS = (
        "trainable_variables",
        "non_trainable_variables",
        "optimizer_variables",
        "metrics_variables",
    )
    frees_memory = False

    def _get_jax_state(self, *, purge_model_variables=False, **kinds):
        if not kinds.get("optimizer_variables"):
            kinds["purge_model_variables"] = purge_model_variables
            return super()._get_jax_state(**kinds)
        self.frees_memory = purge_model_variables
        return self.train_state()

    def jax_state_sync(self):
        """Puts the state of a program that has run back into the variables."""
        state = getattr(self, "_jax_state", None)
        if not state or self._jax_state_synced:
            return
        if "optimizer_variables" not in state:
            super().jax_state_sync()
            return
        self.set_train_state(tuple(state[kind] for kind in self._KINDS))
        self._jax_state_synced = True


def purge(variable):
    """Frees the memory of a variable until it is assigned to, as Keras' `fit` does."""
    variable._value = None


# Optimizers.


_EXCLUSIONS = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")


def copied_optimizer(optimizer):
    """Returns a new optimizer with the configuration of another.

    What `exclude_from_weight_decay` was told is not in the config.
    """
    copy = type(optimizer).from_config(optimizer.get_config())
    of, to = optimizer, copy
    while of is not None:
        for name in _EXCLUSIONS:
            if hasattr(of, name):
                setattr(to, name, getattr(of, name))
        of, to = (getattr(o, "inner_optimizer", None) for o in (of, to))
    return copy


def is_decayed(optimizer, variable):
    """Whether the weight decay of an optimizer applies to a variable."""
    if not getattr(optimizer, "weight_decay", None):
        return False
    return optimizer._use_weight_decay(variable)


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


def run_through(model, inputs, operation):
    """Returns the outputs of the graph of a model, run with other operations.

    Args:
        model: A Functional model.
        inputs: Symbolic tensors, in the structure of the model's argument.
        operation: From an operation of the graph to the one that is called instead.
    """
    return model._run_through_graph(inputs, operation_fn=operation)


def input_like(tensor):
    """Returns a symbolic input like another, of the same name."""
    layer = tensor._keras_history.operation
    return keras.Input(
        batch_shape=tensor.shape,
        dtype=tensor.dtype,
        sparse=tensor.sparse,
        name=layer.name,
        optional=layer.optional,
    )


def is_functional(model):
    """Whether a model is a graph of calls, by whatever class."""
    return isinstance(model, Functional)


def takes_graph(cls):
    """Whether the constructor of a class of models takes inputs and outputs."""
    return functional_like_constructor(cls)


def has_mask(tensor):
    """Whether a symbolic tensor carries a mask."""
    return mask_of(tensor) is not None


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
