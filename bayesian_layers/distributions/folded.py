"""Families |z| of a symmetric standard distribution."""

from keras import ops

from bayesian_layers.distributions.distribution import Distribution
from bayesian_layers.distributions.functions import LOG_2


class Folded(Distribution):
    """Base of the families x = loc + scale * |z|, with z symmetric around zero.

    A subclass names the distribution of z; `loc` is zero where a family has none.
    """

    def _symmetric(self):
        """The distribution of `loc + scale * z`, before values below loc are folded."""
        raise NotImplementedError

    def _sample(self, sample_shape, seed):
        base = self._symmetric()
        return base.loc + ops.abs(base._sample(sample_shape, seed) - base.loc)

    def _log_prob(self, value):
        return LOG_2 + self._symmetric()._log_prob(value)

    def _log_survival(self, value):
        base = self._symmetric()
        return LOG_2 + base._log_survival(ops.maximum(value, base.loc))

    def _quantile(self, probability):
        return self._symmetric()._quantile(0.5 + 0.5 * probability)

    def _mode(self):
        return self._symmetric().loc

    def _entropy(self):
        return self._symmetric()._entropy() - LOG_2
