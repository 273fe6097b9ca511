"""Covariances of rougher functions."""

import math

from keras import ops

from bayesian_layers.covariances.covariance import register
from bayesian_layers.covariances.radial import Radial
from bayesian_layers.distributions import noise


class Matern(Radial):
    """Base of the Matern covariances of half-integer smoothness nu.

    A subclass states `twice_smoothness`, 2 nu, and writes g as `decay(r)`, where r is
    the distance in units of the lengthscale, times sqrt(2 nu).

    Arguments as in `bl.covariances.ExponentiatedQuadratic`.
    """

    twice_smoothness = None
    smallest = 1e-36

    def decay(self, r):
        """Returns g, elementwise, of scaled distances."""
        raise NotImplementedError

    def profile(self, squares):
        """Returns g, elementwise."""
        return self.decay(math.sqrt(self.twice_smoothness) * ops.sqrt(squares))

    def scales(self, num_features, seed):
        """Returns 1 / sqrt(chi2 / (2 nu)): frequencies have Student's t."""
        size = (self.twice_smoothness, *self.batch_shape, num_features)
        squares = ops.square(noise.normal(size, self.precision, seed))
        # The cosine of a number without end would be NaN.
        return ops.rsqrt(ops.maximum(ops.mean(squares, axis=0), 1e-12))


@register
class Matern12(Matern):
    """Continuous functions that are nowhere smooth: k = amplitude**2 exp(-r).

    r is the distance of x and z in units of the lengthscale. Also known as the
    exponential kernel, or in one dimension as the Ornstein-Uhlenbeck process. By name:
    `"matern12"`.

    Args:
        amplitude: The standard deviation of the function. Defaults to 1.
        lengthscale: The distance over which the function changes: a number, or an
            array with one for each dimension. Defaults to 1.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.Matern12(lengthscale=2.0)
    >>> print(ops.convert_to_numpy(cov(np.array([[0.0]]), np.array([[2.0]]))).round(4))
    [[0.3679]]
    """

    twice_smoothness = 1

    def decay(self, r):
        """Returns exp(-r)."""
        return ops.exp(-r)


@register
class Matern32(Matern):
    """Functions with one derivative: k = amplitude**2 (1 + s) exp(-s), s = sqrt(3) r.

    r is the distance of x and z in units of the lengthscale. By name: `"matern32"`.

    Args:
        amplitude: The standard deviation of the function. Defaults to 1.
        lengthscale: The distance over which the function changes: a number, or an
            array with one for each dimension. Defaults to 1.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.Matern32()
    >>> print(ops.convert_to_numpy(cov(np.array([[0.0]]), np.array([[1.0]]))).round(4))
    [[0.4834]]
    """

    twice_smoothness = 3

    def decay(self, r):
        """Returns (1 + r) exp(-r)."""
        return (1.0 + r) * ops.exp(-r)


@register
class Matern52(Matern):
    """Functions with two derivatives.

    k = amplitude**2 (1 + s + s**2 / 3) exp(-s), with s = sqrt(5) r, where r is the
    distance of x and z in units of the lengthscale. By name: `"matern52"`.

    Args:
        amplitude: The standard deviation of the function. Defaults to 1.
        lengthscale: The distance over which the function changes: a number, or an
            array with one for each dimension. Defaults to 1.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.Matern52()
    >>> print(ops.convert_to_numpy(cov(np.array([[0.0]]), np.array([[1.0]]))).round(4))
    [[0.524]]
    """

    twice_smoothness = 5

    def decay(self, r):
        """Returns (1 + r + r**2 / 3) exp(-r)."""
        return (1.0 + r + ops.square(r) / 3.0) * ops.exp(-r)


@register
class RationalQuadratic(Radial):
    """Functions that change over many lengths at once.

    k = amplitude**2 (1 + r**2 / (2 a))**(-a), where r is the distance of x and z in
    units of the lengthscale, and a the concentration: a mixture of
    `ExponentiatedQuadratic` covariances with r**2 multiplied by t ~ Gamma(a, a), which
    it tends to for large a. By name: `"rational_quadratic"`.

    Args:
        amplitude: The standard deviation of the function. Defaults to 1.
        lengthscale: The distance over which the function changes: a number, or an
            array with one for each dimension. Defaults to 1.
        concentration: The concentration a of the mixture. Defaults to 1.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        concentration_regularizer: Penalty on the concentration: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.RationalQuadratic(concentration=0.5)
    >>> print(ops.convert_to_numpy(cov(np.array([[0.0]]), np.array([[1.0]]))).round(4))
    [[0.7071]]
    """

    def __init__(
        self,
        amplitude=1.0,
        lengthscale=1.0,
        concentration=1.0,
        *,
        concentration_regularizer=None,
        **kwargs,
    ):
        super().__init__(amplitude, lengthscale, **kwargs)
        self.declare("concentration", concentration, concentration_regularizer)

    def profile(self, squares, concentration):
        """Returns (1 + r**2 / (2 a))**(-a)."""
        a = self.over_rows("concentration", concentration)
        return ops.exp(-a * ops.log1p(squares / (2.0 * a)))

    def scales(self, num_features, seed, concentration):
        """Returns sqrt(t), with t ~ Gamma(a, a)."""
        size = (*self.batch_shape, num_features)
        a = concentration[..., None]
        log_gamma = noise.log_gamma(size, a, self.precision, seed)
        return ops.exp(0.5 * (log_gamma - ops.log(a)))
