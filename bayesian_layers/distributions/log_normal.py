"""The log-normal distribution."""

from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import bounded_exp, tiny
from bayesian_layers.distributions.normal import Normal


@register
class LogNormal(Distribution):
    """The distribution of exp(z) for normally distributed z.

    p(x) = Normal(log(x); loc, scale) / x for x > 0

    Args:
        loc: The mean of `log(x)`, real.
        scale: The standard deviation of `log(x)`, positive.

    Example:
    >>> log_normal = bl.distributions.LogNormal(loc=0.0, scale=1.0)
    >>> round(float(log_normal.log_prob(2.0)), 4)
    -1.8523
    """

    parameters = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc, scale):
        super().__init__(loc=loc, scale=scale)

    def _normal(self):
        return Normal.rebuild(self._arguments)

    def _log(self, value):
        return ops.log(ops.maximum(value, tiny(self.dtype)))

    def _sample(self, sample_shape, seed):
        log_sample = self._normal()._sample(sample_shape, seed)
        return bounded_exp(log_sample, self.dtype)

    def _log_prob(self, value):
        log_value = ops.log(value)
        return self._normal()._log_prob(log_value) - log_value

    def _cdf(self, value):
        return ops.where(value > 0.0, self._normal()._cdf(self._log(value)), 0.0)

    def _log_cdf(self, value):
        log_cdf = self._normal()._log_cdf(self._log(value))
        return ops.where(value > 0.0, log_cdf, -float("inf"))

    def _log_survival(self, value):
        log_survival = self._normal()._log_survival(self._log(value))
        return ops.where(value > 0.0, log_survival, 0.0)

    def _quantile(self, probability):
        return ops.exp(self._normal()._quantile(probability))

    def _mean(self):
        return ops.exp(self.loc + 0.5 * ops.square(self.scale))

    def _variance(self):
        return ops.expm1(ops.square(self.scale)) * ops.square(self._mean())

    def _mode(self):
        return ops.exp(self.loc - ops.square(self.scale))

    def _entropy(self):
        return self._normal()._entropy() + self.loc
