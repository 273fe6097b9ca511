"""Covariances of functions that repeat themselves."""

import math

from keras import ops

from bayesian_layers.covariances.covariance import register
from bayesian_layers.covariances.features import random_phases, random_waves, wave
from bayesian_layers.covariances.products import inner_products, squared_distances
from bayesian_layers.covariances.simple import Amplitude


def _circle(turns):
    """The points on the unit circle after so many turns: cosines, then sines."""
    angle = 2.0 * math.pi * turns
    return ops.concatenate([ops.cos(angle), ops.sin(angle)], axis=-1)


@register
class Periodic(Amplitude):
    """Smooth functions that repeat themselves in each dimension.

    k = amplitude**2 exp(-2 sum_d sin(pi (x_d - z_d) / period_d)**2 / lengthscale_d**2):
    the `ExponentiatedQuadratic` covariance of the points (cos(2 pi x_d / period_d),
    sin(2 pi x_d / period_d)). By name: `"periodic"`.

    Args:
        amplitude: The standard deviation of the function. Defaults to 1.
        lengthscale: How far on the unit circle the function changes: a number, or an
            array with one for each dimension. Defaults to 1.
        period: The period: a number, or an array with one for each dimension. Defaults
            to 1.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        period_regularizer: Penalty on the period: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.Periodic(period=3.0)
    >>> print(ops.convert_to_numpy(cov(np.array([[0.5]]), np.array([[6.5]]))).round(4))
    [[1.]]
    """

    def __init__(
        self,
        amplitude=1.0,
        lengthscale=1.0,
        period=1.0,
        *,
        ard=False,
        lengthscale_regularizer=None,
        period_regularizer=None,
        **kwargs,
    ):
        super().__init__(amplitude, **kwargs)
        self.ard = bool(ard)
        self.declare(
            "lengthscale", lengthscale, lengthscale_regularizer, per_dimension=self.ard
        )
        self.declare("period", period, period_regularizer, per_dimension=False)

    def _embedded(self, x, lengthscale, period):
        """The points on the circles, `[..., n, 2 D]`, in units of the lengthscale."""
        circle = _circle(x / self.over_rows("period", period))
        scale = self.over_rows("lengthscale", lengthscale)
        if ops.shape(scale)[-1] > 1:
            scale = ops.concatenate([scale, scale], axis=-1)
        return circle / scale

    def matrix(self, x, z, *, amplitude, lengthscale, period):
        """Returns amplitude**2 exp(-r**2 / 2), of distances r on the circles."""
        x = self._embedded(x, lengthscale, period)
        z = None if z is None else self._embedded(z, lengthscale, period)
        variance = ops.square(self.over_rows("amplitude", amplitude))
        return variance * ops.exp(-0.5 * squared_distances(x, z))

    def features(self, num_features, seed, *, amplitude, lengthscale, period):
        """Returns the features of the `ExponentiatedQuadratic` on the circles."""
        scales = ops.ones((*self.batch_shape, num_features), dtype=self.precision)
        waves = random_waves(scales, 2 * self.num_dims, self.precision, seed)
        amplitude = self.over_rows("amplitude", amplitude)
        return lambda x: amplitude * waves(self._embedded(x, lengthscale, period))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "ard": self.ard}


@register
class Cosine(Amplitude):
    """Waves of one frequency: k = amplitude**2 cos(2 pi sum_d (x_d - z_d) / period_d).

    By name: `"cosine"`.

    Args:
        amplitude: The standard deviation of the function. Defaults to 1.
        period: The period: a number, or an array with one for each dimension. Defaults
            to 1.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        period_regularizer: Penalty on the period: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.Cosine(period=4.0)
    >>> print(ops.convert_to_numpy(cov(np.array([[1.0]]), np.array([[3.0]]))).round(4))
    [[-1.]]
    """

    def __init__(self, amplitude=1.0, period=1.0, *, period_regularizer=None, **kwargs):
        super().__init__(amplitude, **kwargs)
        self.declare("period", period, period_regularizer, per_dimension=False)

    def _turns(self, x, period):
        """The number of periods from the origin, `[..., n, 1]`."""
        turns = x / self.over_rows("period", period)
        return ops.sum(turns, axis=-1, keepdims=True)

    def matrix(self, x, z, *, amplitude, period):
        """Returns the cosine of a difference, cos a cos b + sin a sin b."""
        x = _circle(self._turns(x, period))
        z = x if z is None else _circle(self._turns(z, period))
        variance = ops.square(self.over_rows("amplitude", amplitude))
        return variance * inner_products(x, z)

    def features(self, num_features, seed, *, amplitude, period):
        """Returns amplitude sqrt(2) cos(2 pi sum_d x_d / period_d + phase)."""
        shape = (*self.batch_shape, 1, num_features)
        phases = random_phases(shape, self.precision, seed)
        amplitude = self.over_rows("amplitude", amplitude)
        return lambda x: (
            amplitude * wave(2.0 * math.pi * self._turns(x, period) + phases)
        )
