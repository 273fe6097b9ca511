"""Distributions of arrays, by distributions of vectors."""

import math

from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.kl_divergence import kl_divergence, register_kl
from bayesian_layers.distributions.wrapper import Wrapper


@register
class Reshaped(Wrapper):
    """A distribution of vectors, seen as one of arrays.

    Args:
        distribution: A distribution of vectors without batch axes.
        shape: The shape of the arrays, a tuple.

    Example:
    >>> arrays = bl.distributions.Reshaped(
    ...     bl.distributions.MultivariateNormalDiag(np.zeros(6), np.ones(6)), (2, 3)
    ... )
    >>> arrays.event_shape
    (2, 3)
    """

    def __init__(self, distribution, shape):
        shape = tuple(shape)
        if distribution.shape() != (math.prod(shape),):
            raise ValueError(
                f"Reshaped expects a distribution of vectors of {math.prod(shape)} "
                f"elements for shape={shape}. Received: distribution={distribution}"
            )
        super().__init__(distribution=distribution, shape=shape)

    @property
    def event_shape(self):
        """The shape of the arrays."""
        return tuple(self._arguments["shape"])

    @property
    def support(self):
        """Arrays of real numbers."""
        return constraints.Elementwise(constraints.real, len(self.event_shape))

    def _array(self, vectors):
        return ops.reshape(vectors, (*ops.shape(vectors)[:-1], *self.event_shape))

    def flat(self, value):
        """Returns arrays as vectors."""
        leading = ops.shape(value)[: len(value.shape) - len(self.event_shape)]
        return ops.reshape(value, (*leading, math.prod(self.event_shape)))

    def _sample(self, sample_shape, seed):
        return self._array(self.distribution._sample(sample_shape, seed))

    def sample_and_log_prob(self, sample_shape=(), seed=None):
        """Draws arrays, and returns their `log_prob` too."""
        vectors, log_prob = self.distribution.sample_and_log_prob(sample_shape, seed)
        return self._array(vectors), log_prob

    def log_prob(self, value):
        """Log of the density."""
        return self.distribution.log_prob(self.flat(self._standardize_value(value)))

    def _mean(self):
        return self._array(self.distribution.mean())

    def _variance(self):
        return self._array(self.distribution.variance())

    def _mode(self):
        return self._array(self.distribution.mode())

    def _entropy(self):
        return self.distribution.entropy()


@register_kl(Reshaped, Reshaped)
def _reshaped(q, p):
    if q.event_shape != p.event_shape:
        raise ValueError(
            "KL of Reshaped expects arrays of one shape. "
            f"Received: {q.event_shape} and {p.event_shape}"
        )
    return kl_divergence(q.distribution, p.distribution)
