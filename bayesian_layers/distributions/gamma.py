"""The gamma distribution."""

from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import tiny
from bayesian_layers.distributions.stirling import gamma_entropy, log_gamma_density


@register
class Gamma(Distribution):
    """The gamma distribution.

    p(x) = rate**concentration * x**(concentration - 1) * exp(-rate * x)
           / Gamma(concentration) for x > 0

    Samples are differentiable with respect to both parameters (by implicit
    reparameterization) and never below the smallest normal number.

    Args:
        concentration: The shape, positive.
        rate: The inverse scale, positive. Defaults to one.

    Example:
    >>> gamma = bl.distributions.Gamma(concentration=3.0, rate=2.0)
    >>> round(float(gamma.mean()), 4)
    1.5

    Reference: Figurnov, Mohamed and Mnih (2018), Implicit reparameterization gradients.
    """

    parameters = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, concentration, rate=1.0):
        super().__init__(concentration=concentration, rate=rate)

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        log_sample = noise.log_gamma(shape, self.concentration, self.dtype, seed)
        sample = ops.exp(log_sample - ops.log(self.rate))
        return ops.maximum(sample, tiny(self.dtype))

    def _log_prob(self, value):
        log_rate = ops.log(self.rate)
        return log_rate + log_gamma_density(
            self.concentration, self.rate * value, log_rate + ops.log(value)
        )

    def _scaled(self, value):
        """Both arguments of the incomplete gamma function, of one shape."""
        x = self.rate * ops.maximum(value, 0.0)
        return ops.broadcast_to(self.concentration, ops.shape(x)), x

    def _cdf(self, value):
        return backend.gammainc(*self._scaled(value))

    def _log_survival(self, value):
        return ops.log(backend.gammaincc(*self._scaled(value)))

    def _mean(self):
        return self.concentration / self.rate

    def _variance(self):
        return self.concentration / ops.square(self.rate)

    def _mode(self):
        return ops.maximum(self.concentration - 1.0, 0.0) / self.rate

    def _entropy(self):
        return gamma_entropy(self.concentration) - ops.log(self.rate)
