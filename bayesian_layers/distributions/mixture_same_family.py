"""Mixtures of distributions of one family."""

import functools

from keras import ops

from bayesian_layers.distributions import constraints, noise, shapes
from bayesian_layers.distributions.categorical import Categorical
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import log_sum_exp


@register
class MixtureSameFamily(Distribution):
    """A mixture of k distributions of one family.

    p(x) = sum_i P(i) p_i(x)

    A sample depends on the choice of a component, which has no gradient: its
    differentiation raises. `log_prob` is differentiable in everything.

    Args:
        mixture_distribution: A `Categorical` over the k components, of batch shape
            `[...]`.
        components_distribution: Distributions with the components on the last batch
            axis, of batch shape `[..., k]`.

    Example:
    >>> mixture = bl.distributions.MixtureSameFamily(
    ...     bl.distributions.Categorical(probs=[0.25, 0.75]),
    ...     bl.distributions.Normal(loc=[-1.0, 1.0], scale=[0.1, 0.1]),
    ... )
    >>> round(float(mixture.mean()), 4)
    0.5
    """

    reparameterized = False

    def __init__(self, mixture_distribution, components_distribution):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "MixtureSameFamily expects `mixture_distribution` to be a Categorical. "
                f"Received: mixture_distribution={mixture_distribution}"
            )
        components = components_distribution.batch_shape
        if components[-1:] != (mixture_distribution.num_categories,):
            raise ValueError(
                "MixtureSameFamily expects the last batch axis of "
                "`components_distribution` to have the length of the mixture. "
                f"Received: {mixture_distribution.num_categories} components and "
                f"components_distribution.batch_shape={components}"
            )
        super().__init__(
            mixture_distribution=mixture_distribution,
            components_distribution=components_distribution,
        )

    @property
    def mixture_distribution(self):
        """The distribution of the component."""
        return self._arguments["mixture_distribution"]

    @property
    def components_distribution(self):
        """The distributions that are mixed."""
        return self._arguments["components_distribution"]

    @functools.cached_property
    def parameter_dtype(self):
        """As the components."""
        return self.components_distribution.parameter_dtype

    @property
    def dtype(self):
        """As the components."""
        return self.components_distribution.dtype

    @property
    def support(self):
        """The real line: what is outside of a component's support has density zero."""
        rank = self.components_distribution.support.event_rank
        return constraints.Elementwise(constraints.real, rank)

    @functools.cached_property
    def batch_shape(self):
        """The batch axes of the components but the last."""
        return shapes.broadcast(
            self.mixture_distribution.batch_shape,
            self.components_distribution.batch_shape[:-1],
        )

    @property
    def event_shape(self):
        """As the components."""
        return self.components_distribution.event_shape

    def _dynamic_batch_shape(self):
        return shapes.broadcast(
            self.mixture_distribution._dynamic_batch_shape(),
            self.components_distribution._dynamic_batch_shape()[:-1],
        )

    def _component_axis(self):
        return -1 - len(self.event_shape)

    def _mix(self, log_values):
        return log_sum_exp(self.mixture_distribution._log_probs() + log_values, axis=-1)

    def _expand(self, value):
        return ops.expand_dims(value, self._component_axis())

    def _average(self, values):
        weights = self.mixture_distribution.probs
        weights = ops.reshape(
            weights, ops.shape(weights) + (1,) * len(self.event_shape)
        )
        return ops.sum(weights * values, axis=self._component_axis())

    def _sample(self, sample_shape, seed):
        choice_seed, component_seed = noise.split(seed, 2)
        # Each member of the batch makes its own choice, among draws of its own.
        whole = self._broadcast_batch(self._dynamic_batch_shape())
        choice = whole.mixture_distribution._sample(sample_shape, choice_seed)
        draws = whole.components_distribution._sample(sample_shape, component_seed)
        index = ops.reshape(
            choice, ops.shape(choice) + (1,) * (1 + len(self.event_shape))
        )
        picked = ops.take_along_axis(draws, index, axis=self._component_axis())
        return ops.squeeze(picked, axis=self._component_axis())

    def _aligned(self):
        parts = self.mixture_distribution, self.components_distribution
        if not all(isinstance(part, Distribution) for part in parts):
            return self
        aligned = parts[0].batch_shape == parts[1].batch_shape[:-1]
        return self if aligned else self._broadcast_batch(self.batch_shape)

    def _broadcast_batch(self, batch):
        size = self.mixture_distribution.num_categories
        mixture = self.mixture_distribution._broadcast_batch(batch)
        components = self.components_distribution._broadcast_batch((*batch, size))
        return self.rebuild(
            {"mixture_distribution": mixture, "components_distribution": components}
        )

    def log_prob(self, value):
        """Log of the density or probability; -inf where no component has any."""
        value = self._expand(self._standardize_value(value))
        return self._mix(self.components_distribution.log_prob(value))

    def _cdf(self, value):
        return self._average(self.components_distribution._cdf(self._expand(value)))

    def _log_cdf(self, value):
        return self._mix(self.components_distribution._log_cdf(self._expand(value)))

    def _log_survival(self, value):
        return self._mix(
            self.components_distribution._log_survival(self._expand(value))
        )

    def _log_interval(self, low, high):
        # Mixed after the difference: between two components it would cancel.
        low, high = self._expand(low), self._expand(high)
        return self._mix(self.components_distribution._log_interval(low, high))

    def _mean(self):
        return self._average(self.components_distribution.mean())

    def _variance(self):
        components = self.components_distribution
        deviation = components.mean() - self._expand(self._mean())
        return self._average(components.variance() + ops.square(deviation))
