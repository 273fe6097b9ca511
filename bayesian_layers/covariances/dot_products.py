"""Covariances that are functions of an inner product."""

import functools
import math
import operator

from keras import ops

from bayesian_layers.covariances.covariance import Covariance, register
from bayesian_layers.covariances.features import random_signs
from bayesian_layers.covariances.products import inner_products, with_diagonal
from bayesian_layers.distributions import noise


def _squared_norms(x):
    return ops.sum(ops.square(x), axis=-1)


def _power(x, exponent):
    """x to a positive integer, with derivatives at zero and for negative numbers."""
    return functools.reduce(operator.mul, [x] * exponent)


@register
class Linear(Covariance):
    """Linear functions with random slopes: k = sum_d amplitude_d**2 x_d z_d.

    For an intercept add a `Constant`. By name: `"linear"`.

    Args:
        amplitude: The standard deviation of the slopes: a number, or an array with one
            for each dimension. Defaults to 1.
        ard: Whether there is one amplitude for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.Linear(2.0)
    >>> ops.convert_to_numpy(cov(np.array([[1.0], [3.0]]))).round(4).tolist()
    [[4.0, 12.0], [12.0, 36.0]]
    """

    def __init__(
        self, amplitude=1.0, *, ard=False, amplitude_regularizer=None, **kwargs
    ):
        super().__init__(**kwargs)
        self.ard = bool(ard)
        self.declare(
            "amplitude", amplitude, amplitude_regularizer, per_dimension=self.ard
        )

    def matrix(self, x, z, amplitude):
        """Returns the inner products of scaled inputs."""
        amplitude = self.over_rows("amplitude", amplitude)
        x = amplitude * x
        return inner_products(x, x if z is None else amplitude * z)

    def variances(self, x, amplitude):
        """Returns the squared norms of scaled inputs."""
        return _squared_norms(self.over_rows("amplitude", amplitude) * x)

    def features(self, num_features, seed, amplitude):
        """Returns sums of the scaled inputs with random signs."""
        shape = (*self.batch_shape, self.num_dims, num_features)
        signs = random_signs(shape, self.precision, seed)
        amplitude = self.over_rows("amplitude", amplitude)
        return lambda x: ops.matmul(amplitude * x, signs)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "ard": self.ard}


class WithBias(Covariance):
    """Base of the covariances of inner products u v + bias**2.

    u and v are x and z in units of the lengthscale.

    Args:
        amplitude: What multiplies the function. Defaults to 1.
        lengthscale: The unit of the inputs: a number, or an array with one for each
            dimension. Defaults to 1.
        bias: A further coordinate of all inputs, after their division by the
            lengthscale. Defaults to 1.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        bias_regularizer: Penalty on the bias: its prior.
        **kwargs: As in `bl.covariances.Covariance`.
    """

    def __init__(
        self,
        amplitude=1.0,
        lengthscale=1.0,
        bias=1.0,
        *,
        ard=False,
        amplitude_regularizer=None,
        lengthscale_regularizer=None,
        bias_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.ard = bool(ard)
        self.declare("amplitude", amplitude, amplitude_regularizer)
        self.declare(
            "lengthscale", lengthscale, lengthscale_regularizer, per_dimension=self.ard
        )
        self.declare("bias", bias, bias_regularizer)

    def _augmented(self, x, lengthscale, bias):
        """The scaled inputs, and the bias as a last column: `[..., n, D + 1]`."""
        x = x / self.over_rows("lengthscale", lengthscale)
        bias = self.over_rows("bias", bias)
        bias = ops.broadcast_to(bias, (*self._batch(x), ops.shape(x)[-2], 1))
        return ops.concatenate([x, bias], axis=-1)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "ard": self.ard}


@register
class Polynomial(WithBias):
    """Polynomials with random coefficients.

    k = amplitude**2 (sum_d x_d z_d / lengthscale_d**2 + bias**2)**degree. By name:
    `"polynomial"`.

    Args:
        amplitude: What multiplies the function. Defaults to 1.
        lengthscale: The unit of the inputs: a number, or an array with one for each
            dimension. Defaults to 1.
        bias: The weight of lower degrees against higher ones. Defaults to 1.
        degree: The degree, a positive integer. Defaults to 2.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        bias_regularizer: Penalty on the bias: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.Polynomial(degree=3)
    >>> print(ops.convert_to_numpy(cov(np.array([[1.0]]), np.array([[2.0]]))).round(4))
    [[27.]]
    """

    def __init__(self, amplitude=1.0, lengthscale=1.0, bias=1.0, *, degree=2, **kwargs):
        super().__init__(amplitude, lengthscale, bias, **kwargs)
        if not isinstance(degree, int) or degree < 1:
            raise ValueError(
                f"`degree` should be a positive integer. Received: degree={degree!r}"
            )
        self.degree = degree

    def matrix(self, x, z, *, amplitude, lengthscale, bias):
        """Returns a power of inner products."""
        x = self._augmented(x, lengthscale, bias)
        z = x if z is None else self._augmented(z, lengthscale, bias)
        variance = ops.square(self.over_rows("amplitude", amplitude))
        return variance * _power(inner_products(x, z), self.degree)

    def variances(self, x, *, amplitude, lengthscale, bias):
        """Returns a power of squared norms."""
        norms = _squared_norms(self._augmented(x, lengthscale, bias))
        return ops.square(amplitude)[..., None] * _power(norms, self.degree)

    def features(self, num_features, seed, *, amplitude, lengthscale, bias):
        """Returns products of `degree` independent features of the inner product.

        Reference: Kar and Karnick (2012), Random feature maps for dot product kernels.
        """
        columns = self.degree * num_features
        shape = (*self.batch_shape, self.num_dims + 1, columns)
        signs = random_signs(shape, self.precision, seed)
        amplitude = self.over_rows("amplitude", amplitude)

        def phi(x):
            factors = ops.matmul(self._augmented(x, lengthscale, bias), signs)
            shape = (*ops.shape(factors)[:-1], self.degree, num_features)
            return amplitude * ops.prod(ops.reshape(factors, shape), axis=-2)

        return phi

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "degree": self.degree}


@register
class ArcCosine(WithBias):
    """Networks of one infinitely wide layer, of the activation max(u, 0)**order.

    k = 2 amplitude**2 E[max(w u, 0)**n max(w v, 0)**n] of standard normal w, where n is
    the order (0: steps), u = (x / lengthscale, bias) and v = (z / lengthscale, bias);
    that is amplitude**2 / pi (|u| |v|)**n J_n(angle between u and v). By name:
    `"arc_cosine"`.

    Args:
        amplitude: What multiplies the function. Defaults to 1.
        lengthscale: The unit of the inputs: a number, or an array with one for each
            dimension. Defaults to 1.
        bias: The standard deviation of the units' biases, beside that of their weights.
            Defaults to 1.
        order: 0, 1 (the default) or 2.
        ard: Whether there is one lengthscale for each dimension, if a number or a
            posterior was given.
        amplitude_regularizer: Penalty on the amplitude: its prior.
        lengthscale_regularizer: Penalty on the lengthscale: its prior.
        bias_regularizer: Penalty on the bias: its prior.
        **kwargs: As in `bl.covariances.Covariance`.

    Example:
    >>> cov = bl.covariances.ArcCosine()
    >>> print(ops.convert_to_numpy(cov(np.array([[1.0]]))).round(4))
    [[2.]]

    Reference: Cho and Saul (2009), Kernel methods for deep learning.
    """

    def __init__(self, amplitude=1.0, lengthscale=1.0, bias=1.0, *, order=1, **kwargs):
        super().__init__(amplitude, lengthscale, bias, **kwargs)
        if order not in (0, 1, 2):
            raise ValueError(f"`order` should be 0, 1 or 2. Received: order={order!r}")
        self.order = order

    def matrix(self, x, z, *, amplitude, lengthscale, bias):
        """Returns amplitude**2 / pi (|u| |v|)**n J_n."""
        u = self._augmented(x, lengthscale, bias)
        v = u if z is None else self._augmented(z, lengthscale, bias)
        lengths = ops.sqrt(_squared_norms(u))[..., :, None]
        lengths = lengths * ops.sqrt(_squared_norms(v))[..., None, :]
        cosine = ops.clip(inner_products(u, v) / lengths, -1.0, 1.0)
        if z is None:
            cosine = with_diagonal(cosine, 1.0)
        variance = ops.square(self.over_rows("amplitude", amplitude)) / math.pi
        angular = self._angular(cosine)
        if self.order == 0:
            return variance * angular
        return variance * _power(lengths, self.order) * angular

    def _angular(self, cosine):
        """J_n, of the cosine of an angle."""
        # The root has no derivative at zero: there the cosine has its maximum, and
        # nothing changes with the inputs.
        sine = ops.sqrt(ops.maximum((1.0 - cosine) * (1.0 + cosine), 1e-36))
        rest = ops.arctan2(sine, -cosine)  # pi - angle
        if self.order == 0:
            return rest
        if self.order == 1:
            return sine + rest * cosine
        return 3.0 * sine * cosine + rest * (1.0 + 2.0 * ops.square(cosine))

    def variances(self, x, *, amplitude, lengthscale, bias):
        """Returns amplitude**2, times |u|**2, or 3 |u|**4."""
        norms = _squared_norms(self._augmented(x, lengthscale, bias))
        powers = (ops.ones_like(norms), norms, 3.0 * ops.square(norms))
        return ops.square(amplitude)[..., None] * powers[self.order]

    def features(self, num_features, seed, *, amplitude, lengthscale, bias):
        """Returns amplitude sqrt(2) max(w u, 0)**n: units of the network."""
        shape = (*self.batch_shape, self.num_dims + 1, num_features)
        weights = noise.normal(shape, self.precision, seed)
        amplitude = math.sqrt(2.0) * self.over_rows("amplitude", amplitude)

        def phi(x):
            units = ops.matmul(self._augmented(x, lengthscale, bias), weights)
            if self.order == 0:
                return amplitude * ops.cast(units > 0.0, self.precision)
            return amplitude * _power(ops.relu(units), self.order)

        return phi

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "order": self.order}
