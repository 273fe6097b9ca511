"""Copies of models with other layers in the place of some."""

import keras
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.random_weights import RandomWeights


class Copier:
    """Copies a layer or model, with its weights, and replaces some of its layers.

    The original is left as it is, and nothing is shared with it. A layer that is used
    several times is copied once. The copy is not compiled.

    - A graph (Sequential, Functional) is run again, with the copies of its layers. The
      copy of a Functional model is of the same class if that takes inputs and outputs,
      as in `keras.models.clone_model`, and a `keras.Model` otherwise.
    - A layer of Keras or of ours without layers inside is made anew from its config.
    - All else, a user's layer or model, or a layer made of layers, is copied attribute
      by attribute; its constructor is not run. If a layer inside was replaced, its
      config does not tell of it: `get_config`, and so a `.keras` file, is refused.

    Args:
        replace: From a layer to what takes its place, built and with weights, or to
            `None`: then it is copied.
    """

    def __init__(self, replace):
        self._replace = replace
        self._copies = {}
        self._replaced = set()

    def copy(self, layer):
        """Returns the copy of a layer, or what takes its place."""
        if id(layer) not in self._copies:
            copy = self._replace(layer)
            if copy is not None:
                self._replaced.add(id(layer))
                self._remember(layer, copy)
            else:
                copy = self._copied(layer)
            self._copies[id(layer)] = copy
        return self._copies[id(layer)]

    def _copied(self, layer):
        if isinstance(layer, keras.Sequential) or keras_contact.is_functional(layer):
            return self._graph(layer)
        ours = type(layer).__module__.startswith("bayesian_layers.")
        of_keras = keras_contact.is_of_keras(type(layer))
        inside = bool(keras_contact.parts_of(layer))
        if ours or isinstance(layer, RandomWeights) or (of_keras and not inside):
            return self._from_config(layer)
        return self._by_attributes(layer)

    def _from_config(self, layer):
        copy = type(layer).from_config(layer.get_config())
        if layer.built:
            copy.build_from_config(layer.get_build_config() or {})
            copy_weights(layer, copy)
        self._remember(layer, copy)
        return copy

    def _remember(self, layer, copy):
        """Ties what shares a variable with a layer to the copy of it."""
        for old, new in zip(_own(layer), _own(copy), strict=False):
            self._copies[id(old)] = new

    # Graphs.

    def _graph(self, model):
        is_sequential = isinstance(model, keras.Sequential)
        if is_sequential and type(model).call is keras.Sequential.call:
            return self._sequential(model)
        if is_sequential or keras_contact.graph_of(model) is None:
            raise ValueError(
                f"{type(model).__name__} is a graph with a `call` of its own, and "
                "cannot be copied. Make it a subclass of `keras.Model` that holds "
                f"its layers as attributes. Received: {model.name!r}"
            )
        return self._functional(model)

    def _sequential(self, model):
        layers = [self.copy(layer) for layer in model.layers]
        if model.inputs:
            layers.insert(0, keras_contact.input_like(model.inputs[0]))
        copy = type(model)(layers, name=model.name)
        if not model.inputs and model.built:
            copy.build_from_config(model.get_build_config() or {})
        return _frozen_as(model, copy)

    def _functional(self, model):
        graph = keras_contact.graph_of(model)
        inputs = keras.tree.map_structure(keras_contact.input_like, graph.inputs)
        outputs = keras_contact.run_through(model, inputs, self._operation)
        cls = type(model) if keras_contact.takes_graph(type(model)) else keras.Model
        return _frozen_as(model, cls(inputs, outputs, name=model.name))

    def _operation(self, operation):
        if isinstance(operation, keras.Layer):
            return self.copy(operation)
        try:
            return type(operation).from_config(operation.get_config())
        except NotImplementedError:
            return operation  # It has no state, only arguments without a config.

    # Attributes.

    def _by_attributes(self, layer):
        copy, attributes = keras_contact.blank_copy(layer)
        self._copies[id(layer)] = copy
        with keras_contact.building(copy):
            for name, value in attributes.items():
                if name != "get_config":
                    setattr(copy, name, self._value(value))
        missing = len(_own(layer)) - len(_own(copy))
        if missing:
            raise ValueError(
                f"Layer {layer.name!r} ({type(layer).__name__}) has {missing} weights "
                "that are not among its attributes, and cannot be copied. Assign what "
                "`add_weight` returns to an attribute."
            )
        # What was converted before, and is now converted back, is told by its config.
        was_refused = "get_config" in vars(layer)
        parts = keras_contact.flatten_layers(layer)[1:]
        if not was_refused and any(id(part) in self._replaced for part in parts):
            if not _config_tells_of_parts(layer):
                vars(copy)["get_config"] = _Refused(type(layer).__name__)
        return copy

    def _value(self, value):
        if isinstance(value, keras.Layer):
            return self.copy(value)
        if isinstance(value, keras.Variable):
            if id(value) not in self._copies:
                self._copies[id(value)] = keras_contact.copied_variable(value)
            return self._copies[id(value)]
        if isinstance(value, keras.random.SeedGenerator):
            copy = keras.random.SeedGenerator(seed=0)
            copy.state.assign(array_of(value.state))
            return copy
        if isinstance(value, keras.Metric):
            return type(value).from_config(value.get_config())
        if isinstance(value, dict):
            return {key: self._value(entry) for key, entry in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self._value, value))
        for container in (tuple, list, set):
            if isinstance(value, container):
                return container(map(self._value, value))
        return value


class _Refused:
    """The `get_config` of a layer whose class makes other layers than it holds."""

    def __init__(self, name):
        self._name = name

    def __call__(self):
        raise NotImplementedError(
            f"`{self._name}` was converted: its constructor makes other layers than it "
            "holds now, so it cannot be made again from a config, nor from a `.keras` "
            "file. Save its weights with `save_weights`; to load them, convert a model "
            "of the original class in the same way, and call `load_weights`."
        )


def _config_tells_of_parts(layer):
    """Whether the config of a layer of layers has the configs of these."""
    wrappers = (keras.layers.Wrapper, keras.layers.Bidirectional)
    if isinstance(layer, (*wrappers, keras.layers.StackedRNNCells)):
        return True
    return type(layer) is keras.layers.RNN


def _frozen_as(model, copy):
    if not model.trainable:
        copy.trainable = False
    return copy


def _own(layer):
    if isinstance(layer, RandomWeights):
        return layer._saved_variables()
    return keras_contact.own_variables(layer)


def _of_counterpart(layer):
    """The variables that the layer without distributions would have."""
    if isinstance(layer, RandomWeights):
        return layer._known_variables()
    return keras_contact.own_variables(layer)


def array_of(variable):
    """Returns the numbers of a variable or tensor, a NumPy array of its own."""
    return ops.convert_to_numpy(ops.convert_to_tensor(variable))


def copy_weights(source, target, values=None):
    """Copies the weights of a layer, and of those in it, to a layer of like parts.

    Args:
        source: A layer, built.
        target: A layer of the same class, or its twin, or its counterpart.
        values: What to take for some variables of the source, by their `id`.

    Raises:
        ValueError: If the weights do not fit each other.
    """
    values = values or {}
    parts = zip(
        keras_contact.flatten_layers(source),
        keras_contact.flatten_layers(target),
        strict=True,
    )
    for old, new in parts:
        of = _own if type(old) is type(new) else _of_counterpart
        before = [values.get(id(v), v) for v in of(old)]
        after = of(new)
        shapes = [[tuple(v.shape) for v in side] for side in (before, after)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"The weights of {old.name!r} ({type(old).__name__}), of shapes "
                f"{shapes[0]}, do not fit a {type(new).__name__}, of shapes "
                f"{shapes[1]}."
            )
        for value, place in zip(before, after, strict=True):
            # By NumPy: JAX would share the memory, and `fit` gives it up.
            place.assign(array_of(value))
