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

    def _quadrature(self):
        """Points of the interval and the probability of each, on a new last axis.

        The points are distances from the mode in units of the scale. In the closed
        forms of the moments everything cancels if the interval is narrow or far from
        `loc`; a Gauss-Legendre rule over all that has mass to speak of is exact to
        rounding for any interval.

        Returns:
            The points, their probabilities, minus the log-density at each relative to
            the mode, and the logarithm of the integral of that relative density.
        """
        nodes, weights = np.polynomial.legendre.leggauss(32)
        nodes = ops.convert_to_tensor(nodes, self.dtype)
        weights = ops.convert_to_tensor(weights, self.dtype)
        mode = self._mode()
        distance = (mode - self.loc) / self.scale
        # The relative density is exp(-40) at this distance from the mode.
        size = ops.abs(distance)
        reach = 80.0 / (size + ops.sqrt(ops.square(size) + 80.0))
        low, high = ((end - mode) / self.scale for end in self._finite_ends())
        low, high = ops.maximum(low, -reach), ops.minimum(high, reach)
        half = 0.5 * (high - low)
        points = 0.5 * (low + high)[..., None] + half[..., None] * nodes
        fall = points * (0.5 * points + distance[..., None])
        masses = weights * ops.exp(-fall)
        total = ops.sum(masses, axis=-1)
        return points, masses / total[..., None], fall, ops.log(half * total)

    def _mean(self):
        points, probabilities, _, _ = self._quadrature()
        return self._mode() + self.scale * ops.sum(points * probabilities, axis=-1)

    def _variance(self):
        points, probabilities, _, _ = self._quadrature()
        mean = ops.sum(points * probabilities, axis=-1, keepdims=True)
        square = ops.sum(ops.square(points - mean) * probabilities, axis=-1)
        return ops.square(self.scale) * square

    def _mode(self):
        return self.support.project(self.loc)

    def _entropy(self):
        _, probabilities, fall, log_integral = self._quadrature()
        expected_fall = ops.sum(probabilities * fall, axis=-1)
        return expected_fall + log_integral + ops.log(self.scale)


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
