"""The Poisson distribution."""

from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.incomplete import gammaincc
from bayesian_layers.distributions.stirling import log_gamma_density


@register
class Poisson(Distribution):
    """The Poisson distribution of counts.

    P(k) = rate**k * exp(-rate) / k!

    Args:
        rate: The mean, positive. Give this or `log_rate`.
        log_rate: The logarithm of the mean, real.

    Example:
    >>> poisson = bl.distributions.Poisson(rate=3.0)
    >>> round(float(poisson.prob(2.0)), 4)
    0.224
    """

    parameters = {"rate": constraints.positive, "log_rate": constraints.real}
    support = constraints.nonnegative_integer
    draws_gamma_noise = True
    reparameterized = False

    def __init__(self, rate=None, log_rate=None):
        if (rate is None) == (log_rate is None):
            raise ValueError(
                "Poisson expects exactly one of `rate` and `log_rate`. "
                f"Received: rate={rate}, log_rate={log_rate}"
            )
        super().__init__(rate=rate, log_rate=log_rate)

    @property
    def rate(self):
        """The mean."""
        given = self._parameter("rate")
        return ops.exp(self._parameter("log_rate")) if given is None else given

    @property
    def log_rate(self):
        """The logarithm of the mean."""
        given = self._parameter("log_rate")
        return ops.log(self._parameter("rate")) if given is None else given

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        return noise.poisson(shape, self.rate, self.dtype, seed)

    def _log_prob(self, value):
        return log_gamma_density(value + 1.0, self.rate, self.log_rate)

    def _cdf(self, value):
        k = ops.floor(value)
        return ops.where(k >= 0.0, gammaincc(ops.maximum(k, 0.0) + 1.0, self.rate), 0.0)

    def _mean(self):
        return self.rate

    def _variance(self):
        return self.rate

    def _mode(self):
        return ops.floor(self.rate)
