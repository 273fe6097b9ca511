"""The multivariate normal distributions: three forms of the covariance."""

from keras import ops

from bayesian_layers import linalg
from bayesian_layers.distributions import constraints, noise, shapes
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import HALF_LOG_2_PI


class MultivariateNormal(Distribution):
    """Base of the multivariate normal distributions.

    log p(x) = -(|L^-1 (x - loc)|**2 + k log(2 pi)) / 2 - log det L,
    with covariance L L^T and k the length of `loc`. A subclass knows L.
    """

    support = constraints.real_vector

    @property
    def event_shape(self):
        """`(k,)`."""
        sizes = [
            shapes.static(value)[-self.parameters[name].event_rank :][:1]
            for name, value in self._given().items()
        ]
        return shapes.broadcast(*sizes)

    def _validate(self):
        super()._validate()
        sizes = {
            name: shapes.static(value)[-self.parameters[name].event_rank :]
            for name, value in self._given().items()
        }
        known = {size[0] for size in sizes.values()} - {1, None}
        square = all(
            size[0] == size[1] or None in size
            for name, size in sizes.items()
            if self.parameters[name] is constraints.lower_triangular
        )
        if len(known) > 1 or not square:
            received = ", ".join(
                f"{name}.shape={shapes.static(value)}"
                for name, value in self._given().items()
            )
            raise ValueError(
                f"{type(self).__name__} expects parameters of vectors of one length k. "
                f"Received: {received}"
            )

    def log_prob(self, value):
        """Log of the density."""
        return self._log_prob(self._standardize_value(value))

    def _log_prob(self, value):
        return (
            -0.5 * self._squared_distance(value - self.loc)
            - self.event_shape[0] * HALF_LOG_2_PI
            - self._half_log_det()
        )

    def _mean(self):
        return self.loc

    def _mode(self):
        return self.loc

    def _entropy(self):
        return self.event_shape[0] * (0.5 + HALF_LOG_2_PI) + self._half_log_det()

    def _squared_distance(self, deviation):
        """deviation^T covariance^-1 deviation, of shape `[...]`."""
        raise NotImplementedError

    def _squares(self, columns):
        """trace(columns^T covariance^-1 columns), for columns `[..., k, m]`."""
        raise NotImplementedError

    def _root(self):
        """A matrix R `[..., k, m]` with covariance R R^T."""
        raise NotImplementedError

    def _half_log_det(self):
        """Half of the log-determinant of the covariance, of shape `[...]`."""
        raise NotImplementedError

    def covariance(self):
        """The covariance matrix, of shape `[..., k, k]`."""
        raise NotImplementedError


@register
class MultivariateNormalDiag(MultivariateNormal):
    """The multivariate normal distribution with independent elements.

    x = loc + scale_diag * z, with standard normal z

    Args:
        loc: The mean, of shape `[..., k]`.
        scale_diag: The standard deviations, positive, of shape `[..., k]`.

    Example:
    >>> normal = bl.distributions.MultivariateNormalDiag([0.0, 0.0], [1.0, 2.0])
    >>> round(float(normal.log_prob([0.0, 0.0])), 4)
    -2.531
    """

    parameters = {
        "loc": constraints.real_vector,
        "scale_diag": constraints.positive_vector,
    }

    def __init__(self, loc, scale_diag):
        super().__init__(loc=loc, scale_diag=scale_diag)

    def _sample(self, sample_shape, seed):
        z = noise.normal(self._sample_shape(sample_shape), self.dtype, seed)
        return self.loc + self.scale_diag * z

    def _squared_distance(self, deviation):
        return ops.sum(ops.square(deviation / self.scale_diag), axis=-1)

    def _squares(self, columns):
        whitened = columns / self.scale_diag[..., None]
        return ops.sum(ops.square(whitened), axis=(-2, -1))

    def _root(self):
        scale = ops.broadcast_to(self.scale_diag, self._sample_shape(()))
        return scale[..., None] * ops.eye(self.event_shape[0], dtype=self.dtype)

    def _half_log_det(self):
        scale = ops.broadcast_to(self.scale_diag, self._sample_shape(()))
        return ops.sum(ops.log(scale), axis=-1)

    def _variance(self):
        return ops.square(self.scale_diag)

    def covariance(self):
        """The covariance matrix, of shape `[..., k, k]`."""
        variance = self.variance()
        return variance[..., None] * ops.eye(self.event_shape[0], dtype=self.dtype)


@register
class MultivariateNormalTriL(MultivariateNormal):
    """The multivariate normal distribution with any covariance, by its Cholesky factor.

    x = loc + scale_tril @ z, with standard normal z

    Args:
        loc: The mean, of shape `[..., k]`.
        scale_tril: Lower triangular with positive diagonal, of shape `[..., k, k]`;
            the covariance is `scale_tril @ scale_tril^T`.

    Example:
    >>> normal = bl.distributions.MultivariateNormalTriL(
    ...     [0.0, 0.0], [[1.0, 0.0], [0.5, 2.0]]
    ... )
    >>> [round(float(v), 4) for v in normal.variance()]
    [1.0, 4.25]
    """

    parameters = {
        "loc": constraints.real_vector,
        "scale_tril": constraints.lower_triangular,
    }

    def __init__(self, loc, scale_tril):
        super().__init__(loc=loc, scale_tril=scale_tril)

    def _sample(self, sample_shape, seed):
        z = noise.normal(self._sample_shape(sample_shape), self.dtype, seed)
        return self.loc + ops.squeeze(self.scale_tril @ z[..., None], axis=-1)

    def _squared_distance(self, deviation):
        whitened = linalg.solve_lower_vectors(self.scale_tril, deviation)
        return ops.sum(ops.square(whitened), axis=-1)

    def _squares(self, columns):
        whitened = linalg.solve_lower(self.scale_tril, columns)
        return ops.sum(ops.square(whitened), axis=(-2, -1))

    def _root(self):
        return self.scale_tril

    def _half_log_det(self):
        return linalg.half_log_det(self.scale_tril)

    def _variance(self):
        return ops.sum(ops.square(self.scale_tril), axis=-1)

    def covariance(self):
        """The covariance matrix, of shape `[..., k, k]`."""
        return self.scale_tril @ ops.swapaxes(self.scale_tril, -1, -2)


@register
class MultivariateNormalLowRank(MultivariateNormal):
    """The multivariate normal distribution whose covariance is diagonal plus low rank.

    x = loc + sqrt(cov_diag_factor) * z + cov_perturb_factor @ w,
    with standard normal z and w: the covariance is D + W W^T. Density and samples cost
    O(k r**2) for rank r, by the Woodbury identity and the matrix determinant lemma.

    Args:
        loc: The mean, of shape `[..., k]`.
        cov_diag_factor: The diagonal D of the covariance, positive, `[..., k]`.
        cov_perturb_factor: The factor W, of shape `[..., k, r]`.

    Example:
    >>> normal = bl.distributions.MultivariateNormalLowRank(
    ...     [0.0, 0.0], [1.0, 1.0], [[1.0], [2.0]]
    ... )
    >>> [round(float(v), 4) for v in normal.variance()]
    [2.0, 5.0]
    """

    parameters = {
        "loc": constraints.real_vector,
        "cov_diag_factor": constraints.positive_vector,
        "cov_perturb_factor": constraints.real_matrix,
    }

    def __init__(self, loc, cov_diag_factor, cov_perturb_factor):
        super().__init__(
            loc=loc,
            cov_diag_factor=cov_diag_factor,
            cov_perturb_factor=cov_perturb_factor,
        )

    @property
    def rank(self):
        """The number r of columns of the factor."""
        return shapes.static(self._arguments["cov_perturb_factor"])[-1]

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        diagonal_seed, factor_seed = noise.split(seed, 2)
        z = noise.normal(shape, self.dtype, diagonal_seed)
        w = noise.normal((*shape[:-1], self.rank), self.dtype, factor_seed)
        low_rank = ops.squeeze(self.cov_perturb_factor @ w[..., None], axis=-1)
        return self.loc + ops.sqrt(self.cov_diag_factor) * z + low_rank

    def _scaled_factor(self):
        """D^(-1/2) W, of shape `[..., k, r]`."""
        return self.cov_perturb_factor / ops.sqrt(self.cov_diag_factor)[..., None]

    def _capacitance_tril(self):
        """The Cholesky factor of I + W^T D^-1 W, of shape `[..., r, r]`."""
        factor = self._scaled_factor()
        gram = ops.swapaxes(factor, -1, -2) @ factor
        return linalg.cholesky(gram + ops.eye(self.rank, dtype=self.dtype))

    def _squared_distance(self, deviation):
        whitened = deviation / ops.sqrt(self.cov_diag_factor)
        projected = ops.swapaxes(self._scaled_factor(), -1, -2) @ whitened[..., None]
        tril = self._capacitance_tril()
        correction = linalg.solve_lower_vectors(tril, projected[..., 0])
        return ops.sum(ops.square(whitened), axis=-1) - ops.sum(
            ops.square(correction), axis=-1
        )

    def _squares(self, columns):
        whitened = columns / ops.sqrt(self.cov_diag_factor)[..., None]
        projected = ops.swapaxes(self._scaled_factor(), -1, -2) @ whitened
        correction = linalg.solve_lower(self._capacitance_tril(), projected)
        return ops.sum(ops.square(whitened), axis=(-2, -1)) - ops.sum(
            ops.square(correction), axis=(-2, -1)
        )

    def _root(self):
        shape = (*self._sample_shape(()), self.rank)
        identity = ops.eye(self.event_shape[0], dtype=self.dtype)
        diagonal = ops.sqrt(self.cov_diag_factor)[..., None] * identity
        factor = ops.broadcast_to(self.cov_perturb_factor, shape)
        diagonal = ops.broadcast_to(diagonal, (*shape[:-1], shape[-2]))
        return ops.concatenate([diagonal, factor], axis=-1)

    def _half_log_det(self):
        variance = ops.broadcast_to(self.cov_diag_factor, self._sample_shape(()))
        half_log_det = 0.5 * ops.sum(ops.log(variance), axis=-1)
        return half_log_det + linalg.half_log_det(self._capacitance_tril())

    def _variance(self):
        return self.cov_diag_factor + ops.sum(
            ops.square(self.cov_perturb_factor), axis=-1
        )

    def covariance(self):
        """The covariance matrix, of shape `[..., k, k]`."""
        factor = self.cov_perturb_factor
        identity = ops.eye(self.event_shape[0], dtype=self.dtype)
        return self.cov_diag_factor[..., None] * identity + factor @ ops.swapaxes(
            factor, -1, -2
        )
