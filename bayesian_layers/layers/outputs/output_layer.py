"""The contract of stochastic output layers."""

import itertools

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import Distribution, kl_divergence, noise
from bayesian_layers.random_variable import RandomVariable


class OutputLayer(keras.Layer):
    """Base of layers that compute a distribution and return a random variable.

    The last axis of the inputs carries the parameters of the distribution, one after
    another: `[..., k * n] -> [..., n]`. With `units` a trainable linear map comes
    first, which makes as many numbers as `n = units` needs. All numbers are allowed:
    what has to be positive, say, is made so.

    A subclass states `sizes(n)`, the numbers that each parameter takes for n outputs,
    in order, and `distribution(**parameters)`, given those numbers as tensors
    `[..., size]`; `output_shape_of`, if it is not `[..., n]`; `is_vector`, if not each
    output has a distribution of its own; `scale_parameter`, the one that may be
    homoscedastic; the `conversions` that there are; and `draws_gamma_noise`, if XLA may
    not be able to draw from it.

    Args:
        units: The number n of outputs, or `None`: no map is added, and n follows from
            the inputs.
        homoscedastic: If `True`, the scale is a trainable variable, one for each
            output, instead of a function of the inputs.
        convert: What other layers, and metrics, see of the random variable:
            `"sample"`, a draw from the distribution, its `"mean"` or its `"mode"`.
        prior: A distribution: the KL of the output from it is added to the losses,
            summed over all axes but the first and averaged over that.
        kl_weight: Number that multiplies that KL.
        seed: Integer seed of the draws. Defaults to a random one.
        kernel_initializer: Initializer of the linear map.
        bias_initializer: Initializer of its bias.
        **kwargs: As in `keras.Layer`.
    """

    sample_dtype = None
    is_vector = False
    draws_gamma_noise = False
    scale_parameter = None
    conversions = ("sample", "mean", "mode")

    def __init__(
        self,
        units=None,
        *,
        homoscedastic=False,
        convert="sample",
        prior=None,
        kl_weight=1.0,
        seed=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if units is not None and not (isinstance(units, int) and units > 0):
            raise ValueError(
                "`units` should be a positive integer or `None`. "
                f"Received: units={units}"
            )
        if convert not in self.conversions:
            raise ValueError(
                f"`convert` of {type(self).__name__} should be one of "
                f"{self.conversions}. Received: convert={convert!r}"
            )
        if homoscedastic and self.scale_parameter is None:
            raise ValueError(
                f"{type(self).__name__} has no scale that could be the same for all "
                "inputs. Received: homoscedastic=True"
            )
        if prior is not None and not isinstance(prior, Distribution):
            raise TypeError(
                "`prior` should be a distribution such as "
                f"`bl.distributions.Normal(0.0, 1.0)`. Received: prior={prior!r}"
            )
        if prior is None and kl_weight != 1.0:
            raise ValueError(
                "`kl_weight` belongs to the KL from a `prior`. Received: "
                f"kl_weight={kl_weight}, prior=None"
            )
        self.supports_masking = True
        if self.draws_gamma_noise:
            self.supports_jit = backend.compiles_gamma_noise
        self.units = units
        self.homoscedastic = homoscedastic
        self.convert = convert
        self.prior = prior
        self.kl_weight = kl_weight
        self.seed = seed
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        (spread,) = noise.split(seed, 1)
        self.seed_generator = keras.random.SeedGenerator(spread)
        self.projection = None
        if units is not None:
            self.projection = keras.layers.Dense(
                self._columns(units),
                kernel_initializer=self.kernel_initializer,
                bias_initializer=self.bias_initializer,
                dtype=self.dtype_policy,
                name="projection",
            )

    # What a subclass writes.

    def sizes(self, count):
        """Returns the number of columns of each parameter, for `count` outputs."""
        raise NotImplementedError

    def distribution(self, **parameters):
        """Returns the distribution, given the columns of each parameter."""
        raise NotImplementedError

    def output_shape_of(self, batch, count):
        """Returns the shape of a draw."""
        return (*batch, count)

    # Shapes.

    def _sizes(self, count):
        """The columns of the parameters that are functions of the inputs."""
        sizes = dict(self.sizes(count))
        if self.homoscedastic:
            del sizes[self.scale_parameter]
        return sizes

    def _columns(self, count):
        return sum(self._sizes(count).values())

    def _count(self, columns):
        """The number of outputs whose parameters take so many columns."""
        # Most families take the same number for each output; others are searched.
        count = max(1, columns // self._columns(1))
        if self._columns(count) != columns:
            count = next(n for n in itertools.count(1) if self._columns(n) >= columns)
        if self._columns(count) != columns:
            raise ValueError(
                f"{type(self).__name__} without `units` takes "
                f"{self._explain()} on the last axis. Received inputs with {columns}. "
                "Give `units` to have them made by a linear map."
            )
        return count

    def _explain(self):
        examples = [self._columns(count) for count in (1, 2, 3)]
        names = ", ".join(self._sizes(1))
        return f"the parameters {names} ({', '.join(map(str, examples))}, ... columns)"

    def build(self, input_shape):
        """Builds the linear map and the scale, if there are any."""
        count = self.units or self._count(input_shape[-1])
        if self.projection is not None:
            self.projection.build(input_shape)
        if self.homoscedastic:
            self.scale = self.add_weight(
                shape=(self.sizes(count)[self.scale_parameter],),
                initializer="zeros",
                name="scale",
                dtype=self._float_dtype(),
                autocast=False,
            )

    def compute_output_shape(self, input_shape):
        """Returns the shape of the random variable."""
        count = self.units or self._count(input_shape[-1])
        return self.output_shape_of(tuple(input_shape[:-1]), count)

    def compute_output_spec(self, inputs):
        """Returns the shape and dtype of the random variable."""
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.sample_dtype or self._float_dtype())

    def _float_dtype(self):
        """Distributions are computed with in float32 or better."""
        dtype = self.compute_dtype
        return "float32" if dtype in ("float16", "bfloat16") else dtype

    # Calling.

    def call(self, inputs):
        """Returns a random variable."""
        if self.projection is not None:
            inputs = self.projection(inputs)
        distribution = self.distribution(**self._split_parameters(inputs))
        if self.prior is not None:
            self.add_loss(self.kl_weight * self._mean_kl(distribution))
        return self._variable(distribution)

    def _mean_kl(self, distribution):
        """KL(distribution || prior), summed over all axes but the first."""
        kl = kl_divergence(
            distribution, self.prior, num_samples=1, seed=self.seed_generator
        )
        return ops.mean(ops.sum(kl, axis=tuple(range(1, len(kl.shape)))))

    def _split_parameters(self, inputs):
        sizes = self._sizes(self.units or self._count(inputs.shape[-1]))
        inputs = ops.cast(inputs, self._float_dtype())
        parameters, start = {}, 0
        for name, size in sizes.items():
            parameters[name] = inputs[..., start : start + size]
            start += size
        if self.homoscedastic:
            parameters[self.scale_parameter] = ops.convert_to_tensor(self.scale)
        return parameters

    def _variable(self, distribution):
        value = None
        if self.convert != "sample":
            value = getattr(distribution, self.convert)()
        return RandomVariable(
            distribution, value=value, name=self.path, seed=self.seed_generator
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "units": self.units,
            "homoscedastic": self.homoscedastic,
            "convert": self.convert,
            "prior": keras.saving.serialize_keras_object(self.prior),
            "kl_weight": self.kl_weight,
            "seed": self.seed,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        prior = keras.saving.deserialize_keras_object(config["prior"])
        return cls(**{**config, "prior": prior})
