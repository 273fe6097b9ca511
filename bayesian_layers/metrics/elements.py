"""The distribution of each number of an output, its quantiles and its components."""

from keras import ops

from bayesian_layers.distributions import (
    Independent,
    JointNormal,
    MixtureSameFamily,
    Normal,
)
from bayesian_layers.distributions.multivariate_normal import MultivariateNormal

# Halvings of the bracket of a quantile: enough for a float32 anywhere in it.
STEPS = 40


def elements_of(distribution):
    """Returns the distribution of each element, where it is known.

    Numbers that depend on each other, as those of a `MultivariateNormal`, have normal
    distributions each; of other vectors it is the distribution itself.
    """
    distribution = distribution.predictive()
    if isinstance(distribution, Independent):
        return elements_of(distribution.distribution)
    if isinstance(distribution, (JointNormal, MultivariateNormal)):
        return Normal(distribution.mean(), distribution.stddev())
    return distribution


def quantile_of(distribution, q):
    """Returns the q-quantile of each element; of mixtures by bisection.

    Unlike that of a `bl.Prediction` it can be compiled.
    """
    is_mixture = isinstance(distribution, MixtureSameFamily)
    try:
        quantile = _bisect(distribution, q) if is_mixture else distribution.quantile(q)
        return ops.broadcast_to(quantile, distribution._sample_shape(()))
    except NotImplementedError as error:
        raise TypeError(
            "Expected an output whose quantiles are known. Received: y_pred of the "
            f"family {type(distribution).__name__}. Give a `bl.Prediction`, made by "
            "`bl.predict`: its quantiles are those of samples."
        ) from error


def _bisect(mixture, q):
    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        below = mixture.cdf(middle) < q
        return ops.where(below, middle, low), ops.where(below, high, middle)

    # No mixture has its quantile outside of those of its components.
    shape = mixture._sample_shape(())
    low, high = (ops.broadcast_to(end, shape) for end in _ends(mixture, q))
    low, high = ops.fori_loop(0, STEPS, halve, (low, high))
    return 0.5 * (low + high)


def _ends(distribution, q):
    if not isinstance(distribution, MixtureSameFamily):
        quantile = distribution.quantile(q)
        return quantile, quantile
    low, high = _ends(distribution.components_distribution, q)
    return ops.min(low, axis=-1), ops.max(high, axis=-1)


def normal_components(distribution):
    """Returns weights, means and scales of a normal distribution, or a mixture of such.

    Returns:
        Three arrays `[..., k]` for k components, or `None` if it is of another kind.
    """
    distribution = distribution.predictive()
    if isinstance(distribution, MixtureSameFamily):
        parts = normal_components(distribution.components_distribution)
        if parts is None:
            return None
        weights, *others = parts
        probs = distribution.mixture_distribution.probs[..., None]
        return merge_components(probs * weights, *others)
    if not isinstance(distribution, Normal):
        return None
    loc = distribution.mean()
    scale = ops.broadcast_to(distribution.scale, ops.shape(loc))
    return tuple(x[..., None] for x in (ops.ones_like(loc), loc, scale))


def merge_components(*parts):
    """Makes one axis of the last two of each part, after broadcasting them."""
    zeros = sum(ops.zeros_like(part) for part in parts)
    *batch, outer, inner = ops.shape(zeros)
    return tuple(ops.reshape(part + zeros, (*batch, outer * inner)) for part in parts)
