"""Student's t distribution."""

import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import LOG_2, log1p_square
from bayesian_layers.distributions.incomplete import betainc
from bayesian_layers.distributions.inverse import (
    at_ends,
    beta_quantile,
    tails,
    with_implicit_gradient,
)
from bayesian_layers.distributions.location_scale import LocationScale
from bayesian_layers.distributions.stirling import betaln, digamma_rest


@register
class StudentT(LocationScale):
    """Student's t distribution, with location and scale.

    p(x) = (1 + z**2 / df)**(-(df + 1) / 2) / (scale * sqrt(df) * B(1/2, df/2)),
    where z = (x - loc) / scale.

    The mean is NaN for `df <= 1`; the variance is infinite for `1 < df <= 2` and NaN
    below.

    Args:
        df: Degrees of freedom, positive.
        loc: The median, real.
        scale: The scale, positive. Not the standard deviation.

    Example:
    >>> student = bl.distributions.StudentT(df=4.0, loc=0.0, scale=1.0)
    >>> round(float(student.variance()), 4)
    2.0
    """

    parameters = {"df": constraints.positive, **LocationScale.parameters}
    draws_gamma_noise = True

    def __init__(self, df, loc, scale):
        Distribution.__init__(self, df=df, loc=loc, scale=scale)

    def _standard_sample(self, shape, seed):
        normal_seed, gamma_seed = noise.split(seed, 2)
        z = noise.normal(shape, self.dtype, normal_seed)
        log_chi_square = LOG_2 + noise.log_gamma(
            shape, 0.5 * self.df, self.dtype, gamma_seed
        )
        return z * ops.exp(0.5 * (ops.log(self.df) - log_chi_square))

    def _standard_log_prob(self, z):
        half = 0.5 * self.df
        return (
            -(half + 0.5) * log1p_square(z / ops.sqrt(self.df))
            - 0.5 * ops.log(self.df)
            - betaln(half, 0.5 * ops.ones_like(half))
        )

    def _standard_cdf(self, z):
        tail = 0.5 * self._two_sided_tail(z)
        return ops.where(z < 0.0, tail, 1.0 - tail)

    def _two_sided_tail(self, z):
        half, square = 0.5 * self.df, ops.square(z)
        total = self.df + square
        return betainc(half, 0.5 * ops.ones_like(half), self.df / total, square / total)

    def _standard_quantile(self, probability):
        # df / (df + z^2) is beta distributed.
        lower, upper = tails(probability)
        half = 0.5 * self.df
        median = ops.equal(lower, upper)
        two_sided = ops.where(median, 0.5, 2.0 * ops.minimum(lower, upper))
        inner = ops.where(median, 0.5, ops.abs(upper - lower))
        log_ratio = beta_quantile(half, 0.5 * ops.ones_like(half), two_sided, inner)
        z = ops.where(median, 0.0, ops.sign(lower - upper) * ops.exp(-0.5 * log_ratio))
        z = at_ends(z, probability, -np.inf, np.inf)
        return with_implicit_gradient(
            z, probability, self._standard_cdf, self._standard_log_prob
        )

    def _log_survival(self, value):
        return ops.log(self._standard_cdf(-self._standardize(value)))

    def _mean(self):
        return ops.where(self.df > 1.0, self.loc, np.nan)

    def _standard_variance(self):
        finite = self.df / ops.where(self.df > 2.0, self.df - 2.0, 1.0)
        variance = ops.where(self.df > 2.0, finite, np.inf)
        return ops.where(self.df > 1.0, variance, np.nan)

    def _standard_entropy(self):
        half = 0.5 * self.df
        # digamma(half + 1/2) - digamma(half), which is small for many degrees.
        difference = (
            ops.log1p(0.5 / half) + digamma_rest(half + 0.5) - digamma_rest(half)
        )
        return (
            (half + 0.5) * difference
            + 0.5 * ops.log(self.df)
            + betaln(half, 0.5 * ops.ones_like(half))
        )
