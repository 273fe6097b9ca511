"""The contract of losses that see the distribution of an output."""

import keras
from keras import ops

from bayesian_layers.distributions import shapes
from bayesian_layers.losses.alignment import match_rank, weights_of
from bayesian_layers.random_variable import RandomVariable


@keras.saving.register_keras_serializable("bayesian_layers.losses")
class DistributionLoss(keras.losses.Loss):
    """Base of losses of the random variable that a stochastic output layer returns.

    A `keras.losses.Loss`, and a function given to `compile`, get a draw: on JAX and
    PyTorch Keras turns the output into a tensor before it calls them, and a tensor has
    no `log_prob`. A subclass of this gets the random variable, on all backends. It
    writes `call(y_true, y_pred)`, which returns an array `[B, ...]`: a number for each
    example, or for each position of it. `bl.losses.of_distribution` makes such a loss
    of a function.

    The numbers are summed over all axes but the first, and averaged over that, the
    examples, as in `bl.losses.NegativeLogLikelihood`. `sample_weight` may weigh
    examples, `[B]`, or also the steps of each, `[B, T]`; a mask (of an `Embedding`,
    say) leaves out steps. What has no weight counts nothing, neither in the value nor
    in the gradient: targets there may be NaN, infinite or a label out of range, `call`
    gets another number in their place.

    Targets of shape `[B]` are taken for `[B, 1]` where the output has that shape, and
    the reverse. Other shapes come to `call` as they are.

    Args:
        reduction: `"sum_over_batch_size"` (the default) or `"mean"`: the mean over
            examples; `"mean_with_sample_weight"`: divided by the sum of the weights
            instead of the number of examples; `"sum"`: their sum; `"none"`: one number
            for each.
        name: The name of the loss.
        dtype: As in `keras.losses.Loss`.

    Example:
    >>> class CRPSOfNormal(bl.losses.DistributionLoss):
    ...     def call(self, y_true, y_pred):
    ...         unit = bl.distributions.Normal(0.0, 1.0)
    ...         z = (y_true - y_pred.mean()) / y_pred.stddev()
    ...         area = z * (2.0 * unit.cdf(z) - 1.0) + 2.0 * unit.prob(z)
    ...         return y_pred.stddev() * (area - np.pi**-0.5)
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.Normal(1)])
    >>> model.compile("adam", CRPSOfNormal())
    >>> history = model.fit(np.ones((8, 3)), np.ones(8), verbose=0)
    """

    def __init__(self, reduction="sum_over_batch_size", name=None, dtype=None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the loss of a batch."""
        distribution = self._distribution(y_pred)
        y_true = match_rank(y_true, distribution.shape())
        y_true = _without_weightless(y_true, y_pred, sample_weight)
        values = self.call(y_true, y_pred)
        self._check_values(values, distribution.shape())
        shape = shapes.static(values)
        weights = weights_of(y_pred, sample_weight, shape, values.dtype)
        weights = self.term_weights(y_pred, weights)
        if weights is not None:
            # What has no weight may be anything: 0 * inf would be NaN.
            values = weights * ops.where(ops.equal(weights, 0.0), 0.0, values)
        values = ops.sum(values, axis=tuple(range(1, len(shape))))
        return self._reduce(ops.cast(values, self.dtype), sample_weight)

    def call(self, y_true, y_pred):
        """Returns an array `[B, ...]` of losses, given a random variable."""
        raise NotImplementedError(f"{type(self).__name__} has to implement `call`.")

    def term_weights(self, y_pred, weights):
        """Returns what the values of `call` are multiplied by, or `None`.

        Args:
            y_pred: The random variable.
            weights: The product of `sample_weight` and mask, which broadcasts to the
                values, or `None`.
        """
        return weights

    def _distribution(self, y_pred):
        if not isinstance(y_pred, RandomVariable):
            raise TypeError(
                f"{type(self).__name__} needs the random variable that a stochastic "
                "output layer returns, such as `bl.layers.Normal` as the last layer "
                f"of the model. Received: y_pred of type {type(y_pred).__name__}"
            )
        if not len(y_pred.shape):
            raise ValueError(
                f"{type(self).__name__} needs an output with an axis for the examples. "
                f"Received: y_pred.shape={tuple(y_pred.shape)}"
            )
        return y_pred.distribution

    def _check_values(self, values, shape):
        given = shapes.static(values)
        if not given or not shapes.matches(given[:1], shape[:1]):
            raise ValueError(
                f"{type(self).__name__} needs a loss for each example, of shape "
                f"({shape[0]}, ...); it takes the mean by itself. Received: values of "
                f"shape {given} for y_pred.shape={tuple(shape)}"
            )

    def _reduce(self, values, sample_weight):
        if self.reduction in (None, "none"):
            return values
        total = ops.sum(values)
        if self.reduction == "sum":
            return total
        if self.reduction == "mean_with_sample_weight" and sample_weight is not None:
            return total / sum_of_weights(sample_weight, total.dtype)
        return total / ops.cast(ops.shape(values)[0], total.dtype)


def sum_of_weights(sample_weight, dtype):
    """The sum over examples of their weights, or of the means over their steps."""
    weights = ops.cast(sample_weight, dtype)
    axes = tuple(range(1, len(weights.shape)))
    return ops.sum(ops.mean(weights, axis=axes) if axes else weights)


def _without_weightless(y_true, y_pred, sample_weight):
    """Returns targets with another number where they have no weight.

    Leaving out the *value* of the loss there is too late: 0 times a derivative that is
    NaN is NaN. One half is inside of the intervals that distributions of real numbers
    live on; `log_prob` has finite derivatives where it is outside of the support.
    """
    distribution = y_pred.distribution
    if not shapes.matches(shapes.static(y_true), distribution.shape()):
        return y_true
    dtype = distribution.parameter_dtype
    weights = weights_of(y_pred, sample_weight, distribution.batch_shape, dtype)
    if weights is None:
        return y_true
    event = [1] * len(distribution.event_shape)
    weightless = ops.equal(ops.reshape(weights, (*ops.shape(weights), *event)), 0.0)
    if not keras.backend.is_float_dtype(distribution.dtype):
        return ops.where(weightless, ops.zeros_like(y_true), y_true)
    y_true = ops.cast(y_true, dtype)
    return ops.where(weightless, 0.5 * ops.ones_like(y_true), y_true)
