"""Families that take logits or probabilities."""

from keras import ops

from bayesian_layers.distributions.distribution import Distribution
from bayesian_layers.distributions.functions import (
    logit,
    safe_log,
    safe_log1m,
)


class LogitsOrProbs(Distribution):
    """Base of the families of which either `logits` or `probs` is given.

    Whatever was given, `logits` and `probs` are both there to be read.
    """

    reparameterized = False

    def __init__(self, logits, probs, **arguments):
        if (logits is None) == (probs is None):
            raise ValueError(
                f"{type(self).__name__} expects exactly one of `logits` and `probs`. "
                f"Received: logits={logits}, probs={probs}"
            )
        super().__init__(logits=logits, probs=probs, **arguments)


class BinaryLogitsOrProbs(LogitsOrProbs):
    """Base of the families with one probability of success."""

    @property
    def logits(self):
        """log(p / (1 - p)) for the probability of success p."""
        given = self._parameter("logits")
        return logit(self._parameter("probs")) if given is None else given

    @property
    def probs(self):
        """The probability of success."""
        given = self._parameter("probs")
        return ops.sigmoid(self._parameter("logits")) if given is None else given

    def _failure(self):
        """1 - probs, precise for logits where probs is close to one."""
        logits = self._parameter("logits")
        return 1.0 - self.probs if logits is None else ops.sigmoid(-logits)

    def _log_probs(self):
        """Logarithms of the probabilities of failure and of success."""
        logits = self._parameter("logits")
        if logits is not None:
            return ops.log_sigmoid(-logits), ops.log_sigmoid(logits)
        probs = self._parameter("probs")
        return safe_log1m(probs), safe_log(probs)


class VectorLogitsOrProbs(LogitsOrProbs):
    """Base of the families with a vector of probabilities on the last axis."""

    @property
    def logits(self):
        """Log-probabilities up to a constant, of shape `[..., k]`."""
        given = self._parameter("logits")
        return ops.log(self._parameter("probs")) if given is None else given

    @property
    def probs(self):
        """Probabilities, of shape `[..., k]`."""
        given = self._parameter("probs")
        logits = self._parameter("logits")
        return ops.softmax(logits, axis=-1) if given is None else given

    @property
    def num_categories(self):
        """The length k of the last axis."""
        (value,) = [
            self._arguments[n] for n in ("logits", "probs") if n in self._given()
        ]
        return value.shape[-1]

    def _log_probs(self):
        logits = self._parameter("logits")
        if logits is not None:
            return ops.log_softmax(logits, axis=-1)
        return safe_log(self._parameter("probs"))
