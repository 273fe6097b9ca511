"""Weights with a distribution that does not train."""

import contextlib
import contextvars
import functools
import inspect

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import Distribution
from bayesian_layers.initializers.posterior import Parameter, Posterior, is_from_keras
from bayesian_layers.random_variable import RandomVariable


class FixedPosterior(Posterior):
    """The distribution that a user's function gives for a weight.

    Its parameters become variables of the layer that do not train. Their numbers come
    from a second call of the function, when Keras initializes the variables: a layer
    may be built while a function is traced, where there are no numbers yet.

    Args:
        make: A function that returns the distribution.
        traced: What it returned, perhaps without numbers.
    """

    arguments = {"location": "location"}
    trainable = False

    def __init__(self, make, traced):
        super().__init__()
        self._make = make
        self._numbers = None
        self._shapes = {name: tuple(x.shape) for name, x in _tensors(traced).items()}
        self._template = traced._map_named(lambda name, _: name)

    def shapes(self, shape):
        """Returns the shapes of the location and of the distribution's parameters."""
        return {"location": shape, **self._shapes}

    def parameters(self):
        """Returns the location, and the parameters of the distribution."""
        return {name: Parameter(self._initializer(name)) for name in self.shapes(())}

    def _initializer(self, name):
        return lambda shape, dtype=None: self._values()[name]

    def _values(self):
        """The initial values by name: all of one call, as the function may draw."""
        if self._numbers is not None:
            return self._numbers
        distribution = self._make()
        values = {"location": _location(distribution), **_tensors(distribution)}
        values = {n: ops.convert_to_tensor(value) for n, value in values.items()}
        if all(map(backend.is_concrete, values.values())):
            # Copies: of variables that share memory JAX would give up one twice.
            values = {n: ops.convert_to_numpy(value) for n, value in values.items()}
            self._numbers = values
        return values

    def distribution(self, location, **parameters):
        """Returns the distribution."""
        return self._template._map_named(lambda name, _: parameters[name])


def as_posterior(initializer, shape, dtype):
    """Returns the posterior that an initializer stands for, or `None`.

    A callable may stand for one by what it returns, `(shape, dtype) -> RandomVariable`
    or distribution.
    """
    if isinstance(initializer, Posterior):
        return initializer
    if not callable(initializer) or is_from_keras(initializer):
        return None
    make = functools.partial(_called, initializer, shape, dtype)
    value = make()
    if not isinstance(value, Distribution):
        return None
    used = [*_tensors(value).values(), *keras.tree.flatten(_captured(initializer))]
    if any(type(x) is keras.Variable for x in used):
        raise ValueError(
            "An initializer that returns a distribution over Keras variables would "
            "take their values once, and neither follow nor train them. Write a "
            "subclass of `bl.initializers.Posterior`, whose parameters are trained, or "
            f"give numbers. Received: {initializer}, which returned {value}"
        )
    if value.shape() != tuple(shape):
        raise ValueError(
            f"An initializer of a weight of shape {tuple(shape)} should return a "
            f"distribution of that shape. Received: {value}"
        )
    return FixedPosterior(make, value)


def _captured(function):
    """What a callable holds of its surroundings: closures, globals, attributes."""
    if isinstance(function, functools.partial):
        return [function.args, function.keywords, _captured(function.func)]
    if inspect.isfunction(function):
        found = inspect.getclosurevars(function)
        return [dict(found.nonlocals), dict(found.globals)]
    return [dict(vars(function))] if hasattr(function, "__dict__") else []


def _called(initializer, shape, dtype):
    """What an initializer returns; of a random variable its distribution."""
    # Outside of all handlers: a random variable here is not one of the model's.
    value = contextvars.Context().run(initializer, shape, dtype=dtype)
    return value.distribution if isinstance(value, RandomVariable) else value


def _tensors(distribution):
    tensors = {}
    distribution._map_named(tensors.setdefault)
    return tensors


def _location(distribution):
    """The mean; where there is none the mode, and where there is none a draw."""
    for method in (distribution.mean, distribution.mode):
        with contextlib.suppress(NotImplementedError):
            return method()
    return distribution.sample(seed=0)
