"""Families loc + scale * standard noise."""

from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import Distribution


class LocationScale(Distribution):
    """Base of the families x = loc + scale * z, with z of a standard distribution.

    A subclass writes the functions of the standard distribution only.
    """

    parameters = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc, scale):
        super().__init__(loc=loc, scale=scale)

    def _standardize(self, value):
        return (value - self.loc) / self.scale

    def _sample(self, sample_shape, seed):
        return self.loc + self.scale * self._standard_sample(
            self._sample_shape(sample_shape), seed
        )

    def _log_prob(self, value):
        return self._standard_log_prob(self._standardize(value)) - ops.log(self.scale)

    def _cdf(self, value):
        return self._standard_cdf(self._standardize(value))

    def _quantile(self, probability):
        return self.loc + self.scale * self._standard_quantile(probability)

    def _mean(self):
        return self.loc

    def _mode(self):
        return self.loc

    def _variance(self):
        return self._standard_variance() * ops.square(self.scale)

    def _entropy(self):
        return self._standard_entropy() + ops.log(self.scale)

    def _standard_sample(self, shape, seed):
        raise self._missing("sample")

    def _standard_log_prob(self, z):
        raise self._missing("log_prob")

    def _standard_cdf(self, z):
        raise self._missing("cdf")

    def _standard_quantile(self, probability):
        raise self._missing("quantile")

    def _standard_variance(self):
        raise self._missing("variance")

    def _standard_entropy(self):
        raise self._missing("entropy")
