"""Random Fourier features of a covariance, for layers that are linear in them."""

import math

import keras
from keras import ops

from bayesian_layers import covariances, seeds
from bayesian_layers.covariances.radial import Radial
from bayesian_layers.random_weights import RandomWeights


class FourierFeatures(RandomWeights, keras.Layer):
    """Base of layers with functions of random Fourier features.

    phi(x) = amplitude sqrt(2 / F) cos(x / lengthscale @ (s * Omega) + b), with
    E[phi(x) . phi(z)] = k(x, z) over standard normal Omega `[D, F]`, phases b uniform
    over a turn, and scales s from the spectral density of the covariance. Scales and
    phases are drawn when the layer is built, and kept as weights that do not train. A
    subclass has the `projection` Omega.

    Args:
        units: The number of functions.
        num_features: The number F of features.
        covariance_fn: A covariance of distances, such as
            `bl.covariances.ExponentiatedQuadratic`, its name, or `None`.
        **kwargs: As in `bl.layers.RandomWeights` and `keras.Layer`.
    """

    def __init__(self, units, num_features, covariance_fn, **kwargs):
        # Not cast by Keras: in half precision the angles would be off.
        super().__init__(autocast=False, **kwargs)
        for name, value in {"units": units, "num_features": num_features}.items():
            if not (isinstance(value, int) and value > 0):
                raise ValueError(
                    f"`{name}` should be a positive integer. Received: {name}={value}"
                )
        self.units = units
        self.num_features = num_features
        self.covariance_fn = None
        if covariance_fn is not None:
            self.covariance_fn = covariances.get(covariance_fn)
            if not isinstance(self.covariance_fn, Radial):
                raise ValueError(
                    f"{type(self).__name__} needs a covariance that is a function of "
                    "the distance, such as `bl.covariances.ExponentiatedQuadratic()`. "
                    f"Received: covariance_fn={self.covariance_fn}"
                )
            if self.covariance_fn.batch_shape:
                raise ValueError(
                    f"The units of {type(self).__name__} share their features, and so "
                    "need one covariance for all. Received: covariance_fn with "
                    f"batch_shape={self.covariance_fn.batch_shape}"
                )

    @property
    def precision(self):
        """The dtype of the features: float32 or better."""
        return keras.backend.result_type(self.variable_dtype, "float32")

    def build(self, input_shape):
        """Builds the covariance, and draws scales and phases."""
        covariance = self.covariance_fn
        if not covariance.built:
            covariance.build(input_shape)
        _, scale_seed, phase_seed, self._projection_seed = seeds.split(self.seed, 4)
        self.frequency_scales = self._add_fixed(
            "frequency_scales",
            lambda shape, dtype: ops.cast(
                covariance.frequency_scales(self.num_features, scale_seed), dtype
            ),
        )
        self.phases = self._add_fixed(
            "phases",
            keras.initializers.RandomUniform(0.0, 2.0 * math.pi, seed=phase_seed),
        )

    def _add_fixed(self, name, initializer):
        return self.add_weight(
            shape=(self.num_features,),
            initializer=initializer,
            name=name,
            dtype=self.precision,
            trainable=False,
            autocast=False,
        )

    @property
    def _projection_shape(self):
        return (self.covariance_fn.num_dims, self.num_features)

    def _standard_normal(self):
        """The initializer of a projection as the covariance has it."""
        return keras.initializers.RandomNormal(stddev=1.0, seed=self._projection_seed)

    def estimate(self, call, *args, **kwargs):
        """Runs `call` as it is: it reads draws by itself, not in half precision."""
        self.draw_weights(names=())  # Raises where it would draw for each step.
        return call(self, *args, **kwargs)

    def features(self, inputs, projection):
        """Returns phi, `[..., F]`, of inputs `[..., D]`."""
        covariance = self.covariance_fn
        values = covariance.hyperparameters()
        x = covariance.active_dims.select(ops.cast(inputs, self.precision))
        x = covariance.scaled(x, ops.cast(values["lengthscale"], self.precision))
        frequencies = self.frequency_scales * projection
        angles = ops.matmul(x, frequencies) + self.phases
        amplitude = ops.cast(values["amplitude"], self.precision)
        return math.sqrt(2.0 / self.num_features) * amplitude * ops.cos(angles)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the functions' values."""
        return (*input_shape[:-1], self.units)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "units": self.units,
            "num_features": self.num_features,
            "covariance_fn": keras.saving.serialize_keras_object(self.covariance_fn),
        }
