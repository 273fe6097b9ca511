"""Which layers of a model are converted, and into what."""

import re
import warnings

import keras

from bayesian_layers import keras_contact
from bayesian_layers.layers import weights as weight_layers
from bayesian_layers.layers.weights.twins import has_twin, twin_of
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.registry import snake_case

# Their scales and offsets stay points, as biases do; nobody expects otherwise.
_NORMALIZATIONS = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
)

LEFT = (
    "These layers are left as they are, with weights that are no distributions:\n"
    "{layers}\n`exclude` them if that is what you want. A list of estimators takes for "
    'each layer the first that exists: `estimator=["flipout", "reparameterization"]`.'
)


class Choice:
    """The layers of a model that are converted, and those that cannot be.

    Attributes:
        layers: The layers to convert, in the order of the model.
        left: Pairs of a layer that was chosen but is left as it is, and the reason.
    """

    def __init__(self, model, estimator, include, exclude):
        if not isinstance(model, keras.Layer) or not model.built:
            raise ValueError(
                "Expected a Keras model that is built, and trained: its weights are "
                f"the means. Received: {model!r}"
            )
        self._estimators = _estimators(estimator)
        found = _chosen(_walk(model, self._ends), self._fits, include, exclude)
        self.layers = [layer for layer in found if self._fits(layer)]
        self.left = [
            (layer, self._reason(layer)) for layer in found if self._is_left(layer)
        ]
        if not self.layers:
            raise ValueError(
                f"No layer of {model.name!r} is chosen that can be made Bayesian.\n"
                + (LEFT.format(layers=self._listed()) if self.left else "")
                + f"Received: estimator={estimator!r}, include={include!r}, "
                f"exclude={exclude!r}"
            )

    def __contains__(self, layer):
        return any(layer is other for other in self.layers)

    def twin_of(self, layer):
        """Returns the class that takes the place of a layer's."""
        kind = type(layer)
        return next(
            twin_of(estimator, kind)
            for estimator in self._estimators
            if has_twin(estimator, kind)
        )

    def warn(self, stacklevel):
        """Warns of the layers that are left."""
        if self.left:
            message = LEFT.format(layers=self._listed())
            warnings.warn(message, stacklevel=stacklevel + 1)

    def _listed(self):
        return "\n".join(
            f"- {layer.path or layer.name} ({type(layer).__name__}): {reason}"
            for layer, reason in self.left
        )

    def _has_twin(self, layer):
        return any(has_twin(e, type(layer)) for e in self._estimators)

    def _fits(self, layer):
        inside = keras_contact.flatten_layers(layer)
        return self._has_twin(layer) and not any(
            keras_contact.is_quantized(part) or keras_contact.has_lora(part)
            for part in inside
        )

    def _ends(self, layer):
        """Whether a layer is taken as a whole: what is in it is not looked at."""
        ours = type(layer).__module__.startswith("bayesian_layers.")
        ours = ours or isinstance(layer, RandomWeights)
        wrapped = isinstance(layer, keras.layers.TimeDistributed)
        return ours or wrapped or self._has_twin(layer)

    def _is_left(self, layer):
        if self._fits(layer) or isinstance(layer, (RandomWeights, *_NORMALIZATIONS)):
            return False
        if _has_random(layer):
            return False
        if self._ends(layer):
            return bool(layer.trainable_weights)
        return bool(keras_contact.own_trainable_variables(layer))

    def _reason(self, layer):
        if isinstance(layer, keras.layers.TimeDistributed):
            return "it would draw new weights for each step"
        if self._has_twin(layer):
            return "it is quantized, or has LoRA matrices"
        if type(layer).__module__.startswith("bayesian_layers."):
            return "a layer of this library with weights that it keeps as points"
        names = " or ".join(estimator.__name__ for estimator in self._estimators)
        return f"there is no {names} of it"


def _has_random(layer):
    parts = keras_contact.flatten_layers(layer)
    return any(isinstance(part, RandomWeights) for part in parts)


def _estimators(identifier):
    if isinstance(identifier, (list, tuple)):
        return [found for part in identifier for found in _estimators(part)]
    known = {
        snake_case(name): getattr(weight_layers, name)
        for name in weight_layers.__all__
        if vars(getattr(weight_layers, name)).get("is_estimator", False)
    }
    if isinstance(identifier, str) and identifier in known:
        return [known[identifier]]
    if isinstance(identifier, type) and issubclass(identifier, RandomWeights):
        return [identifier]
    raise ValueError(
        f"`estimator` should be one of {sorted(known)}, an estimator such as "
        "`bl.layers.Flipout`, or a list of these. "
        f"Received: estimator={identifier!r}"
    )


def _walk(layer, ends):
    """Returns a layer and those in it, each once, in the order of the model."""
    found, seen, stack = [], set(), [layer]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        found.append(current)
        if not ends(current):
            is_model = isinstance(current, keras.Model)
            parts = current.layers if is_model else keras_contact.parts_of(current)
            stack.extend(reversed(parts))
    return found


def _chosen(layers, can, include, exclude):
    if exclude is not None:
        excluded = _matching(layers, can, exclude, "exclude")
        layers = [layer for layer in layers if layer not in excluded]
    if include is None:
        return layers
    return _matching(layers, can, include, "include")


def _matching(layers, can, rule, argument):
    """The layers that a rule is about, which may be a list of rules."""
    if isinstance(rule, (list, tuple)):
        found = [_matching(layers, can, part, argument) for part in rule]
        return [layer for layer in layers if any(layer in part for part in found)]
    if isinstance(rule, str) and rule == "last":
        return list(filter(can, layers))[-1:]
    if isinstance(rule, str):
        pattern = re.compile(rule)
        return [
            layer
            for layer in layers
            if pattern.search(layer.name) or pattern.search(layer.path or "")
        ]
    if isinstance(rule, type) and issubclass(rule, keras.Layer):
        return [layer for layer in layers if isinstance(layer, rule)]
    if isinstance(rule, keras.Layer):
        return [layer for layer in layers if layer is rule]
    if callable(rule) and not isinstance(rule, type):
        return [layer for layer in layers if rule(layer)]
    raise ValueError(
        f'`{argument}` should be "last", a regular expression for names of layers, '
        "a class of layers, a layer, a function from a layer to a boolean, or a list "
        f"of these. Received: {argument}={rule!r}"
    )
