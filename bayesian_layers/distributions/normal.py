"""The normal distribution."""

import math

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import HALF_LOG_2_PI
from bayesian_layers.distributions.location_scale import LocationScale


@register
class Normal(LocationScale):
    """The normal distribution.

    p(x) = exp(-((x - loc) / scale)**2 / 2) / (scale * sqrt(2 pi))

    Args:
        loc: The mean, real.
        scale: The standard deviation, positive.

    Example:
    >>> normal = bl.distributions.Normal(loc=0.0, scale=[1.0, 2.0])
    >>> normal.batch_shape
    (2,)
    >>> [round(float(p), 4) for p in normal.log_prob(0.0)]
    [-0.9189, -1.6121]
    """

    def _sample(self, sample_shape, seed):
        # Not by way of a standard sample: it is what every random weight is drawn by.
        shape = self._sample_shape(sample_shape)
        noise = keras.random.normal(shape, dtype=self.dtype, seed=seed)
        return self.loc + self.scale * noise

    def _standard_log_prob(self, z):
        return -0.5 * ops.square(z) - HALF_LOG_2_PI

    def _standard_cdf(self, z):
        return 0.5 * ops.erfc(-z / math.sqrt(2.0))

    def _log_cdf(self, value):
        return backend.log_ndtr(self._standardize(value))

    def _log_survival(self, value):
        return backend.log_ndtr(-self._standardize(value))

    def _log_interval(self, low, high):
        # Both sides cancel in a bin much narrower than the scale: there the density
        # at its centre, with the midpoint rule's next term, is exact to rounding.
        width = (high - low) / self.scale
        centre = self._standardize(0.5 * (low + high))
        narrow = width * ops.maximum(1.0, ops.abs(centre)) < 0.03
        z, h = ops.where(narrow, centre, 0.0), ops.where(narrow, width, 1.0)
        density = self._standard_log_prob(z) + ops.log(h)
        density = density + ops.log1p(ops.square(h) * (ops.square(z) - 1.0) / 24.0)
        return ops.where(narrow, density, super()._log_interval(low, high))

    def _standard_quantile(self, probability):
        return backend.ndtri(probability)

    def _standard_variance(self):
        return 1.0

    def _standard_entropy(self):
        return 0.5 + HALF_LOG_2_PI
