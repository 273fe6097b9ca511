"""The negative log-likelihood."""

import keras
from keras import ops
from keras.src.backend import get_keras_mask

from bayesian_layers.losses.alignment import align, spread
from bayesian_layers.random_variable import RandomVariable


@keras.saving.register_keras_serializable("bayesian_layers.losses")
class NegativeLogLikelihood(keras.losses.Loss):
    """-log p(y_true), for a model that ends with a stochastic output layer.

    The log-probability is summed over all axes but the first, and averaged over that,
    the examples. Together with `bl.scale_kl(model, dataset_size=number of examples)`
    the loss of a Bayesian network is then its negative evidence bound, per example.

    Targets of shape `[B]` are taken for `[B, 1]` where the output has that shape, and
    the reverse; other shapes raise. `sample_weight` may weigh examples, `[B]`, or also
    the steps of each, `[B, T]`. A mask (of an `Embedding`, say) leaves out steps.

    With `beta` above 0 each term is multiplied by its predicted variance to the power
    of beta, as a constant: a network that learns mean and variance then does not give
    up on examples with a large error by calling them noise. The value of the loss is
    no likelihood any more; 0.5 is a good start.

    Args:
        beta: A number from 0 (the default), the negative log-likelihood, to 1, where
            the mean is learned as by squared errors.
        reduction: `"sum_over_batch_size"` (the default) or `"mean"`: the mean over
            examples; `"mean_with_sample_weight"`: divided by the sum of the weights
            instead of the number of examples; `"sum"`: their sum; `"none"`: one number
            for each.
        name: The name of the loss.
        dtype: As in `keras.losses.Loss`.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.Normal(1)])
    >>> model.compile("adam", bl.losses.NegativeLogLikelihood())
    >>> history = model.fit(np.ones((8, 3)), np.ones(8), verbose=0)
    >>> sorted(history.history)
    ['loss']

    Reference: Seitzer et al. (2022), On the pitfalls of heteroscedastic uncertainty
    estimation with probabilistic neural networks.
    """

    def __init__(
        self,
        beta=0.0,
        reduction="sum_over_batch_size",
        name="negative_log_likelihood",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if not 0.0 <= beta <= 1.0:
            raise ValueError(f"`beta` should be between 0 and 1. Received: beta={beta}")
        self.beta = beta

    def __call__(self, y_true, y_pred, sample_weight=None):
        values = self.call(y_true, y_pred)
        mask = get_keras_mask(y_pred)
        if mask is not None:
            values = ops.where(spread(mask, values) > 0.0, values, 0.0)
        if sample_weight is not None:
            weights = spread(sample_weight, values)
            # What has no weight may be anything: 0 * inf would be NaN.
            values = weights * ops.where(ops.equal(weights, 0.0), 0.0, values)
        values = ops.sum(values, axis=tuple(range(1, len(values.shape))))
        return self._reduce(ops.cast(values, self.dtype), sample_weight)

    def _reduce(self, values, sample_weight):
        if self.reduction in (None, "none"):
            return values
        total = ops.sum(values)
        if self.reduction == "sum":
            return total
        if self.reduction == "mean_with_sample_weight" and sample_weight is not None:
            weights = ops.cast(sample_weight, total.dtype)
            # Of each example, where its steps have weights of their own, their mean.
            axes = tuple(range(1, len(weights.shape)))
            return total / ops.sum(ops.mean(weights, axis=axes) if axes else weights)
        return total / ops.cast(ops.shape(values)[0], total.dtype)

    def call(self, y_true, y_pred):
        """Returns -log p(y_true) of each example and each position of it."""
        if not isinstance(y_pred, RandomVariable):
            raise TypeError(
                "NegativeLogLikelihood needs the random variable that a stochastic "
                "output layer returns, such as `bl.layers.Normal` as the last layer "
                f"of the model. Received: y_pred of type {type(y_pred).__name__}"
            )
        distribution = y_pred.distribution
        values = -distribution.log_prob(align(y_true, distribution.shape()))
        if not len(values.shape):
            raise ValueError(
                "NegativeLogLikelihood needs an output with an axis for the examples. "
                f"Received: y_pred.shape={tuple(y_pred.shape)}"
            )
        return values * self._weights(distribution) if self.beta else values

    def _weights(self, distribution):
        if distribution.event_shape:
            raise ValueError(
                "`beta` needs an output whose elements each have a distribution of "
                f"their own, such as `bl.layers.Normal`. Received: beta={self.beta} "
                f"and {type(distribution).__name__}"
            )
        return ops.stop_gradient(distribution.variance() ** self.beta)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "beta": self.beta}
