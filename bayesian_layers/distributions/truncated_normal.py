"""The truncated normal distribution."""

import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import HALF_LOG_2_PI
from bayesian_layers.distributions.normal import Normal


@register
class TruncatedNormal(Distribution):
    """The normal distribution, given that the value lies in an interval.

    p(x) = Normal(x; loc, scale) / Z for low <= x <= high,
    where Z is the normal probability of the interval.

    Everything is computed from logarithms of tail probabilities, so that an interval
    far out in a tail is as good as any other. Samples are differentiable with respect
    to all four parameters.

    Args:
        loc: The mean of the normal distribution, real.
        scale: The standard deviation of the normal distribution, positive.
        low: The lower end, may be `-inf`.
        high: The upper end, above `low`, may be `inf`.

    Example:
    >>> truncated = bl.distributions.TruncatedNormal(0.0, 1.0, low=0.0, high=np.inf)
    >>> round(float(truncated.mean()), 4)
    0.7979
    """

    parameters = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "low": constraints.real,
        "high": constraints.real,
    }

    def __init__(self, loc, scale, low, high):
        super().__init__(loc=loc, scale=scale, low=low, high=high)

    def _validate(self):
        super()._validate()
        self._validate_order("low", "high")

    @property
    def support(self):
        """The interval."""
        return constraints.Interval(self.low, self.high)

    def _normal(self):
        return Normal.rebuild({"loc": self.loc, "scale": self.scale})

    def _log_mass(self):
        return self._normal()._log_interval(*self._finite_ends())

    def _finite_ends(self):
        """The ends, moved to where the normal has no mass left that could be told."""
        reach = 40.0 * self.scale
        low = ops.maximum(self.low, ops.minimum(self.loc, self.high) - reach)
        high = ops.minimum(self.high, ops.maximum(self.loc, self.low) + reach)
        return low, high

    def _sample(self, sample_shape, seed):
        u = noise.uniform(self._sample_shape(sample_shape), self.dtype, seed)
        return self.support.project(self._quantile(u))

    def _log_prob(self, value):
        return self._normal()._log_prob(value) - self._log_mass()

    def _cdf(self, value):
        value = self.support.project(value)
        low, _ = self._finite_ends()
        inside = value > low
        log_part = self._normal()._log_interval(
            low, ops.where(inside, value, low + self.scale)
        )
        part = ops.exp(ops.minimum(log_part - self._log_mass(), 0.0))
        return ops.where(inside, part, 0.0)

    def _quantile(self, probability):
        # Solved in the lower tail; an interval above the mean is mirrored into it.
        low, high = self._finite_ends()
        a, b = (low - self.loc) / self.scale, (high - self.loc) / self.scale
        mirror = a + b > 0.0
        a, b = ops.where(mirror, -b, a), ops.where(mirror, -a, b)
        p = ops.where(mirror, 1.0 - probability, probability)
        log_p = ops.logaddexp(
            ops.log1p(-p) + backend.log_ndtr(a), ops.log(p) + backend.log_ndtr(b)
        )
        z = _inverse_log_ndtr(log_p)
        return self.loc + self.scale * ops.where(mirror, -z, z)

    def _end_terms(self):
        """Density over mass at both ends, and the same times the standardized end."""
        log_mass = self._log_mass()
        densities, moments = [], []
        for end in (self.low, self.high):
            finite = ops.isfinite(end)
            z = ops.where(
                finite, (ops.where(finite, end, self.loc) - self.loc) / self.scale, 0.0
            )
            ratio = ops.exp(-0.5 * ops.square(z) - HALF_LOG_2_PI - log_mass)
            densities.append(ops.where(finite, ratio, 0.0))
            moments.append(z * densities[-1])
        return densities, moments

    def _mean(self):
        (low, high), _ = self._end_terms()
        return self.loc + self.scale * (low - high)

    def _variance(self):
        (low, high), (low_z, high_z) = self._end_terms()
        return ops.square(self.scale) * (1.0 + low_z - high_z - ops.square(low - high))

    def _mode(self):
        return self.support.project(self.loc)

    def _entropy(self):
        _, (low_z, high_z) = self._end_terms()
        return (
            0.5
            + HALF_LOG_2_PI
            + ops.log(self.scale)
            + self._log_mass()
            + 0.5 * (low_z - high_z)
        )


def _inverse_log_ndtr(log_p):
    """The z with log_ndtr(z) = log_p, for log_p <= log(1/2) or a little above."""
    fixed = ops.stop_gradient(log_p)
    direct = backend.ndtri(ops.exp(ops.maximum(fixed, -10.0)))
    z = -ops.sqrt(ops.maximum(-2.0 * fixed - np.log(2.0 * np.pi * 20.0), 1.0))
    for _ in range(4):
        z = z - _newton_step(z, fixed)
    z = ops.stop_gradient(ops.where(fixed > -10.0, direct, z))
    # One more step, the only one that is differentiated: its derivative with respect
    # to log_p is that of the inverse function.
    return z - _newton_step(z, log_p)


def _newton_step(z, log_p):
    log_cdf = backend.log_ndtr(z)
    slope = ops.exp(-0.5 * ops.square(z) - HALF_LOG_2_PI - log_cdf)
    return (log_cdf - log_p) / slope
