"""The negative binomial distribution."""

from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import bounded_exp
from bayesian_layers.distributions.incomplete import betainc
from bayesian_layers.distributions.logits_or_probs import BinaryLogitsOrProbs
from bayesian_layers.distributions.stirling import lgamma_rest, log_gamma_density


@register
class NegativeBinomial(BinaryLogitsOrProbs):
    """The distribution of the number of successes before `total_count` failures.

    P(k) = Gamma(k + n) / (k! Gamma(n)) * p**k * (1 - p)**n, with n = total_count

    It is a Poisson distribution whose rate is gamma distributed; n may be any
    positive number.

    Args:
        total_count: The number n of failures, positive.
        logits: log(p / (1 - p)), real. Give this or `probs`.
        probs: The probability p of success, below one.

    Example:
    >>> negative_binomial = bl.distributions.NegativeBinomial(3.0, probs=0.25)
    >>> round(float(negative_binomial.mean()), 4)
    1.0
    """

    parameters = {
        "total_count": constraints.positive,
        "logits": constraints.real,
        "probs": constraints.unit_interval,
    }
    support = constraints.nonnegative_integer
    draws_gamma_noise = True

    def __init__(self, total_count, logits=None, probs=None):
        super().__init__(logits, probs, total_count=total_count)

    def _odds(self):
        log_failure, log_success = self._log_probs()
        return ops.exp(log_success - log_failure)

    def _sample(self, sample_shape, seed):
        shape = self._sample_shape(sample_shape)
        gamma_seed, poisson_seed = noise.split(seed, 2)
        log_gamma = noise.log_gamma(shape, self.total_count, self.dtype, gamma_seed)
        log_failure, log_success = self._log_probs()
        rate = bounded_exp(log_success - log_failure + log_gamma, self.dtype)
        return noise.poisson(shape, rate, self.dtype, poisson_seed)

    def _log_prob(self, value):
        total = self.total_count + value
        log_total = ops.log(total)
        log_failure, log_success = self._log_probs()
        successes = log_gamma_density(
            value + 1.0, total * self.probs, log_total + log_success
        )
        failures = log_gamma_density(
            self.total_count, total * self._failure(), log_total + log_failure
        )
        return successes + failures + log_failure + lgamma_rest(total)

    def _cdf(self, value):
        k = ops.floor(value)
        failure, success = self._failure(), self.probs
        below = betainc(self.total_count, ops.maximum(k, 0.0) + 1.0, failure, success)
        return ops.where(k >= 0.0, below, 0.0)

    def _mean(self):
        return self.total_count * self._odds()

    def _variance(self):
        return self._mean() * (1.0 + self._odds())

    def _mode(self):
        return ops.floor(ops.maximum(self.total_count - 1.0, 0.0) * self._odds())
