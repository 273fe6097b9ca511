"""Values of functions at several points: rows that depend on each other."""

import math

import keras
import numpy as np
from keras import ops

from bayesian_layers import linalg
from bayesian_layers.distributions import constraints, noise, shapes
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import HALF_LOG_2_PI
from bayesian_layers.distributions.normal import Normal


@register
class JointNormal(Distribution):
    """The distribution of matrices with jointly normal rows and independent columns.

    x[:, u] = loc[:, u] + L_u z_u, with standard normal z_u and the covariance
    L_u L_u^T of unit u, or one covariance of all units:

        log p(x) = sum_u log N(x[:, u] | loc[:, u], covariance_matrix[u]).

    It is what a Gaussian process says of `units` functions at n inputs: a row is an
    example, and `log_prob` is one number for all n of them. A covariance that is
    singular but for rounding is factorized with a jitter, as in `bl.linalg.cholesky`;
    the density takes one factorization, and its gradient one inverse.

    Args:
        loc: The mean, of shape `[..., n, units]`.
        covariance_matrix: Symmetric, of shape `[n, n]` or `[..., 1, n, n]` where all
            units share it, or `[..., units, n, n]`; a `keras.Variable` has at least
            three axes. What has no Cholesky factor raises where it is factorized, if
            there are numbers to look at, and gives NaN in compiled functions.

    Example:
    >>> covariance = np.array([[1.0, 0.5], [0.5, 1.0]], "float32")
    >>> normal = bl.distributions.JointNormal(np.zeros((2, 3), "float32"), covariance)
    >>> ops.shape(normal.sample(5)), ops.shape(normal.log_prob(normal.sample(5)))
    ((5, 2, 3), (5,))
    >>> round(float(normal.log_prob(np.ones((2, 3)))), 4)
    -7.0821
    """

    parameters = {
        "loc": constraints.real_matrix,
        "covariance_matrix": constraints.Elementwise(constraints.symmetric, 3),
    }
    support = constraints.real_matrix

    def __init__(self, loc, covariance_matrix):
        if isinstance(covariance_matrix, (list, tuple)):
            covariance_matrix = ops.convert_to_tensor(covariance_matrix)
        covariance_matrix = _with_units(covariance_matrix)
        super().__init__(loc=loc, covariance_matrix=covariance_matrix)

    @classmethod
    def rebuild(cls, arguments):
        """As in `Distribution`; a matrix without the axis of units gets it, too."""
        matrix = _with_units(arguments["covariance_matrix"])
        return super().rebuild({**arguments, "covariance_matrix": matrix})

    def _validate(self):
        loc, matrix = (shapes.static(value) for value in self._given().values())
        if len(loc) >= 2 and len(matrix) >= 3:
            rows, units = loc[-2:]
            units = 1 if matrix[-3] == 1 else units
            if not shapes.matches(matrix[-3:], (units, rows, rows)):
                raise ValueError(
                    "JointNormal expects a `covariance_matrix` of shape [n, n] or "
                    "[units, n, n] for a `loc` of shape [n, units]. Received: "
                    f"loc.shape={loc}, covariance_matrix.shape={matrix}"
                )
        super()._validate()

    @property
    def event_shape(self):
        """`(n, units)`."""
        return shapes.static(self._arguments["loc"])[-2:]

    def _sample_shape(self, sample_shape):
        event = ops.shape(self.loc)[-2:]
        return (*sample_shape, *self._dynamic_batch_shape(), *event)

    def log_prob(self, value):
        """Log of the density of all rows and columns together."""
        return self._log_prob(self._standardize_value(value))

    def _log_prob(self, value):
        return self._over_columns(
            lambda columns: linalg.normal_log_density(
                self.covariance_matrix, columns, "covariance_matrix"
            ),
            value - self.loc,
        )

    def _squared_distance(self, deviation):
        """The sum over units of deviation^T covariance_matrix^-1 deviation."""
        tril = self._tril()
        return self._over_columns(
            lambda columns: ops.sum(
                ops.square(linalg.solve_lower(tril, columns)), axis=-2
            ),
            deviation,
        )

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        order, moved, columns = self._layout(shape)
        z = noise.normal(columns, self.dtype, seed)
        x = ops.reshape(self._tril() @ z, moved)
        return self.loc + ops.transpose(x, _inverse(order))

    # Columns that share a matrix, of all units and of all samples, are one right-hand
    # side: neither are matrices copied nor are they factorized more than once.

    @property
    def _is_shared(self):
        return shapes.static(self._arguments["covariance_matrix"])[-3] == 1

    def _layout(self, shape):
        """How a value `[..., n, units]` becomes columns `[..., 1 or units, n, m]`.

        The batch axes of the columns are those of the matrices.

        Returns:
            The order of the value's axes, its shape in that order, and the shape of
            the columns.
        """
        rank = len(shape)
        lead = rank + 1 - len(self._arguments["covariance_matrix"].shape)
        batch, rows, units = list(range(lead, rank - 2)), rank - 2, rank - 1
        # First what the columns are for, then the rows, then what is in the columns.
        outer = batch if self._is_shared else [*batch, units]
        inner = [*range(lead), units] if self._is_shared else list(range(lead))
        order = [*outer, rows, *inner]
        moved = [shape[axis] for axis in order]
        matrices = [1] if self._is_shared else []
        count = math.prod(shape[axis] for axis in inner)
        columns = (*moved[: len(outer)], *matrices, shape[rows], count)
        return order, moved, columns

    def _over_columns(self, function, value):
        """Sums a function from columns `[..., n, m]` to `[..., m]` over all units."""
        shape = ops.shape(value)
        batch = shapes.broadcast(shape[:-2], self._dynamic_batch_shape())
        shape = (*batch, *shape[-2:])
        order, moved, columns = self._layout(shape)
        value = ops.transpose(ops.broadcast_to(value, shape), order)
        results = function(ops.reshape(value, columns))
        rows, units = order.index(len(shape) - 2), order.index(len(shape) - 1)
        del moved[rows]
        results = ops.sum(ops.reshape(results, moved), axis=units - (units > rows))
        remaining = [axis for axis in order if axis < len(batch)]
        return ops.transpose(results, _inverse(remaining))

    def _tril(self):
        """The Cholesky factors, of shape `[..., 1 or units, n, n]`."""
        tril = linalg.cholesky(self.covariance_matrix)
        return linalg.check_factor(tril, "covariance_matrix")

    def _sum_over_units(self, values):
        """The sum of `[..., 1 or units]` over the units."""
        units = ops.shape(self.loc)[-1]
        return ops.sum(ops.broadcast_to(values, (*ops.shape(values)[:-1], units)), -1)

    def _rows(self):
        """The number n of rows, as a number of the dtype."""
        return ops.cast(ops.shape(self.loc)[-2], self.dtype)

    def _mean(self):
        return self.loc

    def _mode(self):
        return self.loc

    def _variance(self):
        variance = ops.diagonal(self.covariance_matrix, axis1=-2, axis2=-1)
        # Rounding may leave less than nothing, of which there is no square root.
        variance = ops.maximum(variance, float(np.finfo(self.dtype).tiny))
        return ops.swapaxes(variance, -1, -2)

    def _entropy(self):
        half_log_det = linalg.half_log_det(self._tril())
        return self._sum_over_units(self._rows() * (0.5 + HALF_LOG_2_PI) + half_log_det)

    def covariance(self):
        """The covariance over the rows of each unit, of shape `[..., units, n, n]`."""
        *batch, rows, units = self._sample_shape(())
        return ops.broadcast_to(self.covariance_matrix, (*batch, units, rows, rows))

    def marginal(self):
        """The distribution of each element by itself, a `Normal` `[..., n, units]`."""
        return Normal(self.mean(), self.stddev())


def _with_units(matrix):
    """A matrix `[n, n]` as `[1, n, n]`; anything else as it is.

    A variable stays what it is, so that it can be read again: it has three axes.
    """
    if isinstance(matrix, keras.Variable) or len(getattr(matrix, "shape", ())) != 2:
        return matrix
    return matrix[None]


def _inverse(order):
    """The inverse of a permutation of axes."""
    return sorted(range(len(order)), key=order.__getitem__)
