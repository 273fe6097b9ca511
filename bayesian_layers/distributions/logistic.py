"""The logistic distribution."""

import math

from keras import ops

from bayesian_layers.distributions import noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import log1mexp, logit
from bayesian_layers.distributions.location_scale import LocationScale


@register
class Logistic(LocationScale):
    """The logistic distribution: its distribution function is a sigmoid.

    P(X <= x) = sigmoid((x - loc) / scale)

    Args:
        loc: The mean, real.
        scale: The scale, positive; the standard deviation is `scale * pi / sqrt(3)`.

    Example:
    >>> logistic = bl.distributions.Logistic(loc=0.0, scale=1.0)
    >>> round(float(logistic.log_cdf(-40.0)), 4)
    -40.0
    """

    def _standard_sample(self, shape, seed):
        return self._standard_quantile(noise.uniform(shape, self.dtype, seed))

    def _standard_log_prob(self, z):
        return ops.log_sigmoid(z) + ops.log_sigmoid(-z)

    def _standard_cdf(self, z):
        return ops.sigmoid(z)

    def _log_cdf(self, value):
        return ops.log_sigmoid(self._standardize(value))

    def _log_survival(self, value):
        return ops.log_sigmoid(-self._standardize(value))

    def _log_interval(self, low, high):
        # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(-(b - a))): exact
        # in both tails and for bins of any width.
        return (
            self._log_cdf(high)
            + self._log_survival(low)
            + log1mexp((high - low) / self.scale)
        )

    def _standard_quantile(self, probability):
        return logit(probability)

    def _standard_variance(self):
        return math.pi**2 / 3.0

    def _standard_entropy(self):
        return 2.0
