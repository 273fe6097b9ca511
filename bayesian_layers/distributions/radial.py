"""The radial distribution."""

import math

from keras import ops

from bayesian_layers.distributions import constraints, noise, shapes
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import (
    EULER_GAMMA,
    HALF_LOG_2_PI,
    LOG_2,
    tiny,
)
from bayesian_layers.distributions.kl_divergence import register_kl
from bayesian_layers.distributions.multivariate_normal import MultivariateNormalDiag


@register
class Radial(Distribution):
    """Vectors with a uniform direction and a half-normal length, scaled and shifted.

    x = loc + scale_diag * z / |z| * r, with standard normal z (a vector) and r (a
    number). With u = (x - loc) / scale_diag, k its length and S the surface of the
    unit sphere: p(x) = 2 Normal(|u|; 0, 1) / (S |u|**(k - 1) prod(scale_diag)).

    Args:
        loc: The mean, of shape `[..., k]`.
        scale_diag: The scales, positive, of shape `[..., k]`. The variance of an
            element is the square of its scale, divided by k.

    Example:
    >>> radial = bl.distributions.Radial([0.0, 0.0], [1.0, 2.0])
    >>> [round(float(v), 4) for v in radial.variance()]
    [0.5, 2.0]

    Reference: Farquhar, Osborne and Gal (2020), Radial Bayesian neural networks.
    """

    parameters = {
        "loc": constraints.real_vector,
        "scale_diag": constraints.positive_vector,
    }
    support = constraints.real_vector

    def __init__(self, loc, scale_diag):
        super().__init__(loc=loc, scale_diag=scale_diag)

    @property
    def event_shape(self):
        """`(k,)`."""
        return shapes.broadcast(
            *(shapes.static(v)[-1:] for v in self._given().values())
        )

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        direction_seed, length_seed = noise.split(seed, 2)
        z = noise.normal(shape, self.dtype, direction_seed)
        r = noise.normal((*shape[:-1], 1), self.dtype, length_seed)
        length = ops.sqrt(ops.sum(ops.square(z), axis=-1, keepdims=True))
        return self.loc + self.scale_diag * z / length * r

    def _log_prob(self, value):
        u = (value - self.loc) / self.scale_diag
        square = ops.maximum(ops.sum(ops.square(u), axis=-1), tiny(self.dtype))
        return self._log_prob_of_length(square, ops.log(square))

    def _log_prob_of_length(self, square, log_square):
        """Log of the density, given |u|**2 and its logarithm."""
        (size,) = self.event_shape
        log_surface = LOG_2 + 0.5 * size * math.log(math.pi) - math.lgamma(0.5 * size)
        log_length = LOG_2 - HALF_LOG_2_PI - 0.5 * square
        log_sphere = log_surface + 0.5 * (size - 1) * log_square
        return log_length - log_sphere - self._log_scale()

    def _log_scale(self):
        scale = ops.broadcast_to(self.scale_diag, self._sample_shape(()))
        return ops.sum(ops.log(scale), axis=-1)

    def _expected_log_prob(self):
        """The mean of the log-density under itself.

        |u|**2 has a chi-square distribution of one degree of freedom.
        """
        return self._log_prob_of_length(1.0, -EULER_GAMMA - LOG_2)

    def _mean(self):
        return self.loc

    def _mode(self):
        return self.loc

    def _variance(self):
        return ops.square(self.scale_diag) / self.event_shape[0]


@register_kl(Radial, MultivariateNormalDiag)
def _radial_normal(q, p):
    second_moment = q.variance() + ops.square(q.loc - p.loc)
    square = ops.sum(second_moment / ops.square(p.scale_diag), axis=-1)
    log_volume = p.event_shape[0] * HALF_LOG_2_PI + p._half_log_det()
    return q._expected_log_prob() + 0.5 * square + log_volume
