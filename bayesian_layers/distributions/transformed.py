"""A distribution pushed through an invertible map."""

import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.wrapper import Wrapper


@register
class Transformed(Wrapper):
    """The distribution of transform(x) for x of a base distribution.

    log p(y) = log p_base(x) - log |det d transform(x) / dx|,
    at x = transform.reverse(y)

    Args:
        distribution: The base distribution.
        transform: An invertible map that keeps shapes: one of
            `bl.distributions.transforms`, or any object with `__call__(x)`,
            `reverse(y)` and `log_det_jacobian(x)`, such as a reversible layer. Its
            attribute `event_rank`, zero if absent, says on how many trailing axes it
            acts together; `image`, a constraint, real if absent, where its values are.

    Example:
    >>> log_normal = bl.distributions.Transformed(
    ...     bl.distributions.Normal(0.0, 1.0), bl.distributions.transforms.Exp()
    ... )
    >>> round(float(log_normal.log_prob(2.0)), 4)
    -1.8523
    """

    def __init__(self, distribution, transform):
        rank = getattr(transform, "event_rank", 0)
        if rank > len(distribution.event_shape) + len(distribution.batch_shape):
            raise ValueError(
                f"Transformed expects a distribution of values of at least {rank} axes "
                f"for {transform}. Received: distribution={distribution}"
            )
        super().__init__(distribution=distribution, transform=transform)

    @property
    def transform(self):
        """The invertible map."""
        return self._arguments["transform"]

    def _taken(self):
        """How many batch axes of the base the map makes dependent on each other."""
        rank = getattr(self.transform, "event_rank", 0)
        return max(rank - len(self.distribution.event_shape), 0)

    def sample(self, sample_shape=(), seed=None):
        """Draws values: those of the base, transformed."""
        # The base says by itself if it has no gradient; parameters of the transform
        # have one.
        return self.transform(self.distribution.sample(sample_shape, seed))

    def _sample(self, sample_shape, seed):
        return self.sample(sample_shape, seed)

    def log_prob(self, value):
        """Log of the density; -inf outside of the image of the base's support."""
        x, outside = self._reverse(self._standardize_value(value))
        rank = len(self.event_shape)
        log_det = self.transform.log_det_jacobian(x)
        log_det = self._sum(log_det, rank - getattr(self.transform, "event_rank", 0))
        base = self._sum(self.distribution.log_prob(x), self._taken())
        axes = tuple(range(-rank, 0))
        outside = ops.any(outside, axis=axes) if axes else outside
        return ops.where(outside, -np.inf, base - log_det)

    def _reverse(self, value):
        """The inverse, and where there is none, because value is not in the image."""
        image = getattr(self.transform, "image", constraints.real)
        outside = ops.logical_not(image.check(value))
        return self.transform.reverse(image.project(value)), outside

    def _monotone(self, method):
        if not hasattr(self.transform, "increasing"):
            raise self._missing(method)
        return self.transform.increasing

    def _cdf(self, value):
        increasing = self._monotone("cdf")
        x, outside = self._reverse(value)
        base = self.distribution
        inside = base._cdf(x) if increasing else ops.exp(base._log_survival(x))
        return ops.where(outside, self._is_above(value), inside)

    def _log_cdf(self, value):
        increasing = self._monotone("log_cdf")
        x, outside = self._reverse(value)
        base = self.distribution
        inside = base._log_cdf(x) if increasing else base._log_survival(x)
        return ops.where(outside, ops.log(self._is_above(value)), inside)

    def _log_survival(self, value):
        increasing = self._monotone("log_survival")
        x, outside = self._reverse(value)
        base = self.distribution
        inside = base._log_survival(x) if increasing else base._log_cdf(x)
        return ops.where(outside, ops.log(1.0 - self._is_above(value)), inside)

    def _is_above(self, value):
        """1 for a value outside of the image, an interval, that is above it, or 0."""
        return ops.cast(value > self.transform(ops.zeros_like(value)), self.dtype)

    def _quantile(self, probability):
        increasing = self._monotone("quantile")
        p = probability if increasing else 1.0 - probability
        return self.transform(self.distribution.quantile(p))
