"""A random variable: a tensor that knows its distribution."""

import functools

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import shapes
from bayesian_layers.distributions.distribution import Distribution
from bayesian_layers.keras_contact import in_stateless_scope
from bayesian_layers.trace import draw, is_lazy, is_tracing, is_wanted


class RandomVariable(keras.Variable):
    """A tensor that knows its distribution: its value is one draw from it.

    It can be used wherever Keras takes a tensor: in operators, `keras.ops`, layers,
    losses and metrics, and in the backend's own functions; gradients flow through the
    value to the distribution's parameters. The methods of the distribution are there
    too.

    The value is drawn when it is first read, and stays the same from then on; a
    compiled function that it was not made in draws it again, by its integer seed.
    It is drawn at once where handlers are in force (`bl.tape`, `bl.condition`, ...), so
    that they see it, and in Keras' `stateless_call`, where a seed generator's state
    ends.

    It is a `keras.Variable` to Keras, which is how all backends come to accept it, but
    it is no weight: it cannot be assigned to, nor made an attribute of a layer, which
    would track it as one. Keep its `distribution` there instead.

    Args:
        distribution: A `bl.distributions.Distribution`.
        value: The value, if it is known, of shape
            `sample_shape + batch_shape + event_shape`; or a function without arguments
            that computes it, which is called when the value is first read.
        sample_shape: Integer or tuple: how many independent draws it holds.
        name: The name by which handlers know it.
        seed: `None`, an integer or a `keras.random.SeedGenerator`.
        observed: Whether a given value is data, which it is by default: a variable
            whose value only stands for it, as its mean does, is latent to handlers.
        base: The random variable that the value is computed from, by a reversible
            layer.

    Example:
    >>> w = bl.RandomVariable(bl.distributions.Normal(0.0, 1.0), sample_shape=3, seed=1)
    >>> ops.shape(2.0 * w)
    (3,)
    >>> round(float(w.stddev()), 4)
    1.0
    """

    __array_priority__ = 1000  # NumPy arrays on the left leave operators to us.
    __hash__ = object.__hash__

    def __init__(
        self,
        distribution,
        *,
        value=None,
        sample_shape=(),
        name=None,
        seed=None,
        observed=None,
        base=None,
    ):
        scoped = in_stateless_scope()
        if scoped:
            # JAX keeps all state in the scope of `stateless_call`: afterwards, in the
            # loss, it is too late to read a variable, or to draw by a seed generator.
            distribution = distribution._map(lambda parameter: parameter)
        self._set(distribution, shapes.standardize(sample_shape), name, seed)
        self._made_in = backend.trace_state()
        scoped = scoped and isinstance(seed, keras.random.SeedGenerator)
        known = value is not None and not callable(value)
        self._compute = value if callable(value) else None
        self._base = base
        if known or ((scoped or is_tracing()) and not is_lazy()):
            self._drawn = self._draw(value if known else None, observed)

    def _draw(self, value=None, observed=None):
        if value is None and self._compute is not None:
            value, observed = self._compute(), False
        value = draw(
            self._distribution,
            name=self._name,
            seed=self._seed,
            sample_shape=self._sample_shape,
            value=value,
            observed=observed,
            base=self._base,
        )
        return self._distribution.as_sample(value, self._sample_shape)

    def _set(self, distribution, sample_shape, name, seed):
        self._distribution = distribution
        self._sample_shape = sample_shape
        self._name = name
        self._seed = seed
        # What Keras asks a variable for.
        self._path = name
        self._autocast = False
        self._regularizer = None
        self._constraint = None

    @classmethod
    def of(cls, distribution, value, sample_shape=(), name=None):
        """Makes a variable of a value as it is: not checked, and seen by no handler."""
        variable = object.__new__(cls)
        variable._set(distribution, sample_shape, name, None)
        variable._drawn = value
        return variable

    @property
    def distribution(self):
        """The distribution."""
        return self._distribution

    @property
    def value(self):
        """The value: drawn when it is first read.

        Raises:
            ValueError: If it is first read while another function is compiled than the
                one it was made in, and there is no integer seed to draw it by again.
        """
        if not self.is_drawn:
            if self._belongs_elsewhere():
                return self._draw()
            # Of two threads that read first at the same time, both get one value.
            vars(self).setdefault("_drawn", self._draw())
        return self._drawn

    def _belongs_elsewhere(self):
        """Whether what is drawn now is part of a program that the variable outlives."""
        if backend.trace_state() == self._made_in or not backend.is_compiling():
            return False
        if self._compute is None and not isinstance(self._seed, int):
            raise ValueError(
                f"{self!r} is first read while a function is compiled that it was not "
                "made in: its value would end with that function. Read `value` before, "
                "give an integer as `seed`, or make the random variable inside."
            )
        return True

    @property
    def is_drawn(self):
        """Whether there is a value already."""
        # JAX rebuilds pytrees with anything for a value, `None` too.
        return "_drawn" in vars(self)

    def is_wanted(self):
        """Whether a handler in force looks at the value by its name, or sets it.

        Who could integrate the variable out takes its value instead.
        """
        return is_tracing() and is_wanted(self._name, None)

    @property
    def shape(self):
        """The shape of the value; nothing is drawn to tell it."""
        if self.is_drawn:
            return self._drawn.shape
        return backend.static_shape(self._distribution.shape(self._sample_shape))

    @property
    def ndim(self):
        """The number of axes of the value."""
        return len(self.shape)

    @property
    def dtype(self):
        """The dtype of the value."""
        if self.is_drawn:
            return backend.static_dtype(self._drawn.dtype)
        return backend.static_dtype(self._distribution.dtype)

    @property
    def trainable(self):
        """Not there: Keras asks for it when it is about to track a weight."""
        raise ValueError(
            f"{self!r} cannot be an attribute of a Keras layer or model: Keras would "
            "track and save it as a weight. Keep its `distribution` as the attribute, "
            "and make the random variable in `call`."
        )

    def assign(self, value):
        """Raises: a random variable is a value, not a place."""
        raise ValueError(
            f"{self!r} cannot be assigned to. Make a new one with `value=...`."
        )

    def numpy(self):
        """Returns the value as a NumPy array."""
        return ops.convert_to_numpy(self.value)

    def __iter__(self):
        # Without it Python counts up until an index is refused, which JAX never does.
        if not self.ndim:
            raise TypeError(f"{self!r} is a scalar and cannot be iterated over.")
        return iter(ops.unstack(self.value))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*_values(args), **_values(kwargs or {}))

    def __array__(self, dtype=None, copy=None):
        value = self.numpy()
        return value if dtype is None else value.astype(dtype)

    def __tf_tensor__(self, dtype=None, name=None):
        # TensorFlow asks for it when a model is exported, also from other backends.
        return backend.tensorflow_tensor(self.value, dtype, name)

    def __repr__(self):
        if not self.is_drawn:
            shown = "not drawn yet"
        elif backend.is_concrete(self._drawn):
            shown = np.array2string(ops.convert_to_numpy(self._drawn), threshold=20)
        else:
            shown = "traced"
        name = "" if self._name is None else f" {self._name!r}"
        return (
            f"<RandomVariable{name} {type(self._distribution).__name__} "
            f"shape={tuple(self.shape)} "
            f"dtype={keras.backend.standardize_dtype(self.dtype)} value={shown}>"
        )


def _values(arguments):
    """The arguments of a function of PyTorch, with values in place of variables."""
    if isinstance(arguments, keras.Variable):
        return arguments.value
    if isinstance(arguments, dict):
        return {name: _values(argument) for name, argument in arguments.items()}
    if type(arguments) in (tuple, list):
        return type(arguments)(map(_values, arguments))
    return arguments


def _delegate(method):
    @functools.wraps(getattr(Distribution, method))
    def call(self, *args, **kwargs):
        return getattr(self._distribution, method)(*args, **kwargs)

    return call


for _method in (
    "sample",
    "sample_and_log_prob",
    "log_prob",
    "expected_log_prob",
    "prob",
    "mean",
    "stddev",
    "variance",
    "mode",
    "entropy",
    "cdf",
    "quantile",
    "kl_divergence",
):
    setattr(RandomVariable, _method, _delegate(_method))


backend.register_pytree(
    RandomVariable,
    lambda variable: (
        (variable.value, variable.distribution),
        (variable._sample_shape, variable._name),
    ),
    lambda aux, leaves: RandomVariable.of(leaves[1], leaves[0], *aux),
)
