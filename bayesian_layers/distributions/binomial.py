"""The binomial distribution."""

from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.incomplete import betainc
from bayesian_layers.distributions.logits_or_probs import BinaryLogitsOrProbs
from bayesian_layers.distributions.stirling import lgamma_rest, log_gamma_density


@register
class Binomial(BinaryLogitsOrProbs):
    """The distribution of the number of successes in `total_count` trials.

    P(k) = total_count! / (k! (total_count - k)!) * p**k * (1 - p)**(total_count - k)

    Args:
        total_count: The number of trials, a nonnegative whole number.
        logits: log(p / (1 - p)), real. Give this or `probs`.
        probs: The probability p of success.

    Example:
    >>> binomial = bl.distributions.Binomial(total_count=4.0, probs=0.5)
    >>> round(float(binomial.prob(2.0)), 4)
    0.375
    """

    parameters = {
        "total_count": constraints.nonnegative_integer,
        "logits": constraints.real,
        "probs": constraints.unit_interval,
    }

    def __init__(self, total_count, logits=None, probs=None):
        super().__init__(logits, probs, total_count=total_count)

    @property
    def support(self):
        """The whole numbers from 0 to `total_count`."""
        return constraints.IntegerInterval(0, self.total_count)

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        return noise.binomial(shape, self.total_count, self.probs, self.dtype, seed)

    def _log_prob(self, value):
        count, log_count = self.total_count, ops.log(self.total_count)
        log_failure, log_success = self._log_probs()
        failures = log_gamma_density(
            count - value + 1.0, count * self._failure(), log_count + log_failure
        )
        successes = log_gamma_density(
            value + 1.0, count * self.probs, log_count + log_success
        )
        return failures + successes + lgamma_rest(count)

    def _cdf(self, value):
        count, k = self.total_count, ops.floor(value)
        inside = ops.logical_and(k >= 0.0, k < count)
        rest = ops.where(inside, count - k, 1.0)
        result = betainc(
            rest, ops.where(inside, k, 0.0) + 1.0, self._failure(), self.probs
        )
        return ops.where(inside, result, ops.cast(k >= count, self.dtype))

    def _mean(self):
        return self.total_count * self.probs

    def _variance(self):
        return self._mean() * self._failure()

    def _mode(self):
        mode = ops.floor((self.total_count + 1.0) * self.probs)
        return ops.minimum(mode, self.total_count)
