"""The divergence of a latent variable, wherever its distribution came from."""

import keras
from keras import ops

from bayesian_layers.distributions import Distribution, Normal
from bayesian_layers.distributions.kl_divergence import closed_form
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.register import register
from bayesian_layers.random_variable import RandomVariable


@register
class KLFromPrior(ReceivesRandomVariables):
    """Adds the divergence of a random variable from a prior to the losses.

    The random variable itself is passed on. It stands behind a flow that makes an
    approximate posterior of a latent variable more than normal:

        bl.layers.Normal(2) -> flow -> bl.layers.KLFromPrior(prior) -> decoder

    The divergence is the closed form where there is one; behind a flow there is none,
    and it is log q(z) - log p(z) at the value z that the decoder sees, for which the
    flow is not reversed. It is summed over all axes but the first and averaged over
    that, as `prior` of `bl.layers.Normal` and other heads does without a flow.

    Args:
        prior: A distribution. Defaults to `bl.distributions.Normal(0.0, 1.0)`.
        kl_weight: Number that multiplies the divergence. Defaults to 1.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.KLFromPrior()
    >>> z = layer(bl.Normal(np.ones((8, 2), "float32"), 1.0))
    >>> float(layer.losses[0]), type(z).__name__
    (1.0, 'RandomVariable')
    """

    def __init__(self, prior=None, kl_weight=1.0, **kwargs):
        super().__init__(**kwargs)
        prior = Normal(0.0, 1.0) if prior is None else prior
        if not isinstance(prior, Distribution):
            raise TypeError(
                "`prior` should be a distribution such as "
                f"`bl.distributions.Normal(0.0, 1.0)`. Received: prior={prior!r}"
            )
        self.prior = prior
        self.kl_weight = kl_weight

    def call(self, inputs):
        """Returns the inputs, a random variable."""
        if not isinstance(inputs, RandomVariable):
            raise TypeError(
                "KLFromPrior expects a random variable, as a head such as "
                "`bl.layers.Normal` or a flow behind one returns. "
                f"Received: inputs={inputs!r}"
            )
        self.add_loss(self.kl_weight * self._divergence(inputs))
        return inputs

    def _divergence(self, variable):
        kl = closed_form(type(variable.distribution), type(self.prior))
        if kl is not None:
            return _of_examples(kl(variable.distribution, self.prior))
        log_q = variable.log_prob(variable.value)
        log_p = self.prior.log_prob(variable.value)
        return _of_examples(log_q) - _of_examples(log_p)

    def compute_output_spec(self, inputs):
        """Returns the shape and dtype of the inputs."""
        return keras.KerasTensor(inputs.shape, inputs.dtype)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the inputs."""
        return input_shape

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "prior": keras.saving.serialize_keras_object(self.prior),
            "kl_weight": self.kl_weight,
        }

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        prior = keras.saving.deserialize_keras_object(config["prior"])
        return cls(**{**config, "prior": prior})


def _of_examples(values):
    """The sum over all axes but the first, and the mean over that."""
    return ops.mean(ops.sum(values, axis=tuple(range(1, len(values.shape)))))
