"""The contract of stochastic output layers."""

import keras
from keras import ops

from bayesian_layers.distributions import noise
from bayesian_layers.random_variable import RandomVariable

CONVERSIONS = ("sample", "mean", "mode")


class OutputLayer(keras.Layer):
    """Base of layers that compute a distribution and return a random variable.

    The last axis of the inputs carries the parameters of the distribution, one after
    another: `[..., k * n] -> [..., n]`. With `units` a trainable linear map comes
    first, which makes as many numbers as `n = units` needs. All numbers are allowed:
    what has to be positive, say, is made so.

    A subclass states `sizes(n)`, the numbers that each parameter takes for n outputs,
    in order, and `distribution(**parameters)`, given those numbers as tensors
    `[..., size]`; and `output_shape`, if it is not `[..., n]`.

    Args:
        units: The number n of outputs, or `None`: no map is added, and n follows from
            the inputs.
        convert: What other layers, and metrics, see of the random variable:
            `"sample"`, a draw from the distribution, its `"mean"` or its `"mode"`.
        seed: Integer seed of the draws. Defaults to a random one.
        kernel_initializer: Initializer of the linear map.
        bias_initializer: Initializer of its bias.
        **kwargs: As in `keras.Layer`.
    """

    sample_dtype = None

    def __init__(
        self,
        units=None,
        *,
        convert="sample",
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
        if convert not in CONVERSIONS:
            raise ValueError(
                f"`convert` should be one of {CONVERSIONS}. Received: {convert!r}"
            )
        self.supports_masking = True
        self.units = units
        self.convert = convert
        self.seed = seed
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        (spread,) = noise.split(seed, 1)
        self.seed_generator = keras.random.SeedGenerator(spread)
        self.projection = None
        if units is not None:
            self.projection = keras.layers.Dense(
                sum(self.sizes(units).values()),
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

    def _count(self, columns):
        """The number of outputs whose parameters take so many columns."""
        count = 1
        while sum(self.sizes(count).values()) < columns:
            count += 1
        if sum(self.sizes(count).values()) != columns:
            raise ValueError(
                f"{type(self).__name__} without `units` takes "
                f"{self._explain()} on the last axis. Received inputs with {columns}. "
                "Give `units` to have them made by a linear map."
            )
        return count

    def _explain(self):
        examples = [sum(self.sizes(count).values()) for count in (1, 2, 3)]
        names = ", ".join(self.sizes(1))
        return f"the parameters {names} ({', '.join(map(str, examples))}, ... columns)"

    def build(self, input_shape):
        """Builds the linear map, if there is one."""
        if self.projection is not None:
            self.projection.build(input_shape)
        else:
            self._count(input_shape[-1])

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
        return self._variable(self.distribution(**self._split_parameters(inputs)))

    def _split_parameters(self, inputs):
        sizes = self.sizes(self.units or self._count(inputs.shape[-1]))
        inputs = ops.cast(inputs, self._float_dtype())
        parameters, start = {}, 0
        for name, size in sizes.items():
            parameters[name] = inputs[..., start : start + size]
            start += size
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
            "convert": self.convert,
            "seed": self.seed,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
