"""The contract of covariance functions."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend, initializers, parameterizations, regularizers
from bayesian_layers.covariances.active_dims import ActiveDims
from bayesian_layers.distributions import Deterministic, constraints, shapes
from bayesian_layers.random_weights import RandomWeights

register = keras.saving.register_keras_serializable("bayesian_layers.covariances")

_POSITIVE = parameterizations.Softplus()


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter as the user gave it.

    `value` is an array, in natural units, or a posterior; `per_dimension` says whether
    there is one for each dimension of the inputs.
    """

    value: Any
    regularizer: Callable | None
    per_dimension: bool


class Covariance(RandomWeights, keras.Layer):
    """A covariance function k(x, z), a layer whose weights are its hyperparameters.

    `cov(x, z)` is the matrix of all k(x_i, z_j); `cov(x)` that of x with itself;
    `cov.diagonal(x)` are the k(x_i, x_i) alone. Covariances add and multiply:
    `cov + other`, `cov * other`, `2.0 * cov`.

    Hyperparameters are positive. Each is given as a number or an array in natural
    units, where it starts; it trains, read through softplus. With a prior as its
    regularizer (`bl.regularizers.KLDivergence(prior)`) training finds the maximum of
    the posterior: -log p(value) is in `losses`. A `bl.initializers.Posterior` in place
    of the number, such as `bl.initializers.TrainableLogNormal()`, makes it random, a
    random weight like any other: each call draws it, and its KL is in `losses` once.
    Its prior then defaults to LogNormal(0, 1).

    A subclass declares its hyperparameters in its constructor, by `declare`, and writes
    `matrix(x, z, **hyperparameters)`. It may write `variances(x, **hyperparameters)`,
    the diagonal, which otherwise is computed row by row, and `features(num_features,
    seed, **hyperparameters)`, which returns a function of x; see `random_features`.
    These get x as `[..., n, D]`, active dimensions only, in float32 or better. It is
    registered for Keras' serialization and keeps other arguments in `get_config`.

    Args:
        active_dims: The columns of the inputs that it depends on: a list or a slice.
            Defaults to all.
        batch_shape: Leading axes of all hyperparameters, and so of the results: with
            `batch_shape=(units,)` there is one covariance for each unit.
        fixed: The names of hyperparameters that do not train.
        **kwargs: `name`, `dtype`, `trainable`, and `seed` and `kl_scale` as in
            `bl.layers.RandomWeights`.

    Example:
    >>> @keras.saving.register_keras_serializable("my_package")
    ... class Brownian(bl.covariances.Covariance):
    ...     def __init__(self, amplitude=1.0, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.declare("amplitude", amplitude)
    ...
    ...     def matrix(self, x, z, amplitude):
    ...         z = x if z is None else z
    ...         return amplitude**2 * ops.minimum(x, ops.swapaxes(z, -1, -2))
    >>> cov = Brownian(2.0)
    >>> x = np.array([[1.0], [3.0]])
    >>> ops.convert_to_numpy(cov(x)).round(4).tolist()
    [[4.0, 4.0], [4.0, 12.0]]
    >>> ops.convert_to_numpy(cov.diagonal(x)).round(4).tolist()
    [4.0, 12.0]
    """

    def __init__(self, *, active_dims=None, batch_shape=(), fixed=(), **kwargs):
        # Not cast to the compute dtype by Keras: half precision would not do.
        super().__init__(autocast=False, **kwargs)
        self.batch_shape = shapes.standardize(batch_shape)
        self.fixed = (fixed,) if isinstance(fixed, str) else tuple(fixed)
        self.num_dims = None
        # Past `__setattr__`, which tracks: the variables are tracked already.
        vars(self).update(
            active_dims=ActiveDims(active_dims), _declared={}, _known_values={}
        )

    # Hyperparameters.

    def declare(
        self,
        name: str,
        value: Any,
        regularizer: Any = None,
        *,
        per_dimension: bool | None = None,
    ) -> None:
        """Declares a hyperparameter, in the constructor of a subclass.

        Args:
            name: Its name.
            value: What the user gave: a number, an array, or a posterior.
            regularizer: What the user gave for its prior.
            per_dimension: Whether there is one for each active dimension, if `value`
                is not an array, which says so itself. `None`: there never is.
        """
        if isinstance(value, (str, dict)):
            value = initializers.get(value)
        regularizer = regularizers.get(regularizer)
        if isinstance(value, initializers.Posterior):
            is_point = isinstance(value, initializers.TrainableDeterministic)
            if regularizer is None and not is_point:
                regularizer = regularizers.LogNormalKLDivergence()
        else:
            value = _positive_array(name, value)
            per_dimension = per_dimension is not None and (
                per_dimension or value.ndim > 0
            )
        self._declared[name] = Hyperparameter(value, regularizer, bool(per_dimension))

    def build(self, input_shape):
        """Makes the hyperparameters."""
        unknown = [name for name in self.fixed if name not in self._declared]
        if unknown:
            raise ValueError(
                f"`fixed` of {type(self).__name__} should name hyperparameters, of "
                f"{list(self._declared)}. Received: fixed={self.fixed}"
            )
        self.num_dims = self.active_dims.count(input_shape[-1])
        for name, hyperparameter in self._declared.items():
            self._add_hyperparameter(name, hyperparameter)

    def _add_hyperparameter(self, name, hyperparameter):
        value, regularizer = hyperparameter.value, hyperparameter.regularizer
        per_dimension = (self.num_dims,) if hyperparameter.per_dimension else ()
        shape = (*self.batch_shape, *per_dimension)
        settings = {
            "name": name,
            "dtype": self.precision,
            "trainable": name not in self.fixed,
        }
        if isinstance(value, initializers.Posterior):
            # For a log-normal distribution, a median of one.
            value = value.with_default("zeros")
            self.add_weight(shape, value, regularizer=regularizer, **settings)
            return
        _check_broadcast(name, value, shape)
        start = initializers.NaturalConstant(value)
        if regularizer is not None:
            point = initializers.TrainableDeterministic(start, loc_constraint=_POSITIVE)
            self.add_weight(shape, point, regularizer=regularizer, **settings)
            return
        self._known_values[name] = self.add_weight(
            shape, start.untransformed(_POSITIVE), autocast=False, **settings
        )

    def _check_posterior(self, weight):
        support, location = weight.posterior.support, weight.initializer.location
        if isinstance(weight.posterior, Deterministic):
            reader = weight.initializer.parameters()[location].constraint
            support = getattr(reader, "image", support)
        if not isinstance(support, constraints.GreaterThan):
            raise ValueError(
                f"The hyperparameter `{weight.name}` of {type(self).__name__} is "
                "positive, and so needs a distribution over positive numbers, such as "
                "`bl.initializers.TrainableLogNormal()`. "
                f"Received: {weight.name}={type(weight.initializer).__name__}, over "
                f"{support!r} numbers"
            )

    def hyperparameters(self) -> dict[str, Any]:
        """Returns the hyperparameters in natural units; random ones are drawn now.

        Returns:
            A dictionary from names to tensors of shape `batch_shape`, or `batch_shape +
            (D,)` where there is one for each dimension. Those of the i-th part of a
            composed covariance are under `"<i>/<name>"`.
        """
        return self._own_hyperparameters()

    def _own_hyperparameters(self):
        if not self.built:
            raise ValueError(
                f"Expected {type(self).__name__} {self.name!r} to be built: it has no "
                "hyperparameters before. Call it on data, or call `build(input_shape)`."
            )
        with self._scope():
            return {name: self._value(name) for name in self._declared}

    def _value(self, name):
        if name in self.random_weights:
            return self.random_weights[name].draw()
        return _POSITIVE(ops.convert_to_tensor(self._known_values[name]))

    def _scope(self):
        """Random weights go by one name in a call and in all other methods."""
        return keras.name_scope(self.name, caller=self)

    def over_rows(self, name: str, value: Any) -> Any:
        """Returns a hyperparameter in a shape that multiplies inputs `[..., n, D]`."""
        if self._declared[name].per_dimension:
            return value[..., None, :]
        return value[..., None, None]

    # Values.

    @property
    def precision(self):
        """The dtype of hyperparameters and results: float32 or better."""
        return keras.backend.result_type(self.variable_dtype, "float32")

    def estimate(self, call, *args, **kwargs):
        """Runs `call` as it is: it draws random hyperparameters by itself."""
        return call(self, *args, **kwargs)

    def call(self, x, z=None):
        """Returns the matrix of covariances.

        Args:
            x: Inputs of shape `[..., n, D]`.
            z: Inputs of shape `[..., m, D]`. Defaults to x.

        Returns:
            A tensor of shape `[*batch, n, m]`, where `batch` are the batch axes of the
            inputs and `batch_shape`, broadcast.
        """
        x = self._inputs(x)
        z = None if z is None else self._inputs(z)
        return self.matrix(x, z, **self._own_hyperparameters())

    def diagonal(self, x: Any) -> Any:
        """Returns the variances k(x_i, x_i); the matrix is never built.

        Args:
            x: Inputs of shape `[..., n, D]`.

        Returns:
            A tensor of shape `[*batch, n]`.
        """
        x = self._built_inputs(x)
        with self._scope():
            return self.variances(x, **self._own_hyperparameters())

    def matrix(self, x: Any, z: Any, **hyperparameters: Any) -> Any:
        """Returns the matrix `[*batch, n, m]`. A subclass writes this.

        Args:
            x: Inputs of shape `[..., n, D]`, active dimensions only.
            z: Inputs of shape `[..., m, D]`, or `None` for x itself.
            **hyperparameters: The hyperparameters in natural units.
        """
        raise NotImplementedError

    def variances(self, x: Any, **hyperparameters: Any) -> Any:
        """Returns the diagonal `[*batch, n]`, here row by row from `matrix`.

        Arguments as those of `matrix`.
        """

        def variance(row):
            return self.matrix(row[..., None, :], None, **hyperparameters)[..., 0, 0]

        rows = ops.moveaxis(x, -2, 0)
        return ops.moveaxis(ops.vectorized_map(variance, rows), 0, -1)

    def _built_inputs(self, x):
        x = ops.convert_to_tensor(x)
        if not self.built:
            self.build(shapes.static(x))
        return self._inputs(x)

    def _inputs(self, x):
        return self.active_dims.select(ops.cast(x, self.precision))

    def _batch(self, x):
        """The batch axes of a result for one input."""
        return shapes.broadcast(self.batch_shape, ops.shape(x)[:-2])

    # Random features.

    @property
    def has_random_features(self) -> bool:
        """Whether `random_features` exist."""
        return type(self).features is not Covariance.features

    def random_features(self, num_features: int, seed: Any = None) -> Callable:
        """Returns a random function phi with E[phi(x) phi(z)^T] = F k(x, z).

        The F columns of phi are independent, and of each the expectation of
        phi_i(x) phi_i(z) is k(x, z). So phi(x) phi(z)^T / F tends to the covariance,
        with an error of order 1 / sqrt(F), and phi(x) w / sqrt(F), with standard normal
        w, to a draw of the Gaussian process.

        Random hyperparameters are drawn once, here; those of a random network (see
        `bl.covariances.DeepKernel`) when phi is called: see `bl.covariances.one_draw`.

        Args:
            num_features: The number F of columns.
            seed: As in `keras.random`.

        Returns:
            A function from `[..., n, D]` to `[*batch, n, F]`, the same at all calls.

        Raises:
            NotImplementedError: If there are none; see `has_random_features`.

        Example:
        >>> cov = bl.covariances.Matern32(lengthscale=2.0)
        >>> cov.build((None, 3))
        >>> phi = cov.random_features(1000, seed=1)
        >>> ops.shape(phi(np.ones((5, 3))))
        (5, 1000)
        """
        if not self.has_random_features:
            raise NotImplementedError(
                f"{type(self).__name__} has no random features, whose products are "
                "the covariance in expectation. See `has_random_features`. "
                f"Received: {self!r}"
            )
        with self._scope():
            phi = self.features(num_features, seed, **self._own_hyperparameters())
        return lambda x: phi(self._inputs(ops.convert_to_tensor(x)))

    def features(self, num_features: int, seed: Any, **hyperparameters: Any):
        """Returns the function of `random_features`, of active dimensions only."""
        raise NotImplementedError

    # Composition.

    def __add__(self, other):
        return self._composed("Sum", self, other)

    def __radd__(self, other):
        return self._composed("Sum", other, self)

    def __mul__(self, other):
        return self._composed("Product", self, other)

    def __rmul__(self, other):
        return self._composed("Product", other, self)

    @staticmethod
    def _composed(kind, *parts):
        from bayesian_layers.covariances import compositions

        return compositions.compose(kind, parts)

    # Description.

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {
            **super().get_config(),
            "active_dims": self.active_dims.get_config(),
            "batch_shape": self.batch_shape,
            "fixed": self.fixed,
        }
        for name, hyperparameter in self._declared.items():
            value = hyperparameter.value
            if isinstance(value, initializers.Posterior):
                value = keras.saving.serialize_keras_object(value)
            config[name] = value.tolist() if isinstance(value, np.ndarray) else value
            config[f"{name}_regularizer"] = keras.saving.serialize_keras_object(
                hyperparameter.regularizer
            )
        return config

    def __repr__(self):
        described = [f"{name}={self._described(name)}" for name in self._declared]
        if self.active_dims.given is not None:
            described.append(f"active_dims={self.active_dims.given}")
        return f"{type(self).__name__}({', '.join(described)})"

    def _described(self, name):
        given = self._declared[name].value
        if isinstance(given, initializers.Posterior):
            return type(given).__name__
        if self.built:
            variable = (
                self.random_weights[name].location
                if name in self.random_weights
                else self._known_values[name]
            )
            value = _POSITIVE(ops.convert_to_tensor(variable))
            if backend.is_concrete(value):
                given = ops.convert_to_numpy(value)
        return np.array2string(np.asarray(given), precision=4, separator=", ")


def _positive_array(name, value):
    try:
        array = np.asarray(value, "float64")
    except (TypeError, ValueError):
        array = None
    if array is None or not np.all(np.isfinite(array) & (array > 0.0)):
        raise ValueError(
            f"`{name}` should be a positive number, an array of them, or a "
            "`bl.initializers.Posterior`, a distribution over positive numbers. "
            f"Received: {name}={value!r}"
        )
    return array


def _check_broadcast(name, value, shape):
    try:
        fits = shapes.broadcast(value.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"`{name}` has shape {shape} here: batch_shape, and the number of active "
            "dimensions if there is one for each. An array given for it should "
            f"broadcast to that. Received: {name} of shape {value.shape}"
        )
