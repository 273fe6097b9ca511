"""The contract of layers that return random variables."""

import keras
from keras import ops

from bayesian_layers.distributions import Distribution, kl_divergence
from bayesian_layers.keras_contact import called_path
from bayesian_layers.layers.returning import ReturnsRandomVariables
from bayesian_layers.regularizers.kl_divergence import of_shape
from bayesian_layers.trace import distribution_of


class OutputLayer(ReturnsRandomVariables):
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

    def __init__(self, *, prior=None, kl_weight=1.0, **kwargs):
        super().__init__(**kwargs)
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
        self.prior = prior
        self.kl_weight = kl_weight

    def _random_variable(self, distribution):
        if self.prior is not None:
            drawn_from = distribution_of(Output(self, distribution))
            if drawn_from is distribution:
                self.add_loss(self.kl_weight * self._mean_kl(distribution))
            distribution = drawn_from
        return super()._random_variable(distribution)

    def _mean_kl(self, distribution):
        """KL(distribution || prior), summed over all axes but the first."""
        kl = kl_divergence(
            distribution, self.prior, num_samples=1, seed=self.seed_generator
        )
        return ops.mean(ops.sum(kl, axis=tuple(range(1, len(kl.shape)))))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "prior": keras.saving.serialize_keras_object(self.prior),
            "kl_weight": self.kl_weight,
        }

    @classmethod
    def from_config(cls, config, *args, **kwargs):
        """Makes a layer from what `get_config` returned."""
        prior = keras.saving.deserialize_keras_object(config["prior"])
        return super().from_config({**config, "prior": prior}, *args, **kwargs)


class Output:
    """The output of a layer with a prior: drawn by the role that the layer has.

    Args:
        layer: The layer.
        posterior: The distribution given the inputs of the layer.
    """

    def __init__(self, layer, posterior):
        self.layer = layer
        self.posterior = posterior

    @property
    def path(self):
        """The name that handlers see."""
        return called_path(self.layer)

    def proper_prior(self):
        """Returns the prior of the layer, for outputs of the same shape."""
        shape = self.posterior._sample_shape(())
        return of_shape(self.layer.prior, shape, self.posterior.parameter_dtype)
