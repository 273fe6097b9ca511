"""The categorical distribution."""

import keras
from keras import ops

from bayesian_layers.distributions import constraints, noise
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import multiply_no_nan
from bayesian_layers.distributions.logits_or_probs import VectorLogitsOrProbs


@register
class Categorical(VectorLogitsOrProbs):
    """The distribution of one of k classes, as an integer from 0 to k - 1.

    P(i) = probs[i] = softmax(logits)[i]

    Args:
        logits: Log-probabilities up to a constant, of shape `[..., k]`. Give these or
            `probs`.
        probs: Probabilities, of shape `[..., k]`, with sum one on the last axis.
        dtype: The dtype of samples. Defaults to `"int32"`.

    Example:
    >>> categorical = bl.distributions.Categorical(probs=[0.25, 0.5, 0.25])
    >>> round(float(categorical.log_prob(1)), 4)
    -0.6931
    >>> int(categorical.mode())
    1
    """

    parameters = {"logits": constraints.real_vector, "probs": constraints.simplex}

    def __init__(self, logits=None, probs=None, dtype="int32"):
        dtype = keras.backend.standardize_dtype(dtype)
        super().__init__(logits, probs, dtype=dtype)

    @property
    def dtype(self):
        """The dtype of samples."""
        return self._arguments["dtype"]

    @property
    def support(self):
        """The whole numbers from 0 to k - 1."""
        return constraints.IntegerInterval(0, self.num_categories - 1)

    def _sample(self, sample_shape, seed):
        # The largest of the logits, each with Gumbel noise of its own.
        logits = self._log_probs()
        shape = (*sample_shape, *ops.shape(logits))
        u = noise.uniform(shape, self.parameter_dtype, seed)
        return ops.cast(ops.argmax(logits - ops.log(-ops.log(u)), axis=-1), self.dtype)

    def _log_prob(self, value):
        log_probs = self._log_probs()
        shape = ops.shape(log_probs[..., 0] + ops.zeros_like(value))
        log_probs = ops.broadcast_to(log_probs, (*shape, self.num_categories))
        index = ops.broadcast_to(ops.cast(value, "int32"), shape)
        return ops.take_along_axis(log_probs, index[..., None], axis=-1)[..., 0]

    def _cdf(self, value):
        classes = ops.arange(self.num_categories, dtype=self.parameter_dtype)
        below = ops.cast(classes <= value[..., None], self.parameter_dtype)
        return ops.sum(self.probs * below, axis=-1)

    def _mode(self):
        return ops.cast(ops.argmax(self.logits, axis=-1), self.dtype)

    def _entropy(self):
        return -ops.sum(multiply_no_nan(self.probs, self._log_probs()), axis=-1)
