"""The contract of distributions over weights."""

import copy
import dataclasses
import inspect
import math
import numbers
from collections.abc import Callable

import keras

from bayesian_layers import parameterizations

register = keras.saving.register_keras_serializable("bayesian_layers.initializers")


@register
class NaturalConstant(keras.initializers.Initializer):
    """Starts a parameter of a posterior at a number, in natural units.

    Parameters such as standard deviations are stored untransformed; this stores what
    the parameterization of the parameter maps to `value`.

    Args:
        value: The number.

    Example:
    >>> posterior = bl.initializers.TrainableNormal(
    ...     stddev_initializer=bl.initializers.NaturalConstant(0.1)
    ... )
    >>> layer = bl.layers.DenseFlipout(2, kernel_initializer=posterior)
    >>> layer.build((None, 3))
    >>> scale = layer.random_weights["kernel"].posterior.scale
    >>> round(float(ops.convert_to_numpy(scale)[0, 0]), 4)
    0.1
    """

    def __init__(self, value):
        self.value = value

    def at(self, shape):
        """Returns the number for a parameter of this shape."""
        return self.value

    def untransformed(self, constraint):
        """Returns the initializer of the stored number, a function of the shape."""

        def initialize(shape, dtype=None):
            dtype = keras.backend.standardize_dtype(dtype)
            value = parameterizations.untransformed(constraint, self.at(shape), dtype)
            return value * keras.ops.ones(shape, dtype=dtype)

        return initialize

    def __call__(self, shape, dtype=None):
        """Returns the number itself, for a parameter that is not transformed."""
        return keras.ops.full(shape, self.at(shape), dtype=dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"value": self.value}


@register
class FanInConstant(NaturalConstant):
    """Starts a parameter of a kernel at `value / sqrt(fan_in)`, in natural units.

    The fan-in is the number of inputs that one output of the kernel sums over, as in
    `keras.initializers.VarianceScaling`. A parameter of a vector starts at `value`.

    Args:
        value: The number for a fan-in of one.
    """

    def at(self, shape):
        """Returns the number for a parameter of this shape."""
        if len(shape) < 2:
            return self.value
        return self.value / math.sqrt(max(1, math.prod(shape[:-1])))


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a posterior: how it starts, and what is read of it.

    `initializer` may itself be a `Posterior`: then the parameter is random, and
    `regularizer` is the penalty on its distribution.
    """

    initializer: Callable
    regularizer: Callable | None = None
    constraint: Callable | None = None


class Posterior(keras.initializers.Initializer):
    """A distribution over a weight, with parameters that train.

    Given as initializer to one of our layers it makes the weight random: the Keras
    variable is the first parameter, the location, and the others stand beside it under
    the names `<weight>_<parameter>`. An instance holds no state: given to two layers,
    it makes two distributions. In a layer that is not ours it initializes the weight
    to the location.

    A subclass states `arguments`, from the prefix of its constructor's arguments to
    the name of the distribution's parameter, the location first; `defaults`, by that
    prefix, the initializers that are not the layer's; `positive`, the prefixes of what
    has to be positive, and so needs a parameterization; `shapes(shape)`, if a parameter
    has another shape than the weight; and `distribution(**parameters)`.
    """

    arguments = {}
    defaults = {}
    positive = ()
    trainable = True

    def __init__(self, **arguments):
        from bayesian_layers import initializers, regularizers

        self._parameters = {}
        self.layer_default = None
        for prefix, name in self.arguments.items():
            initializer = arguments.pop(f"{prefix}_initializer", None)
            self._check_number(f"{prefix}_initializer", initializer)
            parameter = Parameter(
                initializers.get(initializer),
                regularizers.get(arguments.pop(f"{prefix}_regularizer", None)),
                parameterizations.get(arguments.pop(f"{prefix}_constraint", None)),
            )
            if prefix in self.positive and parameter.constraint is None:
                raise ValueError(
                    f"`{prefix}` has to be positive, whatever the number that is "
                    f'trained: it needs a parameterization, such as "softplus". '
                    f"Received: {prefix}_constraint=None"
                )
            self._parameters[name] = parameter
        self._settings = arguments

    @staticmethod
    def _check_number(name, initializer):
        if isinstance(initializer, numbers.Number):
            raise ValueError(
                f"`{name}` initializes the untransformed number. To start at "
                f"{initializer} in natural units give "
                f"`bl.initializers.NaturalConstant({initializer})`; for a number that "
                f"is not transformed `keras.initializers.Constant({initializer})`. "
                f"Received: {name}={initializer}"
            )

    @property
    def location(self):
        """The name of the parameter that the Keras variable holds."""
        return next(iter(self.arguments.values()))

    def with_default(self, initializer):
        """Returns a copy whose location starts as `initializer` says.

        It matters only if the location was given no initializer of its own.
        """
        copied = copy.copy(self)
        copied.layer_default = keras.initializers.get(initializer)
        return copied

    def with_location(self, initializer):
        """Returns a copy whose location starts so, whatever it was given before."""
        copied = self.with_default(initializer)
        location = self._parameters[self.location]
        location = dataclasses.replace(location, initializer=None)
        copied._parameters = {**self._parameters, self.location: location}
        return copied

    def parameters(self):
        """Returns the parameters by name, with the defaults filled in."""
        defaults = {self.location: self.layer_default or "glorot_uniform"}
        for prefix, initializer in self.defaults.items():
            defaults[self.arguments[prefix]] = initializer
        return {
            name: dataclasses.replace(
                parameter,
                initializer=_filled(parameter, defaults.get(name)),
            )
            for name, parameter in self._parameters.items()
        }

    def layers(self):
        """Returns the layers that the distribution is made with."""
        return []

    def bind(self, name, shape, add_layer):
        """Returns the posterior of one weight of one layer.

        A posterior with layers of its own makes them here, and gives them to the layer
        by `add_layer(name, layer)`.
        """
        return self

    def shapes(self, shape):
        """Returns the shapes of the parameters of a weight of this shape."""
        return dict.fromkeys(self.arguments.values(), shape)

    def distribution(self, **parameters):
        """Returns the distribution over the weight, given its parameters."""
        raise NotImplementedError

    def __call__(self, shape, dtype=None):
        """Returns the initial location."""
        initializer = self.parameters()[self.location].initializer
        return initializer(shape, dtype=dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        values = dict(self._settings)
        for prefix, name in self.arguments.items():
            for field, value in vars(self._parameters[name]).items():
                values[f"{prefix}_{field}"] = value
        return {
            name: keras.saving.serialize_keras_object(values[name])
            for name in inspect.signature(type(self)).parameters
        }

    @classmethod
    def from_config(cls, config):
        """Makes a posterior from what `get_config` returned."""
        return cls(**config)


def _filled(parameter, default):
    """An initializer, the default in its place, or a posterior that starts there."""
    initializer = parameter.initializer
    if isinstance(default, NaturalConstant):
        if initializer is None or isinstance(initializer, Posterior):
            default = default.untransformed(parameter.constraint)
    if isinstance(initializer, Posterior):
        return initializer.with_default(default)
    if initializer is None:
        initializer = keras.initializers.get(default)
    if isinstance(initializer, NaturalConstant):
        return initializer.untransformed(parameter.constraint)
    return _fresh(initializer)


def _fresh(initializer):
    """A copy that draws other numbers, if the user gave no seed.

    An initializer of Keras takes its seed when it is made: used for two weights, it
    would give both the same numbers.
    """
    if not is_from_keras(initializer) or inspect.isfunction(initializer):
        return initializer
    unseeded = initializer.get_config().get("seed", 0) is None
    return initializer.clone() if unseeded else initializer


def is_from_keras(initializer):
    """Whether an initializer is of a class or function of Keras."""
    # Methods of compiled modules have `None` for a module.
    return (getattr(initializer, "__module__", None) or "").startswith("keras.")
