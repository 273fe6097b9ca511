"""Batch axes seen as one event."""

from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.wrapper import Wrapper


@register
class Independent(Wrapper):
    """A batch of independent distributions, seen as one distribution of arrays.

    log p(x) = sum over the last `reinterpreted_batch_ndims` batch axes of log p(x_i)

    Args:
        distribution: The distribution of the elements.
        reinterpreted_batch_ndims: How many of the last batch axes become part of the
            event. Defaults to all but the first.

    Example:
    >>> normal = bl.distributions.Normal([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], 1.0)
    >>> independent = bl.distributions.Independent(normal, 1)
    >>> independent.batch_shape, independent.event_shape
    ((2,), (3,))
    """

    def __init__(self, distribution, reinterpreted_batch_ndims=None):
        rank = len(distribution.batch_shape)
        if reinterpreted_batch_ndims is None:
            reinterpreted_batch_ndims = max(rank - 1, 0)
        if not 0 <= reinterpreted_batch_ndims <= rank:
            raise ValueError(
                f"Independent expects `reinterpreted_batch_ndims` from 0 to {rank}, "
                f"the number of batch axes of {distribution}. Received: "
                f"reinterpreted_batch_ndims={reinterpreted_batch_ndims}"
            )
        super().__init__(
            distribution=distribution,
            reinterpreted_batch_ndims=reinterpreted_batch_ndims,
        )

    @property
    def reinterpreted_batch_ndims(self):
        """How many batch axes belong to the event."""
        return self._arguments["reinterpreted_batch_ndims"]

    @property
    def dtype(self):
        """The dtype of samples, as in `distribution`."""
        return self.distribution.dtype

    def _taken(self):
        return self.reinterpreted_batch_ndims

    @property
    def support(self):
        """Arrays with each element in the support of the distribution."""
        rank = self._taken() + self.distribution.support.event_rank
        return constraints.Elementwise(self.distribution.support, rank)

    def _sample(self, sample_shape, seed):
        return self.distribution._sample(sample_shape, seed)

    def log_prob(self, value):
        """Log of the density or probability; -inf outside of the support."""
        log_probs = self.distribution.log_prob(self._elements(value))
        return self._sum(log_probs, self._taken())

    def expected_log_prob(self, value):
        """The sum of those of the elements."""
        log_probs = self.distribution.expected_log_prob(self._elements(value))
        return self._sum(log_probs, self._taken())

    def _elements(self, value):
        """The value of each element: all count, also where it broadcasts over them."""
        value = self._standardize_value(value)
        return value + ops.zeros(self._sample_shape(()), dtype=value.dtype)

    def _mean(self):
        return self.distribution.mean()

    def _variance(self):
        return self.distribution.variance()

    def _mode(self):
        return self.distribution.mode()

    def _entropy(self):
        return self._sum(self.distribution.entropy(), self._taken())
