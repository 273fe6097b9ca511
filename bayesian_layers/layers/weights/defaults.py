"""Constructors: those of Keras, with other defaults."""

import inspect

import keras

from bayesian_layers import initializers, regularizers
from bayesian_layers.initializers import Posterior

_OWN_ARGUMENTS = [
    inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY, default=None),
    inspect.Parameter("kl_scale", inspect.Parameter.KEYWORD_ONLY, default=None),
]


def keras_counterpart(cls):
    """Returns the Keras layer that a class of ours replaces, or `None`."""
    for base in cls.__mro__:
        if base.__module__.startswith("keras.") and base is not keras.Layer:
            return base
    return None


class RandomDefaults:
    """Gives a layer the signature of its Keras counterpart, with random weights.

    Every `*_initializer` but those of the `known_weights` becomes
    `default_initializer`, its `*_regularizer` becomes `default_regularizer`; both may
    be names of ours. Two arguments are added, by keyword: `seed`, unless Keras has one
    already, and `kl_scale`.
    """

    default_initializer = "trainable_normal"
    default_regularizer = "normal_kl_divergence"
    known_weights = ("bias",)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        counterpart = keras_counterpart(cls)
        if counterpart is None:
            return
        cls._signature = cls._with_random_defaults(inspect.signature(counterpart))
        if "__init__" not in vars(cls):
            cls.__signature__ = cls._signature

    @classmethod
    def _with_random_defaults(cls, signature):
        parameters = list(signature.parameters.values())
        cls._keras_defaults = {p.name: p.default for p in parameters}
        position = len(parameters)
        if parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
            position -= 1
        parameters[position:position] = [
            own for own in _OWN_ARGUMENTS if own.name not in cls._keras_defaults
        ]
        return signature.replace(parameters=[*map(cls._changed, parameters)])

    @classmethod
    def _changed(cls, parameter):
        weight, _, kind = parameter.name.rpartition("_")
        if weight in (*cls.known_weights, "activity", ""):
            return parameter
        if kind == "initializer":
            return parameter.replace(default=cls.default_initializer)
        if kind == "regularizer":
            return parameter.replace(default=cls.default_regularizer)
        return parameter

    def _resolve(self, args, kwargs):
        """Binds arguments to the signature, with our names made into objects."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        arguments.update(arguments.pop("kwargs", {}))
        for name, value in arguments.items():
            if name.endswith("_initializer"):
                value = initializers.get(value)
                if isinstance(value, Posterior):
                    value = value.with_default(self._keras_defaults[name])
                arguments[name] = value
            elif name.endswith("_regularizer"):
                arguments[name] = regularizers.get(value)
        return arguments
