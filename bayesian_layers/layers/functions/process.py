"""What the Gaussian process layers have in common."""

import numbers

import keras
import numpy as np
from keras import ops

from bayesian_layers import covariances, distributions, seeds
from bayesian_layers.layers.functions import mean_functions
from bayesian_layers.layers.returning import ReturnsRandomVariables
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.function_noise import FunctionNoise


class Process(RandomWeights, ReturnsRandomVariables):
    """Base of the Gaussian process layers.

    It has the mean and the covariance function, and draws whole functions from the
    prior where the layer is held. A subclass writes `at(x)`, which returns the
    distribution at points.

    Inside, the units come first: functions have values `[units, n]`.

    Args:
        units: The number of functions.
        mean_fn: See `mean_functions.get`.
        covariance_fn: See `bl.covariances.get`; `None` is the exponentiated quadratic.
        num_path_features: The number of random features of a held function.
        **kwargs: As in `bl.layers.RandomWeights` and `ReturnsRandomVariables`.
    """

    def __init__(
        self,
        units,
        mean_fn=None,
        covariance_fn=None,
        num_path_features=1024,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = positive_integer("units", units)
        self.num_path_features = positive_integer(
            "num_path_features", num_path_features
        )
        self.mean_fn = mean_functions.get(mean_fn)
        if covariance_fn is None:
            covariance_fn = covariances.ExponentiatedQuadratic()
        self.covariance_fn = covariances.get(covariance_fn)
        self._add_noise("path_key", distributions.Uniform, 2)
        shape = (self.num_path_features, self.units)
        self._add_noise("path_weights", distributions.Normal, *shape)

    def _add_noise(self, name, family, *shape):
        """Adds standard noise that is drawn where the layer is held."""

        def make():
            zeros = ops.zeros(shape, dtype=self._float_dtype())
            return family(zeros, ops.ones_like(zeros))

        self.random_weights[name] = FunctionNoise(self, name, make)

    def build(self, input_shape):
        """Builds the covariance and mean functions for points of a size."""
        self.num_columns = _size(input_shape, self.name)
        shape = (None, self.num_columns)
        if not self.covariance_fn.built:
            self.covariance_fn.build(shape)
        if isinstance(self.mean_fn, keras.Layer) and not self.mean_fn.built:
            self.mean_fn.build(shape)

    # Calling.

    def estimate(self, call, *args, **kwargs):
        """Runs the layer, which draws what it needs by itself."""
        return call(self, *args, **kwargs)

    def call(self, inputs):
        """Returns a random variable of shape `[..., units]`."""
        return self._random_variable(self.distribution(inputs))

    def distribution(self, inputs, **kwargs):
        """Returns the distribution at points `[..., D]`; see `at`."""
        x = ops.cast(inputs, self._float_dtype())
        with covariances.one_draw(self.covariance_fn):
            return self.at(x, **kwargs)

    def at(self, x):
        """Returns the distribution at points in the layer's dtype."""
        raise NotImplementedError

    def _mean(self, x):
        """The mean at points `[n, D]`: `[n, units]`, or 0.0."""
        return mean_functions.value_of(self.mean_fn, x, self.units, self._float_dtype())

    # Functions that are held.

    def is_held(self):
        """Whether the layer is to be one function: in `bl.weights` or `bl.predict`."""
        return self.random_weights["path_weights"].is_wanted()

    def draw_path(self):
        """Returns a draw from the prior with mean zero, as a function.

        It is made of random features of the covariance function, and maps points
        `[n, D]` (or `[units, n, D]`, for each unit its own) to values `[units, n]`.
        """
        if not self.covariance_fn.has_random_features:
            raise ValueError(
                f"Layer {self.name!r} cannot be one function over several calls: its "
                "covariance function has no random features "
                f"({self.covariance_fn!r}), so it is drawn jointly at the inputs of "
                "one call. Call the layer or `model.predict` outside of `bl.weights`, "
                "or use a covariance function of `bl.covariances` without `White`: "
                "noise belongs to a likelihood layer, or to `noise_variance`."
            )
        weights = ops.transpose(self.random_weights["path_weights"].draw())
        # Any key is as good as another, also the mean of it: the function is zero if
        # the weights are.
        key = ops.floor(2.0**24 * self.random_weights["path_key"].draw())
        seed = seeds.Replay(ops.cast(key, self.seed_generator.state.dtype))
        features = self.covariance_fn.random_features(self.num_path_features, seed)
        scale = self.num_path_features**-0.5

        def path(x):
            columns = ops.swapaxes(features(x), -1, -2)
            return scale * per_unit(weights, columns)

        return path

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "units": self.units,
            "mean_fn": keras.saving.serialize_keras_object(self.mean_fn),
            "covariance_fn": keras.saving.serialize_keras_object(self.covariance_fn),
            "num_path_features": self.num_path_features,
        }

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        config = dict(config)
        for name in ("mean_fn", "covariance_fn"):
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return super().from_config(config)


def rounding(prior):
    """What rounding may take from variances that are differences from the prior's."""
    dtype = keras.backend.standardize_dtype(prior.dtype)
    return 10.0 * float(np.finfo(dtype).eps) * ops.stop_gradient(prior)


def without(prior, explained):
    """The covariance `[..., n, n]` that is left of a prior where a part is explained.

    It stays positive definite where nothing is left, but for rounding.
    """
    diagonal = ops.diagonal(prior, axis1=-2, axis2=-1)
    identity = ops.eye(ops.shape(prior)[-1], dtype=prior.dtype)
    return prior - explained + rounding(diagonal)[..., None] * identity


def joint_normal(loc, matrix):
    """The `JointNormal` with covariances `[n, n]` or `[units, n, n]`."""
    matrix = matrix[None] if len(matrix.shape) == 2 else matrix
    return distributions.JointNormal.rebuild({"loc": loc, "covariance_matrix": matrix})


def per_unit(vectors, matrices):
    """vectors[u] @ matrices[u]: `[units, k]` and `[k, n]` or `[units, k, n]`."""
    if len(matrices.shape) == 2:
        return vectors @ matrices
    return ops.squeeze(vectors[:, None, :] @ matrices, axis=1)


def positive_integer(name, value):
    """Returns an integer, or raises `ValueError` if it is none."""
    if not isinstance(value, numbers.Integral) or not value > 0:
        raise ValueError(f"`{name}` should be a positive integer. Received: {value!r}")
    return int(value)


def _size(input_shape, name):
    if len(input_shape) < 2 or input_shape[-1] is None:
        raise ValueError(
            f"Layer {name!r} expects inputs [..., D] with a known number D of columns. "
            f"Received: input_shape={tuple(input_shape)}"
        )
    return input_shape[-1]
