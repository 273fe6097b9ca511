"""The likelihood of a pattern of points."""

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import Distribution, register


@register
class PointPattern(Distribution):
    """What `bl.layers.PoissonProcess` says of the points that it was called on.

    Its values are intensities at these points, with mean and variance. `log_prob` is of
    how many points of the pattern there are at each, usually one:

    log p(counts)_i = counts_i * E log intensity(x_i) - share,

    whose sum over the pattern is the (expected) log-likelihood of the process. It is
    the density of a pattern, relative to a process of intensity one, and none of
    intensities: there is no `sample`.

    Args:
        log_intensity: The mean of the logarithm of the intensity, at each point.
        intensity: The mean of the intensity.
        spread: The variance of the intensity: zero where the function is known.
        share: The expected number of points in the whole region, divided by the number
            of points of the pattern.
    """

    parameters = {
        "log_intensity": constraints.real,
        "intensity": constraints.positive,
        "spread": constraints.nonnegative,
        "share": constraints.positive,
    }

    def __init__(self, log_intensity, intensity, spread, share):
        super().__init__(
            log_intensity=log_intensity,
            intensity=intensity,
            spread=spread,
            share=share,
        )

    def log_prob(self, value):
        """The term of each point in the log-likelihood of the pattern."""
        value = self._standardize_value(value)
        return value * self.log_intensity - self.share

    def _mean(self):
        return self.intensity

    def _variance(self):
        return self.spread
