"""Covariances that are functions of a distance."""

from typing import Any

from keras import ops

from bayesian_layers import seeds
from bayesian_layers.covariances.covariance import register
from bayesian_layers.covariances.features import random_waves
from bayesian_layers.covariances.products import centred, squared_distances
from bayesian_layers.covariances.simple import Amplitude


class Radial(Amplitude):
    """Base of the covariances amplitude**2 g(r**2), r the distance / lengthscale.

    r**2 is the sum over dimensions of (x_d - z_d)**2 / lengthscale_d**2. A subclass
    writes g as `profile(squares, **shape)`, where `shape` are hyperparameters other
    than these two, and `scales(num_features, seed, **shape)`: g is the mixture of
    exp(-s**2 r**2 / 2) over the distribution of these random s.

    Args:
        amplitude: The standard deviation of the function. Defaults to 1.
        lengthscale: The distance over which the function changes: a number, or an
            array with one for each dimension. Defaults to 1.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        **kwargs: As in `bl.covariances.Covariance`.
    """

    # Where a subclass takes the root of a squared distance, that of zero needs to have
    # a derivative.
    smallest = 0.0

    def __init__(
        self,
        amplitude=1.0,
        lengthscale=1.0,
        *,
        ard=False,
        lengthscale_regularizer=None,
        **kwargs,
    ):
        super().__init__(amplitude, **kwargs)
        self.ard = bool(ard)
        self.declare(
            "lengthscale", lengthscale, lengthscale_regularizer, per_dimension=self.ard
        )

    def profile(self, squares: Any, **shape: Any) -> Any:
        """Returns g, elementwise, of squared distances in units of the lengthscale."""
        raise NotImplementedError

    def scales(self, num_features: int, seed: Any, **shape: Any) -> Any:
        """Returns random scales of frequencies, `[*batch_shape, num_features]`."""
        raise NotImplementedError

    def scaled(self, x: Any, lengthscale: Any) -> Any:
        """Returns inputs `[..., n, D]` in units of the lengthscale."""
        return x / self.over_rows("lengthscale", lengthscale)

    def matrix(self, x, z, *, amplitude, lengthscale, **shape):
        """Returns amplitude**2 g(r**2)."""
        x, z = centred(x, z)
        x = self.scaled(x, lengthscale)
        z = None if z is None else self.scaled(z, lengthscale)
        squares = squared_distances(x, z, self.smallest)
        variance = ops.square(self.over_rows("amplitude", amplitude))
        return variance * self.profile(squares, **shape)

    def frequency_scales(self, num_features: int, seed: Any = None) -> Any:
        """Returns random scales s of the spectral density.

        The frequencies of the covariance are s z / lengthscale, with standard normal z
        of as many dimensions as the inputs have.

        Args:
            num_features: How many.
            seed: As in `keras.random`.

        Returns:
            A tensor of shape `[*batch_shape, num_features]`.

        Example:
        >>> cov = bl.covariances.ExponentiatedQuadratic()
        >>> cov.build((None, 3))
        >>> ops.convert_to_numpy(cov.frequency_scales(2, seed=1)).tolist()
        [1.0, 1.0]
        """
        values = self._own_hyperparameters()
        del values["amplitude"], values["lengthscale"]
        return self.scales(num_features, seed, **values)

    def features(self, num_features, seed, *, amplitude, lengthscale, **shape):
        """Returns amplitude sqrt(2) cos(frequency x + phase), both random."""
        scale_seed, wave_seed = seeds.split(seed, 2)
        scales = self.scales(num_features, scale_seed, **shape)
        waves = random_waves(scales, self.num_dims, self.precision, wave_seed)
        amplitude = self.over_rows("amplitude", amplitude)
        return lambda x: amplitude * waves(self.scaled(x, lengthscale))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "ard": self.ard}


@register
class ExponentiatedQuadratic(Radial):
    """Very smooth functions: k = amplitude**2 exp(-r**2 / 2).

    r is the distance of x and z in units of the lengthscale. Also known as the squared
    exponential, Gaussian or RBF kernel; by name: `"exponentiated_quadratic"`. The
    functions have derivatives of all orders.

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
    >>> cov = bl.covariances.ExponentiatedQuadratic(amplitude=2.0, ard=True)
    >>> x = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> print(ops.convert_to_numpy(cov(x)).round(4))
    [[4.     2.4261]
     [2.4261 4.    ]]
    >>> cov
    ExponentiatedQuadratic(amplitude=2., lengthscale=[1., 1.])
    """

    def profile(self, squares):
        """Returns exp(-r**2 / 2)."""
        return ops.exp(-0.5 * squares)

    def scales(self, num_features, seed):
        """Returns ones."""
        return ops.ones((*self.batch_shape, num_features), dtype=self.precision)
