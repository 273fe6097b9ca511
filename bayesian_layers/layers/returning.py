"""The base of layers that return random variables."""

import keras
from keras import ops

from bayesian_layers import backend, seeds
from bayesian_layers.distributions import Distribution
from bayesian_layers.keras_contact import called_path
from bayesian_layers.random_variable import RandomVariable


class ReturnsRandomVariables(keras.Layer):
    """Base of layers that compute a distribution and return a random variable.

    A subclass writes `distribution(inputs)`. It gets all else: the draw, with a seed of
    its own, under the layer's name for `bl.tape` and other handlers; shape and dtype
    for Keras' symbolic calls, found by tracing; masks; and a config. Output layers
    stand on it (`bl.layers.OutputLayer`), and Gaussian processes.

    Args:
        convert: What other layers, losses and metrics see of the random variable:
            `"sample"` (the default), a draw from it, its `"mean"` or its `"mode"`.
        seed: Integer seed of the draws. Defaults to a random one.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> class Noisy(bl.layers.ReturnsRandomVariables):
    ...     def distribution(self, inputs):
    ...         return bl.distributions.Normal(inputs, 0.1)
    >>> ops.shape(Noisy()(np.ones((8, 2))).mean())
    (8, 2)
    """

    def __init__(self, *, convert="sample", seed=None, **kwargs):
        super().__init__(**kwargs)
        conversions = self._conversions()
        if convert not in conversions:
            raise ValueError(
                f"`convert` of {type(self).__name__} should be one of "
                f"{conversions}. Received: convert={convert!r}"
            )
        self.supports_masking = True
        self.convert = convert
        self.seed = seed
        self.seed_generator = seeds.generator(seed)

    def distribution(self, inputs):
        """Returns the distribution. A subclass writes this."""
        raise NotImplementedError

    def _conversions(self):
        """What `convert` may be."""
        return ("sample", "mean", "mode")

    def call(self, inputs):
        """Returns a random variable."""
        return self._random_variable(self.distribution(inputs))

    def _random_variable(self, distribution):
        value = None
        if self.convert != "sample":
            value = getattr(distribution, self.convert)()
        if backend.exports_tensors_only():
            return self._exported(value)
        return RandomVariable(
            distribution,
            value=value,
            name=called_path(self),
            seed=self.seed_generator,
            observed=None if value is None else False,
        )

    def _exported(self, value):
        """What PyTorch exports of the layer."""
        if value is None:
            raise ValueError(
                f"{self.name!r}, a {type(self).__name__}, draws from its distribution, "
                "which PyTorch cannot export. Export its mean, "
                "`bl.to_deterministic(model).export(...)`, or give the layer "
                '`convert="mean"` or `"mode"`.'
            )
        return value

    def compute_output_spec(self, *args, **kwargs):
        """Returns the shape and dtype of the random variable."""
        return _Traced(self).compute_output_spec(*args, **kwargs)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the random variable."""
        inputs = keras.tree.map_shape_structure(
            lambda shape: keras.KerasTensor(shape, self.compute_dtype), input_shape
        )
        return self.compute_output_spec(inputs).shape

    def _float_dtype(self):
        """Distributions are computed with in float32 or better."""
        dtype = self.compute_dtype
        return "float32" if dtype in ("float16", "bfloat16") else dtype

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "convert": self.convert, "seed": self.seed}


class _Traced(keras.Operation):
    """The shape and dtype of a layer's draws, without drawing."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, *args, **kwargs):
        distribution = self.layer.distribution(*args, **kwargs)
        if draws_gamma_noise(distribution):
            self.layer.supports_jit = backend.compiles_gamma_noise
        return ops.zeros(distribution._sample_shape(()), distribution.dtype)


def draws_gamma_noise(distribution):
    """Whether XLA may be unable to draw from it, or from what it is made of."""
    return distribution.draws_gamma_noise or any(
        draws_gamma_noise(part)
        for part in distribution._arguments.values()
        if isinstance(part, Distribution)
    )
