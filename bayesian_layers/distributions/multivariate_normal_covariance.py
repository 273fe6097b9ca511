"""The multivariate normal distribution by its covariance matrix."""

import numpy as np
from keras import ops

from bayesian_layers import linalg
from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.multivariate_normal import MultivariateNormal
from bayesian_layers.distributions.normal import Normal


@register
class MultivariateNormalFullCovariance(MultivariateNormal):
    """The multivariate normal distribution with any covariance, given as a matrix.

    x = loc + L @ z, with standard normal z and L L^T = covariance_matrix

    The matrix is factorized only where that is needed, for densities and samples; mean,
    variance and `marginal` read it as it is. A matrix that is singular but for rounding
    is factorized with a jitter, as in `bl.linalg.cholesky`.

    Args:
        loc: The mean, of shape `[..., k]`.
        covariance_matrix: Symmetric and positive definite, of shape `[..., k, k]`.

    Example:
    >>> normal = bl.distributions.MultivariateNormalFullCovariance(
    ...     [0.0, 0.0], [[1.0, 0.5], [0.5, 4.0]]
    ... )
    >>> [round(float(v), 4) for v in normal.variance()]
    [1.0, 4.0]
    """

    parameters = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.symmetric,
    }

    def __init__(self, loc, covariance_matrix):
        super().__init__(loc=loc, covariance_matrix=covariance_matrix)

    def _tril(self):
        tril = linalg.cholesky(self.covariance_matrix)
        return linalg.check_factor(tril, "covariance_matrix")

    def _sample(self, sample_shape, seed):
        z = noise.normal(self._sample_shape(sample_shape), self.dtype, seed)
        return self.loc + ops.squeeze(self._tril() @ z[..., None], axis=-1)

    def _squared_distance(self, deviation):
        whitened = linalg.solve_lower_vectors(self._tril(), deviation)
        return ops.sum(ops.square(whitened), axis=-1)

    def _squares(self, columns):
        whitened = linalg.solve_lower(self._tril(), columns)
        return ops.sum(ops.square(whitened), axis=(-2, -1))

    def _root(self):
        return self._tril()

    def _half_log_det(self):
        return linalg.half_log_det(self._tril())

    def _variance(self):
        variance = ops.diagonal(self.covariance_matrix, axis1=-2, axis2=-1)
        # Rounding may leave less than nothing, of which there is no square root.
        return ops.maximum(variance, float(np.finfo(self.dtype).tiny))

    def covariance(self):
        """The covariance matrix, of shape `[..., k, k]`."""
        size = self.event_shape[0]
        shape = (*self._dynamic_batch_shape(), size, size)
        return ops.broadcast_to(self.covariance_matrix, shape)

    def marginal(self):
        """The distribution of each element by itself, a `Normal` `[..., k]`."""
        return Normal.rebuild({"loc": self.mean(), "scale": self.stddev()})
