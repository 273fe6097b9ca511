"""The multinomial distribution."""

from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.logits_or_probs import VectorLogitsOrProbs
from bayesian_layers.distributions.stirling import lgamma_rest, log_gamma_density


@register
class Multinomial(VectorLogitsOrProbs):
    """The distribution of the counts of k classes in `total_count` trials.

    P(n_1, ..., n_k) = total_count! * prod_i probs[i]**n_i / n_i!

    Args:
        total_count: The number of trials, a nonnegative whole number, of shape `[...]`.
        logits: Log-probabilities up to a constant, of shape `[..., k]`. Give these or
            `probs`.
        probs: Probabilities, of shape `[..., k]`, with sum one on the last axis.

    Example:
    >>> multinomial = bl.distributions.Multinomial(4.0, probs=[0.25, 0.5, 0.25])
    >>> [round(float(m), 4) for m in multinomial.mean()]
    [1.0, 2.0, 1.0]
    """

    parameters = {
        "total_count": constraints.nonnegative_integer,
        "logits": constraints.real_vector,
        "probs": constraints.simplex,
    }

    def __init__(self, total_count, logits=None, probs=None):
        super().__init__(logits, probs, total_count=total_count)

    @property
    def event_shape(self):
        """`(k,)`."""
        return (self.num_categories,)

    @property
    def support(self):
        """The vectors of whole numbers with sum `total_count`."""
        return constraints.Counts(self.total_count)

    def _sample(self, sample_shape, seed):
        # One class after the other: given the earlier counts, a count is binomial.
        # The cost does not depend on the number of trials.
        shape = (*sample_shape, *self._dynamic_batch_shape())
        probs = self.probs
        tails = ops.flip(ops.cumsum(ops.flip(probs, axis=-1), axis=-1), axis=-1)
        ratios = ops.clip(probs / ops.maximum(tails, 1e-30), 0.0, 1.0)
        left = ops.broadcast_to(self.total_count, shape)
        counts = []
        for index, part in enumerate(noise.split(seed, self.num_categories - 1)):
            ratio = ratios[..., index]
            counts.append(noise.binomial(shape, left, ratio, self.dtype, part))
            left = left - counts[-1]
        return ops.stack([*counts, left], axis=-1)

    def _log_prob(self, value):
        count = self.total_count[..., None]
        terms = log_gamma_density(
            value + 1.0, count * self.probs, ops.log(count) + self._log_probs()
        )
        return ops.sum(terms, axis=-1) + lgamma_rest(self.total_count)

    def _mean(self):
        return self.total_count[..., None] * self.probs

    def _variance(self):
        return self._mean() * (1.0 - self.probs)
