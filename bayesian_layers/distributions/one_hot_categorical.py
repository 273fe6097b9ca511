"""The categorical distribution over one-hot vectors."""

import keras
from keras import ops

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.categorical import Categorical
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.functions import multiply_no_nan
from bayesian_layers.distributions.logits_or_probs import VectorLogitsOrProbs


@register
class OneHotCategorical(VectorLogitsOrProbs):
    """The distribution of one of k classes, as a one-hot vector of length k.

    P(e_i) = probs[i] = softmax(logits)[i]

    Args:
        logits: Log-probabilities up to a constant, of shape `[..., k]`. Give these or
            `probs`.
        probs: Probabilities, of shape `[..., k]`, with sum one on the last axis.
        dtype: The dtype of samples. Defaults to `"int32"`.

    Example:
    >>> one_hot = bl.distributions.OneHotCategorical(probs=[0.25, 0.5, 0.25])
    >>> round(float(one_hot.log_prob([0, 1, 0])), 4)
    -0.6931
    """

    parameters = {"logits": constraints.real_vector, "probs": constraints.simplex}
    support = constraints.one_hot

    def __init__(self, logits=None, probs=None, dtype="int32"):
        dtype = keras.backend.standardize_dtype(dtype)
        super().__init__(logits, probs, dtype=dtype)

    @property
    def dtype(self):
        """The dtype of samples."""
        return self._arguments["dtype"]

    @property
    def event_shape(self):
        """`(k,)`."""
        return (self.num_categories,)

    def _categorical(self):
        return Categorical.rebuild({**self._arguments, "dtype": "int32"})

    def _one_hot(self, classes):
        return ops.one_hot(classes, self.num_categories, dtype=self.dtype)

    def _sample(self, sample_shape, seed):
        return self._one_hot(self._categorical()._sample(sample_shape, seed))

    def _log_prob(self, value):
        return ops.sum(multiply_no_nan(value, self._log_probs()), axis=-1)

    def _mean(self):
        return self.probs

    def _variance(self):
        return self.probs * (1.0 - self.probs)

    def _mode(self):
        return self._one_hot(self._categorical()._mode())

    def _entropy(self):
        return self._categorical()._entropy()
