"""Distributions made from another distribution."""

import functools

from keras import ops

from bayesian_layers.distributions.distribution import Distribution


class Wrapper(Distribution):
    """Base of the distributions that are made from one other, `distribution`.

    A subclass may take batch axes of it into the event: `_taken()` says how many.
    """

    @property
    def distribution(self):
        """The distribution that this one is made from."""
        return self._arguments["distribution"]

    @property
    def reparameterized(self):
        """Whether samples are differentiable, as in `distribution`."""
        return self.distribution.reparameterized

    @functools.cached_property
    def parameter_dtype(self):
        """The dtype that is computed in, as in `distribution`."""
        return self.distribution.parameter_dtype

    def _taken(self):
        return 0

    def _split(self):
        return len(self.distribution.batch_shape) - self._taken()

    @functools.cached_property
    def batch_shape(self):
        """The batch axes that are left."""
        return self.distribution.batch_shape[: self._split()]

    @property
    def event_shape(self):
        """The batch axes that were taken, then the event axes of `distribution`."""
        base = self.distribution
        return (*base.batch_shape[self._split() :], *base.event_shape)

    def _dynamic_batch_shape(self):
        return self.distribution._dynamic_batch_shape()[: self._split()]

    def _broadcast_batch(self, batch):
        taken = self.distribution._dynamic_batch_shape()[self._split() :]
        base = self.distribution._broadcast_batch((*batch, *taken))
        return self.rebuild({**self._arguments, "distribution": base})

    @staticmethod
    def _sum(values, rank):
        """Sums over the last `rank` axes."""
        return ops.sum(values, axis=tuple(range(-rank, 0))) if rank else values
