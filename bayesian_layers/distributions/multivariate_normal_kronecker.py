"""The multivariate normal distribution whose covariance is a Kronecker product."""

from keras import ops

from bayesian_layers import linalg
from bayesian_layers.distributions import constraints, noise, shapes
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.multivariate_normal import MultivariateNormal


@register
class MultivariateNormalKronecker(MultivariateNormal):
    """The distribution of the elements of a matrix whose rows and columns correlate.

    X = M + R Z C^T, with a matrix Z of standard normal numbers: the matrix normal
    distribution with covariance R R^T of rows and C C^T of columns. A value is X with
    its n rows of m elements in one vector, row by row, `loc` that of M, and its
    covariance the Kronecker product of both. Density and samples cost O(n m (n + m)).
    `bl.distributions.Reshaped` makes it one of matrices.

    Args:
        loc: The mean, of shape `[..., n * m]`.
        row_tril: R, lower triangular with positive diagonal, `[..., n, n]`.
        column_tril: C, lower triangular with positive diagonal, `[..., m, m]`.

    Example:
    >>> normal = bl.distributions.MultivariateNormalKronecker(
    ...     np.zeros(4), [[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [1.0, 1.0]]
    ... )
    >>> [round(float(v), 4) for v in normal.variance()]
    [1.0, 2.0, 4.0, 8.0]
    """

    parameters = {
        "loc": constraints.real_vector,
        "row_tril": constraints.lower_triangular,
        "column_tril": constraints.lower_triangular,
    }

    def __init__(self, loc, row_tril, column_tril):
        super().__init__(loc=loc, row_tril=row_tril, column_tril=column_tril)

    @property
    def event_shape(self):
        """`(n * m,)`."""
        rows, columns = self._sizes()
        return (rows * columns,)

    def _sizes(self):
        """The numbers of rows and of columns."""
        return tuple(
            shapes.static(self._arguments[name])[-1]
            for name in ("row_tril", "column_tril")
        )

    def _validate(self):
        Distribution._validate(self)
        given = {name: shapes.static(value) for name, value in self._given().items()}
        square = all(given[n][-1] == given[n][-2] for n in ("row_tril", "column_tril"))
        if not square or not shapes.matches(given["loc"][-1:], self.event_shape):
            received = ", ".join(
                f"{name}.shape={shape}" for name, shape in given.items()
            )
            raise ValueError(
                f"{type(self).__name__} expects square factors of n rows and of m "
                f"columns, and `loc` of n * m elements. Received: {received}"
            )

    def _matrix(self, vectors):
        return ops.reshape(vectors, (*ops.shape(vectors)[:-1], *self._sizes()))

    def _vector(self, matrices):
        return ops.reshape(matrices, (*ops.shape(matrices)[:-2], *self.event_shape))

    def _sample(self, sample_shape, seed):
        z = noise.normal(self._sample_shape(sample_shape), self.dtype, seed)
        columns = ops.swapaxes(self.column_tril, -1, -2)
        return self.loc + self._vector(self.row_tril @ self._matrix(z) @ columns)

    def _whitened(self, deviation):
        """R^-1 D C^-T, for the matrix D of a deviation."""
        rows = linalg.solve_lower(self.row_tril, self._matrix(deviation))
        return linalg.solve_lower(self.column_tril, ops.swapaxes(rows, -1, -2))

    def _squared_distance(self, deviation):
        return ops.sum(ops.square(self._whitened(deviation)), axis=(-2, -1))

    def _squares(self, columns):
        vectors = ops.moveaxis(columns, -1, 0)
        return ops.sum(self._squared_distance(vectors), axis=0)

    def _root(self):
        return _kronecker(self.row_tril, self.column_tril)

    def _half_log_det(self):
        rows, columns = self._sizes()
        return columns * linalg.half_log_det(
            self.row_tril
        ) + rows * linalg.half_log_det(self.column_tril)

    def _variance(self):
        rows, columns = (
            ops.sum(ops.square(tril), axis=-1)
            for tril in (self.row_tril, self.column_tril)
        )
        return self._vector(rows[..., :, None] * columns[..., None, :])

    def covariance(self):
        """The covariance matrix, of shape `[..., n * m, n * m]`."""
        root = self._root()
        return root @ ops.swapaxes(root, -1, -2)


def _kronecker(a, b):
    """The Kronecker product of square matrices, with their batch axes."""
    product = a[..., :, None, :, None] * b[..., None, :, None, :]
    size = a.shape[-1] * b.shape[-1]
    return ops.reshape(product, (*ops.shape(product)[:-4], size, size))
