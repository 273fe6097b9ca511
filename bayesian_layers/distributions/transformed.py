"""A distribution pushed through an invertible map."""

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.transforms.contract import Map
from bayesian_layers.distributions.wrapper import Wrapper


@register
class Transformed(Wrapper):
    """The distribution of transform(x) for x of a base distribution.

    log p(y) = log p_base(x) - log |det d transform(x) / dx|,
    at x = transform.reverse(y)

    Args:
        distribution: The base distribution.
        transform: An invertible map: one of `bl.distributions.transforms`, or any
            object with their contract, such as a reversible layer.

    Example:
    >>> log_normal = bl.distributions.Transformed(
    ...     bl.distributions.Normal(0.0, 1.0), bl.distributions.transforms.Exp()
    ... )
    >>> round(float(log_normal.log_prob(2.0)), 4)
    -1.8523
    """

    def __init__(self, distribution, transform):
        if not isinstance(transform, Map):
            raise TypeError(
                "Transformed expects an invertible map with the contract of "
                "`bl.distributions.transforms.Map`. "
                f"Received: transform={transform!r}"
            )
        if transform.event_rank > len(distribution.shape()):
            raise ValueError(
                "Transformed expects a distribution of values of at least "
                f"{transform.event_rank} axes for {transform}. "
                f"Received: distribution={distribution}"
            )
        super().__init__(distribution=distribution, transform=transform)

    @property
    def transform(self):
        """The invertible map."""
        return self._arguments["transform"]

    def _map(self, function):
        mapped = super()._map(function)
        if self.transform.is_pytree:
            transform = self.transform.map_tensors(function)
            mapped = self.rebuild({**mapped._arguments, "transform": transform})
        return mapped

    def _taken(self):
        """How many batch axes of the base the map makes dependent on each other."""
        return max(self.transform.event_rank - len(self.distribution.event_shape), 0)

    @property
    def event_shape(self):
        """The shape that the map gives to the event of the base."""
        return self.transform.forward_shape(super().event_shape)

    @property
    def support(self):
        """The values of the map on the support of the base."""
        base = self.distribution.support
        if self._taken():
            base = constraints.Elementwise(base, base.event_rank + self._taken())
        return constraints.ImageOf(base, self.transform)

    def sample(self, sample_shape=(), seed=None):
        """Draws values: those of the base, transformed."""
        # The base says by itself if it has no gradient; parameters of the transform
        # have one.
        return self.transform(self.distribution.sample(sample_shape, seed))

    def _sample(self, sample_shape, seed):
        return self.sample(sample_shape, seed)

    def sample_and_log_prob(self, sample_shape=(), seed=None):
        """Draws values, and returns their `log_prob` too, without reversing the map."""
        x, base = self.distribution.sample_and_log_prob(sample_shape, seed)
        y, log_det = self.transform.forward_and_log_det(x)
        return y, self._changed(base, -log_det)

    def log_prob(self, value):
        """Log of the density; -inf outside of the image of the base's support."""
        if isinstance(value, keras.Variable):
            value = value.value  # TensorFlow takes a variable for a tensor as it is.
        value = self._standardize_value(value)
        known = self.transform.recall(value)
        if known is not None:
            x, log_det = known
            return self._changed(self.distribution.log_prob(x), -log_det)
        image = self.transform.image
        outside = ops.logical_not(image.check(value))
        x, log_det = self.transform.reverse_and_log_det(image.project(value))
        result = self._changed(self.distribution.log_prob(x), log_det)
        axes = tuple(range(image.event_rank - len(self.event_shape), 0))
        outside = ops.any(outside, axis=axes) if axes else outside
        return ops.where(outside, -np.inf, result)

    def _changed(self, log_prob, log_det):
        """A log-density of the base, with the change of volumes."""
        log_prob = self._sum(log_prob, self._taken())
        # Isolated values have probabilities, which no map changes.
        if self.distribution.support.is_discrete:
            return log_prob
        rank = self._taken() + len(self.distribution.event_shape)
        return log_prob + self._sum(log_det, rank - self.transform.event_rank)

    def _reverse(self, value):
        """The inverse, and where there is none, because value is not in the image."""
        image = self.transform.image
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
        return ops.cast(value > self._reached(value), self.dtype)

    def _reached(self, value):
        """Some value of the image."""
        x = self.transform.domain.project(ops.zeros_like(value))
        return self.transform(x)

    def _quantile(self, probability):
        increasing = self._monotone("quantile")
        p = probability if increasing else 1.0 - probability
        return self.transform(self.distribution.quantile(p))
