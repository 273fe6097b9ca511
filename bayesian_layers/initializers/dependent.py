"""Posteriors whose elements depend on each other."""

import math

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import (
    MultivariateNormalKronecker,
    MultivariateNormalLowRank,
    MultivariateNormalTriL,
    Radial,
    Reshaped,
)
from bayesian_layers.initializers.normal import (
    SCALE,
    UNTRANSFORMED_SCALE,
    TrainableNormal,
)
from bayesian_layers.initializers.posterior import Posterior, register
from bayesian_layers.parameterizations import Softplus


@register
class ScaledIdentity(keras.initializers.Initializer):
    """Matrices with one number on the diagonal and zeros elsewhere.

    Args:
        value: The number.
    """

    def __init__(self, value=1.0):
        self.value = value

    def __call__(self, shape, dtype=None):
        """Returns matrices of shape `[..., n, m]`."""
        identity = ops.eye(*shape[-2:], dtype=dtype)
        return self.value * identity * ops.ones(shape, dtype=dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"value": self.value}


@register
class TrainableMultivariateNormal(Posterior):
    """A normal distribution over a weight with any covariance.

    vec(w) = vec(mean) + L @ z, with standard normal z and lower triangular L

    By name: `"trainable_multivariate_normal"`. It holds n * n numbers for a weight of
    n elements: for small layers. The diagonal of L starts at softplus(-3) = 0.0486,
    all else of it at zero.

    Args:
        mean_initializer: Initializer of the mean. Defaults to the layer's.
        tril_initializer: Initializer of the untransformed factor, `[n, n]`; its
            diagonal is read through softplus, above it nothing is read. Defaults to
            -3 on the diagonal and zeros elsewhere.
        mean_regularizer: Penalty on the mean.
        tril_regularizer: Penalty on the untransformed factor.
        mean_constraint: Parameterization of the mean. Defaults to none.
    """

    arguments = {"mean": "loc", "tril": "tril"}
    defaults = {"tril": ScaledIdentity(UNTRANSFORMED_SCALE)}

    def __init__(
        self,
        mean_initializer=None,
        tril_initializer=None,
        mean_regularizer=None,
        tril_regularizer=None,
        mean_constraint=None,
    ):
        super().__init__(
            mean_initializer=mean_initializer,
            tril_initializer=tril_initializer,
            mean_regularizer=mean_regularizer,
            tril_regularizer=tril_regularizer,
            mean_constraint=mean_constraint,
        )

    def shapes(self, shape):
        """Returns the shapes: the factor is a square over all elements."""
        size = math.prod(shape)
        return {"loc": shape, "tril": (size, size)}

    def distribution(self, loc, tril):
        """Returns the normal distribution over arrays."""
        return _of_arrays(MultivariateNormalTriL, loc, scale_tril=_factor(tril))


@register
class TrainableMultivariateNormalRows(Posterior):
    """Normal distributions with any covariance within rows, and none between them.

    w[i] = mean[i] + L[i] @ z[i], with standard normal z and lower triangular L[i]

    By name: `"trainable_multivariate_normal_rows"`. A row is the last axis of the
    weight. The inducing values of a sparse Gaussian process, `[units, num_inducing]`,
    have it by default.

    Args:
        stddev: The number that the diagonals of L start at, all else of it starting at
            zero. Defaults to 1.
        mean_initializer: Initializer of the mean. Defaults to the layer's.
        tril_initializer: Initializer of the untransformed factors, `[..., n, n]`, in
            place of `stddev`; their diagonals are read through softplus, above them
            nothing is read.
        mean_regularizer: Penalty on the mean.
        tril_regularizer: Penalty on the untransformed factors.
        mean_constraint: Parameterization of the mean. Defaults to none.

    Example:
    >>> posterior = bl.initializers.TrainableMultivariateNormalRows(stddev=0.1)
    >>> layer = bl.layers.DenseReparameterization(3, kernel_initializer=posterior)
    >>> layer.build((None, 2))
    >>> covariance = layer.random_weights["kernel"].posterior.covariance()
    >>> ops.shape(covariance)
    (2, 3, 3)
    >>> print(ops.convert_to_numpy(covariance[0]).round(4))
    [[0.01 0.   0.  ]
     [0.   0.01 0.  ]
     [0.   0.   0.01]]
    """

    arguments = {"mean": "loc", "tril": "tril"}

    def __init__(
        self,
        stddev=1.0,
        mean_initializer=None,
        tril_initializer=None,
        mean_regularizer=None,
        tril_regularizer=None,
        mean_constraint=None,
    ):
        if not stddev > 0.0:
            raise ValueError(f"`stddev` should be positive. Received: stddev={stddev}")
        # The inverse of softplus, which is all that the diagonal is read through.
        self.defaults = {"tril": ScaledIdentity(math.log(math.expm1(stddev)))}
        super().__init__(
            stddev=stddev,
            mean_initializer=mean_initializer,
            tril_initializer=tril_initializer,
            mean_regularizer=mean_regularizer,
            tril_regularizer=tril_regularizer,
            mean_constraint=mean_constraint,
        )

    def shapes(self, shape):
        """Returns the shapes: a square for each row."""
        return {"loc": shape, "tril": (*shape, shape[-1])}

    def distribution(self, loc, tril):
        """Returns the normal distributions over rows."""
        return MultivariateNormalTriL.rebuild({"loc": loc, "scale_tril": _factor(tril)})


@register
class TrainableLowRankNormal(Posterior):
    """A normal distribution whose covariance is a diagonal plus a matrix of low rank.

    vec(w) = vec(mean) + stddev * z + factor @ v, with standard normal z and v

    By name: `"trainable_low_rank_normal"`.

    Args:
        rank: The number of columns of the factor. Defaults to 1.
        mean_initializer: Initializer of the mean. Defaults to the layer's.
        stddev_initializer: Initializer of the untransformed `stddev`. Defaults to -3.
        factor_initializer: Initializer of the factor, `[n, rank]`. Defaults to normal
            noise of standard deviation 0.01: with zeros it would never train.
        mean_regularizer: Penalty on the mean.
        stddev_regularizer: Penalty on the untransformed `stddev`.
        factor_regularizer: Penalty on the factor.
        mean_constraint: Parameterization of the mean. Defaults to none.
        stddev_constraint: Parameterization of `stddev`. Defaults to `"softplus"`.
        factor_constraint: Parameterization of the factor. Defaults to none.
    """

    arguments = {"mean": "loc", "stddev": "scale", "factor": "factor"}
    defaults = {
        "stddev": SCALE,
        "factor": keras.initializers.RandomNormal(stddev=0.01),
    }
    positive = ("stddev",)

    def __init__(
        self,
        rank=1,
        mean_initializer=None,
        stddev_initializer=None,
        factor_initializer=None,
        mean_regularizer=None,
        stddev_regularizer=None,
        factor_regularizer=None,
        mean_constraint=None,
        stddev_constraint="softplus",
        factor_constraint=None,
    ):
        if not (isinstance(rank, int) and rank > 0):
            raise ValueError(f"`rank` should be a positive integer. Received: {rank}")
        super().__init__(
            rank=rank,
            mean_initializer=mean_initializer,
            stddev_initializer=stddev_initializer,
            factor_initializer=factor_initializer,
            mean_regularizer=mean_regularizer,
            stddev_regularizer=stddev_regularizer,
            factor_regularizer=factor_regularizer,
            mean_constraint=mean_constraint,
            stddev_constraint=stddev_constraint,
            factor_constraint=factor_constraint,
        )

    def shapes(self, shape):
        """Returns the shapes: the factor has a row for each element."""
        size = (math.prod(shape), self._settings["rank"])
        return {"loc": shape, "scale": shape, "factor": size}

    def distribution(self, loc, scale, factor):
        """Returns the normal distribution over arrays."""
        return _of_arrays(
            MultivariateNormalLowRank,
            loc,
            cov_diag_factor=ops.square(_flat(scale)),
            cov_perturb_factor=factor,
        )


@register
class TrainableKroneckerNormal(Posterior):
    """A normal distribution over a kernel whose inputs and outputs each correlate.

    W = mean + R Z C^T, with a matrix Z of standard normal numbers

    By name: `"trainable_kronecker_normal"`. It is the matrix normal distribution: the
    covariance is the Kronecker product of R R^T, over all axes but the last one (of a
    kernel the inputs, n elements), and C C^T, over the last one (the outputs, m). It
    holds n * n + m * m numbers, where `TrainableMultivariateNormal` holds (n * m)**2.
    Both diagonals start at 0.2204, so that standard deviations start at
    softplus(-3) = 0.0486, and all else of the factors at zero.

    Args:
        mean_initializer: Initializer of the mean. Defaults to the layer's.
        row_tril_initializer: Initializer of the untransformed R, `[n, n]`; its diagonal
            is read through softplus, above it nothing is read.
        column_tril_initializer: Initializer of the untransformed C, `[m, m]`, likewise.
        mean_regularizer: Penalty on the mean.
        row_tril_regularizer: Penalty on the untransformed R.
        column_tril_regularizer: Penalty on the untransformed C.
        mean_constraint: Parameterization of the mean. Defaults to none.

    Example:
    >>> posterior = bl.initializers.TrainableKroneckerNormal()
    >>> layer = bl.layers.DenseReparameterization(3, kernel_initializer=posterior)
    >>> layer.build((None, 2))
    >>> [tuple(v.shape) for v in layer.random_weights["kernel"].variables.values()]
    [(2, 3), (2, 2), (3, 3)]

    Reference: Louizos and Welling (2016), Structured and efficient variational deep
    learning with matrix Gaussian posteriors.
    """

    arguments = {"mean": "loc", "row_tril": "row_tril", "column_tril": "column_tril"}
    # The square root of softplus(-3), before softplus.
    defaults = dict.fromkeys(
        ("row_tril", "column_tril"),
        ScaledIdentity(
            math.log(math.expm1(math.sqrt(math.log1p(math.exp(UNTRANSFORMED_SCALE)))))
        ),
    )

    def __init__(
        self,
        mean_initializer=None,
        row_tril_initializer=None,
        column_tril_initializer=None,
        mean_regularizer=None,
        row_tril_regularizer=None,
        column_tril_regularizer=None,
        mean_constraint=None,
    ):
        super().__init__(
            mean_initializer=mean_initializer,
            row_tril_initializer=row_tril_initializer,
            column_tril_initializer=column_tril_initializer,
            mean_regularizer=mean_regularizer,
            row_tril_regularizer=row_tril_regularizer,
            column_tril_regularizer=column_tril_regularizer,
            mean_constraint=mean_constraint,
        )

    def shapes(self, shape):
        """Returns the shapes: a square for all axes but the last, and one for it."""
        rows = math.prod(shape[:-1])
        columns = math.prod(shape[-1:])
        return {
            "loc": shape,
            "row_tril": (rows, rows),
            "column_tril": (columns, columns),
        }

    def distribution(self, loc, row_tril, column_tril):
        """Returns the normal distribution over arrays."""
        return _of_arrays(
            MultivariateNormalKronecker,
            loc,
            row_tril=_factor(row_tril),
            column_tril=_factor(column_tril),
        )


@register
class TrainableRadial(TrainableNormal):
    """A radial distribution: the noise has a direction, and the size of one number.

    w = mean + stddev * z / |z| * r, with standard normal z (an array) and r (a number)

    By name: `"trainable_radial"`. Arguments as in `TrainableNormal`. Unlike that of a
    normal distribution, the noise does not grow with the number of elements.

    Reference: Farquhar, Osborne and Gal (2020), Radial Bayesian neural networks.
    """

    def distribution(self, loc, scale):
        """Returns the radial distribution over arrays."""
        return _of_arrays(Radial, loc, scale_diag=_flat(scale))


def _factor(tril):
    """A lower triangular factor with a positive diagonal, from any square matrix."""
    diagonal = Softplus()(backend.diagonal(tril))
    identity = ops.eye(tril.shape[-1], dtype=tril.dtype)
    return ops.tril(tril, k=-1) + diagonal[..., None] * identity


def _flat(array):
    return ops.reshape(array, (-1,))


def _of_arrays(family, loc, **parameters):
    """A distribution of vectors, seen as one of arrays of the shape of `loc`."""
    flat = family.rebuild({"loc": _flat(loc), **parameters})
    return Reshaped.rebuild({"distribution": flat, "shape": tuple(loc.shape)})
