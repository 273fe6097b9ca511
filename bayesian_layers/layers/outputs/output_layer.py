"""The contract of layers that return random variables."""

import keras
from keras import ops

from bayesian_layers import backend, seeds
from bayesian_layers.distributions import Distribution, kl_divergence
from bayesian_layers.keras_contact import called_path
from bayesian_layers.random_variable import RandomVariable


class OutputLayer(keras.Layer):
    """Base of layers that compute a distribution and return a random variable.

    A subclass writes `distribution(inputs)`, which returns a distribution made from
    the inputs and from its own weights, if it has any. It gets all else: the draw, with
    a seed of its own, under the layer's name for `bl.tape` and other handlers; the KL
    from a prior; shape and dtype for Keras' symbolic calls, found by tracing; masks;
    and a config. For a family of distributions with a linear map before it, see
    `bl.layers.FamilyLayer`; for a function of tensors `bl.layers.DistributionLambda`.

    Args:
        convert: What other layers, losses and metrics see of the random variable:
            `"sample"` (the default), a draw from it, its `"mean"` or its `"mode"`.
        prior: A distribution: the KL of the output from it is added to the losses,
            summed over all axes but the first and averaged over that.
        kl_weight: Number that multiplies that KL. Defaults to 1.
        seed: Integer seed of the draws. Defaults to a random one.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> class Ratings(bl.layers.OutputLayer):
    ...     def build(self, input_shape):
    ...         self.scale = self.add_weight(shape=(), initializer="zeros")
    ...
    ...     def distribution(self, inputs):
    ...         return bl.distributions.Normal(inputs, ops.exp(self.scale))
    >>> y = Ratings()(np.ones((8, 2)))
    >>> ops.shape(y), ops.shape(y.stddev())
    ((8, 2), (8, 2))
    """

    def __init__(
        self, *, convert="sample", prior=None, kl_weight=1.0, seed=None, **kwargs
    ):
        super().__init__(**kwargs)
        conversions = self._conversions()
        if convert not in conversions:
            raise ValueError(
                f"`convert` of {type(self).__name__} should be one of "
                f"{conversions}. Received: convert={convert!r}"
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
        self.convert = convert
        self.prior = prior
        self.kl_weight = kl_weight
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
        if self.prior is not None:
            self.add_loss(self.kl_weight * self._mean_kl(distribution))
        if self.convert != "sample":
            value = getattr(distribution, self.convert)()
        return RandomVariable(
            distribution,
            value=value,
            name=called_path(self),
            seed=self.seed_generator,
        )

    def _mean_kl(self, distribution):
        """KL(distribution || prior), summed over all axes but the first."""
        kl = kl_divergence(
            distribution, self.prior, num_samples=1, seed=self.seed_generator
        )
        return ops.mean(ops.sum(kl, axis=tuple(range(1, len(kl.shape)))))

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
        return {
            **super().get_config(),
            "convert": self.convert,
            "prior": keras.saving.serialize_keras_object(self.prior),
            "kl_weight": self.kl_weight,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config, *args, **kwargs):
        """Makes a layer from what `get_config` returned."""
        prior = keras.saving.deserialize_keras_object(config["prior"])
        return super().from_config({**config, "prior": prior}, *args, **kwargs)


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
