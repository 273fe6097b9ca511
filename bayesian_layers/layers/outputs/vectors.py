"""Outputs that are vectors, with dependent elements."""

from keras import ops

from bayesian_layers import distributions
from bayesian_layers.layers.outputs.family_layer import FamilyLayer
from bayesian_layers.layers.outputs.parameters import POSITIVE, RATIO
from bayesian_layers.layers.register import register


@register
class Dirichlet(FamilyLayer):
    """An output with a Dirichlet distribution: proportions that sum to one.

    y ~ Dirichlet(softplus(concentration(x)) + 1e-5); `[..., k] -> [..., k]`. Arguments
    as in `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Dirichlet(3)(np.ones((8, 4))))
    (8, 3)
    """

    family = distributions.Dirichlet


@register
class MultivariateNormalDiag(FamilyLayer):
    """An output vector with independent normal elements, as one event.

    y ~ Normal(loc(x), diag(scale_diag(x)**2)), scale_diag = softplus(...) + 1e-5;
    `[..., 2 * n] -> [..., n]`, locations first. Arguments as in `bl.layers.Normal`.

    Example:
    >>> y = bl.layers.MultivariateNormalDiag(3)(np.ones((8, 4)))
    >>> ops.shape(y), ops.shape(y.log_prob(y))
    ((8, 3), (8,))
    """

    family = distributions.MultivariateNormalDiag


@register
class MultivariateNormalTriL(FamilyLayer):
    """An output vector with a normal distribution of any covariance.

    y ~ Normal(loc(x), L L^T), L = diag(d) (I + A): d = softplus(...) + 1e-5, and A has
    the elements 10 * tanh(... / 10) below the diagonal, which bounds correlations to
    0.995. `[..., n + n * (n + 1) / 2] -> [..., n]`: the locations, the diagonal, then
    what is below it, row by row. Arguments as in `bl.layers.Normal`, but for
    `homoscedastic`.

    Example:
    >>> y = bl.layers.MultivariateNormalTriL(3)(np.ones((8, 4)))
    >>> ops.shape(y.distribution.covariance())
    (8, 3, 3)
    """

    family = distributions.MultivariateNormalTriL


@register
class MultivariateNormalLowRank(FamilyLayer):
    """An output vector with a normal distribution of diagonal plus low-rank covariance.

    y ~ Normal(loc(x), S (I + W W^T) S), S = diag(softplus(...) + 1e-5), and W has
    `rank` columns with elements 10 * tanh(... / 10).
    `[..., (2 + rank) * n] -> [..., n]`: locations, scales, then W row by row. Other
    arguments as in `bl.layers.Normal`, but for `homoscedastic`.

    Args:
        units: As in `bl.layers.Normal`.
        rank: The number of columns of W.
        **kwargs: As in `bl.layers.Normal`.

    Example:
    >>> y = bl.layers.MultivariateNormalLowRank(3, rank=2)(np.ones((8, 4)))
    >>> ops.shape(y.distribution.covariance())
    (8, 3, 3)
    """

    family = distributions.MultivariateNormalLowRank
    maps = {"scale": POSITIVE, "factor": RATIO}

    def __init__(self, units=None, rank=1, **kwargs):
        if not (isinstance(rank, int) and rank > 0):
            raise ValueError(f"`rank` should be a positive integer. Received: {rank}")
        self.rank = rank
        super().__init__(units, **kwargs)

    def sizes(self, count):
        """Returns the numbers of columns."""
        return {"loc": count, "scale": count, "factor": count * self.rank}

    def from_parameters(self, loc, scale, factor):
        """Returns the distribution of the columns of each parameter."""
        scale = POSITIVE(scale)
        factor = RATIO(ops.reshape(factor, (*ops.shape(loc), self.rank)))
        return self.family(loc, ops.square(scale), scale[..., None] * factor)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "rank": self.rank}
