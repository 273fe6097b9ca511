"""The contract of all distributions."""

import functools

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import constraints, shapes
from bayesian_layers.distributions.arguments import (
    common_dtype,
    flatten,
    is_tensor,
    parameter_property,
    standardize_parameter,
    unflatten,
)
from bayesian_layers.distributions.types import (
    SampleShape,
    Seed,
    Shape,
    Tensor,
    TensorLike,
)

register = keras.saving.register_keras_serializable("bayesian_layers.distributions")


class Distribution:
    """Base class of the distributions.

    A distribution is its constructor's arguments and nothing else: it holds them in
    one dictionary and derives everything from there. Parameters may be Python
    numbers, arrays, tensors, or Keras variables; a variable is read at each use, so a
    distribution over variables follows their updates and passes gradients to them.
    Parameters in half precision are computed with in float32, those in float64 as Keras
    computes: in float64 on TensorFlow, in float32 on JAX and PyTorch.

    A subclass states

    - `parameters`: its tensor arguments and the constraint on each. The constraint's
      `event_rank` says how many trailing axes belong to one value; the other axes
      of all parameters broadcast to `batch_shape`;
    - `support`: the constraint on values (and `event_shape`, if not scalar);
    - `_sample(sample_shape, seed)` and `_log_prob(value)`;
    - those of `_mean`, `_variance`, `_mode`, `_entropy`, `_cdf`, `_quantile` that
      exist. Where they do not, the public method raises `NotImplementedError`.

    Shapes: a sample has shape `sample_shape + batch_shape + event_shape`; `log_prob`
    maps `[..., *batch_shape, *event_shape]` to `[..., *batch_shape]`, with
    broadcasting of the batch axes.

    Args:
        **arguments: The constructor's arguments by name. Those named in `parameters`
            become tensors of one floating dtype; `None` means not given.
    """

    parameters = {}
    support = constraints.real
    reparameterized = True
    # Whether samples are made of gamma or Poisson noise, which XLA may not compile.
    draws_gamma_noise = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in cls.parameters:
            if not hasattr(cls, name):
                setattr(cls, name, parameter_property(name))
        backend.register_pytree(cls, flatten, functools.partial(unflatten, cls))

    def __init__(self, **arguments):
        given = {
            name: arguments[name]
            for name in self.parameters
            if arguments.get(name) is not None
        }
        dtype = common_dtype(given.values())
        for name, value in given.items():
            arguments[name] = standardize_parameter(value, dtype, name, self)
        self._arguments = arguments
        self._validate()

    # Parameters.

    def _parameter(self, name):
        """Returns a parameter as a tensor, or `None` if it was not given."""
        value = self._arguments[name]
        if value is None:
            return None
        return ops.convert_to_tensor(value, self.parameter_dtype)

    def _given(self):
        """The parameters that were given, as they are stored."""
        arguments = self._arguments
        return {n: arguments[n] for n in self.parameters if arguments[n] is not None}

    def _map(self, function):
        """The distribution with `function` of each parameter, also of its parts."""
        arguments = dict(self._arguments)
        for name, value in arguments.items():
            if isinstance(value, Distribution):
                arguments[name] = value._map(function)
            elif name in self._given():
                arguments[name] = function(self._parameter(name))
        return self.rebuild(arguments)

    def _map_named(self, function, prefix=""):
        """The distribution with `function(name, value)` of each stored parameter.

        Parameters of its parts have the name of the part before their own.
        """
        arguments = dict(self._arguments)
        for name, value in arguments.items():
            if isinstance(value, Distribution):
                arguments[name] = value._map_named(function, f"{prefix}{name}_")
            elif name in self.parameters and value is not None:
                arguments[name] = function(prefix + name, value)
        return self.rebuild(arguments)

    def _tensors(self):
        """The parameters, and those of its parts, as tensors."""
        tensors = []
        self._map(tensors.append)
        return tensors

    def _validate(self):
        """Raises `ValueError` for parameters that are not in their constraint.

        Only numbers that are there to be looked at are checked: under a tracer this
        leaves nothing in the compiled program.
        """
        for name, value in self._given().items():
            rank = self.parameters[name].event_rank
            if len(value.shape) < rank:
                raise ValueError(
                    f"{type(self).__name__} expects `{name}` to have at least {rank} "
                    f"axes. Received: {name}.shape={shapes.static(value)}"
                )
        for name, constraint in self._concrete().items():
            value = self._parameter(name)
            if not bool(ops.all(constraint.check(value))):
                raise ValueError(
                    f"{type(self).__name__} expects `{name}` to be {constraint!r}. "
                    f"Received: {name}={ops.convert_to_numpy(value)}"
                )
        try:
            shapes.broadcast(*self._parameter_batch_shapes(shapes.static))
        except ValueError as error:
            received = ", ".join(
                f"{name}.shape={shapes.static(value)}"
                for name, value in self._given().items()
            )
            raise ValueError(
                f"{type(self).__name__} expects parameters that broadcast together. "
                f"Received: {received}"
            ) from error

    def _concrete(self):
        """The constraints of the parameters whose numbers can be looked at."""
        return {
            name: self.parameters[name]
            for name in self._given()
            if backend.is_concrete(self._parameter(name))
        }

    def _validate_order(self, low, high):
        """Raises `ValueError` unless the parameter `low` is below `high`."""
        if not {low, high} <= set(self._concrete()):
            return
        lower, upper = self._parameter(low), self._parameter(high)
        if not bool(ops.all(ops.less(lower, upper))):
            raise ValueError(
                f"{type(self).__name__} expects `{low}` < `{high}`. Received: "
                f"{low}={ops.convert_to_numpy(lower)}, "
                f"{high}={ops.convert_to_numpy(upper)}"
            )

    @functools.cached_property
    def parameter_dtype(self) -> str:
        """The floating dtype that the distribution computes in."""
        return common_dtype(self._given().values())

    @property
    def dtype(self) -> str:
        """The dtype of samples."""
        return self.parameter_dtype

    # Shapes.

    def _parameter_batch_shapes(self, shape_of):
        return [
            shape_of(value)[: len(value.shape) - self.parameters[name].event_rank]
            for name, value in self._given().items()
        ]

    @functools.cached_property
    def batch_shape(self) -> Shape:
        """The shape of a batch of such distributions; unknown sizes are `None`."""
        return shapes.broadcast(*self._parameter_batch_shapes(shapes.static))

    @property
    def event_shape(self) -> Shape:
        """The shape of one value of one distribution."""
        return ()

    def _dynamic_batch_shape(self):
        """`batch_shape`, with scalar tensors for sizes known only at run time."""
        if None not in self.batch_shape:
            return self.batch_shape
        return shapes.broadcast(*self._parameter_batch_shapes(ops.shape))

    def _is_whole(self):
        """Whether its parameters are tensors: JAX rebuilds pytrees of anything."""
        parts = [v for v in self._arguments.values() if isinstance(v, Distribution)]
        return all(map(is_tensor, self._given().values())) and all(
            part._is_whole() for part in parts
        )

    def _aligned(self):
        """The distribution with parameters of one batch shape.

        As leaves of a pytree they are then mapped over along the same axes.
        """
        batch_shapes = set(self._parameter_batch_shapes(shapes.static))
        aligned = len(batch_shapes) < 2
        return self if aligned else self._broadcast_batch(self.batch_shape)

    def _broadcast_batch(self, batch):
        """The distribution with all parameters broadcast to the given batch shape."""
        arguments = dict(self._arguments)
        for name in self._given():
            value, rank = self._parameter(name), self.parameters[name].event_rank
            event = ops.shape(value)[len(value.shape) - rank :]
            arguments[name] = ops.broadcast_to(value, (*batch, *event))
        return self.rebuild(arguments)

    def _sample_shape(self, sample_shape):
        return (*sample_shape, *self._dynamic_batch_shape(), *self.event_shape)

    # Values.

    def sample(self, sample_shape: SampleShape = (), seed: Seed = None) -> Tensor:
        """Draws values.

        Args:
            sample_shape: Integer or tuple: how many independent draws.
            seed: `None`, an integer or a `keras.random.SeedGenerator`, as in
                `keras.random`. Under `jax.jit` it has to be a `SeedGenerator`.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`. Gradients
            flow to the parameters if `reparameterized`; otherwise differentiating
            the sample raises a `ValueError`.
        """
        sample_shape = shapes.standardize(sample_shape)
        if self.reparameterized:
            return self._sample(sample_shape, seed)
        sample = self._map(ops.stop_gradient)._sample(sample_shape, seed)
        if not keras.backend.is_float_dtype(sample.dtype):
            return sample
        return backend.undifferentiable(
            sample,
            f"A sample of {type(self).__name__} has no gradient with respect to its "
            "parameters. Differentiate `log_prob` instead, or pass the sample through "
            "`keras.ops.stop_gradient` if it is meant to be a constant.",
            *self._tensors(),
        )

    def sample_and_log_prob(
        self, sample_shape: SampleShape = (), seed: Seed = None
    ) -> tuple[Tensor, Tensor]:
        """Draws values, and returns them with their `log_prob`."""
        sample = self.sample(sample_shape, seed)
        return sample, self.log_prob(sample)

    def shape(self, sample_shape: SampleShape = ()) -> Shape:
        """The shape of `sample(sample_shape)`, with `None` where a size is unknown."""
        sample_shape = shapes.standardize(sample_shape)
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def as_sample(self, value: TensorLike, sample_shape: SampleShape = ()) -> Tensor:
        """Returns `value` as a tensor of the shape and dtype of a sample.

        Raises:
            ValueError: If it has another shape, or a dtype that does not convert
                without loss of kind (floats to integers, say).
        """
        expected = self.shape(sample_shape)
        given = value if hasattr(value, "dtype") else np.asarray(value)
        dtype = keras.backend.standardize_dtype(given.dtype)
        castable = np.can_cast(dtype, self.dtype, "same_kind")
        if not castable or not shapes.matches(shapes.static(given), expected):
            raise ValueError(
                f"{type(self).__name__} expects a value of shape {expected} and dtype "
                f"{self.dtype}. Received a value of shape {shapes.static(given)} and "
                f"dtype {dtype}."
            )
        return ops.convert_to_tensor(value, self.dtype)

    def log_prob(self, value: TensorLike) -> Tensor:
        """Log of the density, or of the probability; -inf outside of the support."""
        value = self._standardize_value(value)
        if self.support is constraints.real:
            return self._log_prob(value)
        result = self._log_prob(self.support.project(value))
        return ops.where(self.support.check(value), result, -np.inf)

    def expected_log_prob(self, value: TensorLike) -> Tensor:
        """The expected log-likelihood of `value`, the data term of an evidence bound.

        It is `log_prob`, unless the distribution is `Compound`: there it is the mean,
        over the uncertain parameter, of the log-density given that parameter.
        """
        return self.log_prob(value)

    def predictive(self) -> "Distribution":
        """The distribution of a value alone, as simple as it can be stated.

        It is the distribution itself, unless that is `Compound`.
        """
        return self

    def prob(self, value: TensorLike) -> Tensor:
        """The density, or the probability, of `value`."""
        return ops.exp(self.log_prob(value))

    def cdf(self, value: TensorLike) -> Tensor:
        """The probability of a value not above `value`."""
        return self._cdf(self._standardize_value(value))

    def log_cdf(self, value: TensorLike) -> Tensor:
        """Log of `cdf`, accurate where `cdf` underflows."""
        return self._log_cdf(self._standardize_value(value))

    def log_survival(self, value: TensorLike) -> Tensor:
        """Log of the probability of a value above `value`, accurate in the tail."""
        return self._log_survival(self._standardize_value(value))

    def log_interval(self, low: TensorLike, high: TensorLike) -> Tensor:
        """Log of the probability of a value above `low` and not above `high`."""
        return self._log_interval(
            self._standardize_value(low), self._standardize_value(high)
        )

    def quantile(self, probability: TensorLike) -> Tensor:
        """The value whose `cdf` is `probability`; NaN for a number outside [0, 1]."""
        p = ops.convert_to_tensor(probability, self.parameter_dtype)
        inside = constraints.unit_interval.check(p)
        return ops.where(inside, self._quantile(ops.where(inside, p, 0.5)), np.nan)

    def mean(self) -> Tensor:
        """The mean, of shape `batch_shape + event_shape`."""
        return self._broadcast(self._mean())

    def variance(self) -> Tensor:
        """The variance of each element, of shape `batch_shape + event_shape`."""
        return self._broadcast(self._variance())

    def stddev(self) -> Tensor:
        """The square root of `variance`."""
        return ops.sqrt(self.variance())

    def mode(self) -> Tensor:
        """The most probable value, of shape `batch_shape + event_shape`."""
        return self._broadcast(self._mode())

    def entropy(self) -> Tensor:
        """The entropy in nats, of shape `batch_shape`."""
        return ops.broadcast_to(self._entropy(), self._dynamic_batch_shape())

    def kl_divergence(self, other: "Distribution", **kwargs) -> Tensor:
        """KL(self || other), of shape `batch_shape`; see `kl_divergence`."""
        from bayesian_layers.distributions.kl_divergence import kl_divergence

        return kl_divergence(self, other, **kwargs)

    def _broadcast(self, value):
        return ops.broadcast_to(value, self._sample_shape(()))

    def _standardize_value(self, value):
        value = ops.convert_to_tensor(value, self.parameter_dtype)
        rank = len(self.event_shape)
        given = shapes.static(value)[len(value.shape) - rank :] if rank else ()
        if not shapes.matches(given, self.event_shape):
            raise ValueError(
                f"{type(self).__name__} expects values whose shape ends with "
                f"event_shape={self.event_shape}. "
                f"Received: value.shape={shapes.static(value)}"
            )
        return value

    # What a family may implement.

    def _missing(self, method):
        return NotImplementedError(f"{type(self).__name__} has no `{method}`.")

    def _sample(self, sample_shape, seed):
        raise self._missing("sample")

    def _log_prob(self, value):
        raise self._missing("log_prob")

    def _cdf(self, value):
        raise self._missing("cdf")

    def _log_cdf(self, value):
        return ops.log(self._cdf(value))

    def _log_survival(self, value):
        return ops.log1p(-self._cdf(value))

    def _log_interval(self, low, high):
        # The difference is taken in the tail it lies in: 1 - 1e-30 is 1.
        from bayesian_layers.distributions.functions import log_sub_exp

        log_low, log_high = self._log_cdf(low), self._log_cdf(high)
        left = log_high < np.log(0.5)
        larger = ops.where(left, log_high, self._log_survival(low))
        smaller = ops.where(left, log_low, self._log_survival(high))
        return log_sub_exp(larger, smaller)

    def _quantile(self, probability):
        raise self._missing("quantile")

    def _mean(self):
        raise self._missing("mean")

    def _variance(self):
        raise self._missing("variance")

    def _mode(self):
        raise self._missing("mode")

    def _entropy(self):
        raise self._missing("entropy")

    # Python and Keras protocols.

    def __repr__(self):
        return (
            f"<{type(self).__name__} batch_shape={self.batch_shape} "
            f"event_shape={self.event_shape} dtype={self.dtype}>"
        )

    def get_config(self) -> dict:
        """Returns the constructor's arguments; tensors become NumPy arrays."""
        config = {}
        for name, value in self._arguments.items():
            if name in self.parameters and value is not None:
                value = ops.convert_to_numpy(self._parameter(name))
            config[name] = keras.saving.serialize_keras_object(value)
        return config

    @classmethod
    def from_config(cls, config: dict) -> "Distribution":
        """Makes a distribution from what `get_config` returned."""
        return cls(
            **{
                name: keras.saving.deserialize_keras_object(value)
                for name, value in config.items()
            }
        )

    @classmethod
    def rebuild(cls, arguments: dict) -> "Distribution":
        """Makes a distribution from standardized arguments, without looking at them."""
        distribution = object.__new__(cls)
        distribution._arguments = arguments
        return distribution
