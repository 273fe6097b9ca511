"""The Dirichlet distribution."""

import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import constraints, noise, shapes
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.functions import safe_log, tiny
from bayesian_layers.distributions.stirling import (
    gamma_entropy,
    lgamma_rest,
    log_gamma_density,
)


@register
class Dirichlet(Distribution):
    """The Dirichlet distribution over probability vectors.

    p(x) = prod_i x_i**(concentration_i - 1) / B(concentration)

    Samples are differentiable with respect to the concentration. The mode is NaN
    unless all concentrations are above one.

    Args:
        concentration: Positive, of shape `[..., k]`; its last axis is the event.

    Example:
    >>> dirichlet = bl.distributions.Dirichlet([1.0, 2.0, 1.0])
    >>> dirichlet.event_shape
    (3,)
    >>> [round(float(m), 4) for m in dirichlet.mean()]
    [0.25, 0.5, 0.25]
    """

    parameters = {"concentration": constraints.positive_vector}
    support = constraints.simplex
    draws_gamma_noise = True

    def __init__(self, concentration):
        super().__init__(concentration=concentration)

    @property
    def event_shape(self):
        """`(k,)`."""
        return shapes.static(self._arguments["concentration"])[-1:]

    def _size(self):
        return self.event_shape[0]

    def _total(self):
        return ops.sum(self.concentration, axis=-1)

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        log_gamma = noise.log_gamma(shape, self.concentration, self.dtype, seed)
        return ops.maximum(ops.softmax(log_gamma, axis=-1), tiny(self.dtype))

    def _log_prob(self, value):
        total = self._total()[..., None]
        log_total = ops.log(total)
        terms = log_gamma_density(
            self.concentration, total * value, log_total + safe_log(value)
        )
        normalizer = lgamma_rest(total) + (self._size() - 1) * log_total
        return ops.sum(terms, axis=-1) + normalizer[..., 0]

    def _mean(self):
        return self.concentration / self._total()[..., None]

    def _variance(self):
        mean = self._mean()
        return mean * (1.0 - mean) / (self._total()[..., None] + 1.0)

    def _mode(self):
        above = self.concentration - 1.0
        interior = ops.all(above > 0.0, axis=-1, keepdims=True)
        total = ops.where(interior, ops.sum(above, axis=-1, keepdims=True), 1.0)
        return ops.where(interior, above / total, np.nan)

    def _entropy(self):
        total = self._total()
        parts = ops.sum(gamma_entropy(self.concentration), axis=-1)
        rest = (self._size() - 1) * backend.digamma(total)
        return parts - gamma_entropy(total) - rest
