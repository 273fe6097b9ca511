"""Covariances that do not depend on distances."""

from keras import ops

from bayesian_layers.covariances.covariance import Covariance, register
from bayesian_layers.covariances.products import is_diagonal
from bayesian_layers.distributions import shapes


class Amplitude(Covariance):
    """Base of covariances with the same variance, amplitude**2, everywhere.

    Args:
        amplitude: The standard deviation of the function. Defaults to 1.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        **kwargs: As in `bl.covariances.Covariance`.
    """

    def __init__(self, amplitude=1.0, *, amplitude_regularizer=None, **kwargs):
        super().__init__(**kwargs)
        self.declare("amplitude", amplitude, amplitude_regularizer)

    def variances(self, x, *, amplitude, **others):
        """Returns amplitude**2."""
        variance = ops.square(amplitude)[..., None]
        return ops.broadcast_to(variance, (*self._batch(x), ops.shape(x)[-2]))


@register
class Constant(Amplitude):
    """Functions that are one unknown number: k = amplitude**2.

    Args:
        amplitude: The standard deviation of the number. Defaults to 1.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.Constant(2.0)
    >>> ops.convert_to_numpy(cov(np.ones((1, 3)), np.ones((2, 3)))).tolist()
    [[4.0, 4.0]]
    """

    def matrix(self, x, z, amplitude):
        """Returns amplitude**2."""
        z = x if z is None else z
        batch = shapes.broadcast(self._batch(x), self._batch(z))
        variance = ops.square(amplitude)[..., None, None]
        return ops.broadcast_to(variance, (*batch, ops.shape(x)[-2], ops.shape(z)[-2]))

    def features(self, num_features, seed, amplitude):
        """Returns the amplitude; nothing is random."""
        amplitude = amplitude[..., None, None]

        def phi(x):
            shape = (*self._batch(x), ops.shape(x)[-2], num_features)
            return ops.broadcast_to(amplitude, shape)

        return phi


@register
class White(Amplitude):
    """Independent noise at each row of the inputs: k = amplitude**2 [i = j].

    `cov(x)` is the diagonal matrix amplitude**2 I. `cov(x, z)` is zero: the rows of
    two arrays are different observations, also where they are equal.

    Args:
        amplitude: The standard deviation of the noise. Defaults to 1.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.White(2.0)
    >>> ops.convert_to_numpy(cov(np.ones((2, 3)))).tolist()
    [[4.0, 0.0], [0.0, 4.0]]
    """

    def matrix(self, x, z, amplitude):
        """Returns amplitude**2 I, or zeros."""
        if z is None:
            size = ops.shape(x)[-2]
            variance = ops.square(amplitude)[..., None, None]
            diagonal = ops.broadcast_to(variance, (*self._batch(x), size, size))
            return ops.where(is_diagonal(size), diagonal, 0.0)
        batch = shapes.broadcast(self._batch(x), self._batch(z))
        shape = (*batch, ops.shape(x)[-2], ops.shape(z)[-2])
        return ops.zeros(shape, dtype=self.precision)
