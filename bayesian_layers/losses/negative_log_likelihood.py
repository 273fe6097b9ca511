"""The negative log-likelihood."""

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import Categorical, Compound
from bayesian_layers.keras_contact import mask_of
from bayesian_layers.losses.alignment import align
from bayesian_layers.losses.distribution_loss import DistributionLoss
from bayesian_layers.random_variable import RandomVariable


@keras.saving.register_keras_serializable("bayesian_layers.losses")
class NegativeLogLikelihood(DistributionLoss):
    """-log p(y_true), for a model that ends with a stochastic output layer.

    The log-probability is summed over all axes but the first, and averaged over that,
    the examples. Together with `bl.scale_kl(model, dataset_size=number of examples)`
    the loss of a Bayesian network is then its negative evidence bound, per example.

    Where function values are uncertain, as those of a Gaussian process before a
    `bl.layers.GaussianLikelihood`, it is the expected log-likelihood,
    -E_{f ~ q(f)} log p(y_true | f): the data term of the evidence bound. The metric
    `bl.metrics.NegativeLogLikelihood` is of the predictive density instead,
    -log E_{f ~ q(f)} p(y_true | f).

    Targets of shape `[B]` are taken for `[B, 1]` where the output has that shape, and
    the reverse; other shapes raise. `sample_weight` may weigh examples, `[B]`, or also
    the steps of each, `[B, T]`. A mask (of an `Embedding`, say) leaves out steps. What
    has no weight may be anything, NaN or a padding label too.

    A target outside of the support has probability 0, and the loss is infinite. Labels
    that are no class of a `bl.layers.Categorical` raise where the numbers can be looked
    at: on PyTorch, and outside of compiled functions.

    An output whose examples depend on each other, as that of a Gaussian process does
    (`bl.distributions.JointNormal`), has one log-probability for all of the batch. Each
    example gets an equal part of it; weights and masks raise, as there is no term that
    they belong to.

    With `beta` above 0 each term is multiplied by its predicted variance to the power
    of beta, as a constant: a network that learns mean and variance then does not give
    up on examples with a large error by calling them noise. These factors are divided
    by their mean over the batch, for each output (column): the units of y change
    neither the gradients nor the balance with the KL. The value of the loss is no
    likelihood any more; 0.5 is a good start.

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
    estimation with probabilistic neural networks. The division by the mean is ours.
    """

    def __init__(
        self,
        beta=0.0,
        reduction="sum_over_batch_size",
        name="negative_log_likelihood",
        dtype=None,
    ):
        super().__init__(reduction, name, dtype)
        if not 0.0 <= beta <= 1.0:
            raise ValueError(f"`beta` should be between 0 and 1. Received: beta={beta}")
        self.beta = beta

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the loss of a batch."""
        _check_weights(y_pred, sample_weight)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        """Returns -log p(y_true) of each example and each position of it."""
        distribution = y_pred.distribution
        y_true = align(y_true, distribution.shape(), distribution)
        _check_labels(y_true, distribution)
        values = -self.log_likelihood(distribution, y_true)
        return _of_each_example(values, y_pred)

    def log_likelihood(self, distribution, y_true):
        """Returns the log-likelihood of each target, the expected one."""
        return distribution.expected_log_prob(y_true)

    def term_weights(self, y_pred, weights):
        """Returns the weights, times the power of the variance over its mean."""
        if not self.beta:
            return weights
        distribution = y_pred.distribution
        if distribution.event_shape:
            raise ValueError(
                "`beta` needs an output whose elements each have a distribution of "
                f"their own, such as `bl.layers.Normal`. Received: beta={self.beta} "
                f"and {type(distribution).__name__}"
            )
        powers = ops.stop_gradient(distribution.variance() ** self.beta)
        weights = ops.ones_like(powers) if weights is None else weights
        weights = ops.broadcast_to(weights, ops.shape(powers))
        # Over examples and positions; columns, the last axis, have units of their own.
        axes = tuple(range(max(1, len(powers.shape) - 1)))
        total = ops.sum(weights, axis=axes, keepdims=True)
        weighted = ops.sum(weights * powers, axis=axes, keepdims=True)
        return weights * powers * total / ops.where(weighted > 0.0, weighted, 1.0)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "beta": self.beta}


def _is_joint(y_pred):
    """Whether the examples are one event: they depend on each other."""
    return isinstance(y_pred, RandomVariable) and not y_pred.distribution.batch_shape


def _check_weights(y_pred, sample_weight):
    """Raises `ValueError` for weights or a mask of examples that are one event."""
    given = {"sample_weight": sample_weight, "a mask": mask_of(y_pred)}
    given = [name for name, weights in given.items() if weights is not None]
    if given and _is_joint(y_pred):
        raise ValueError(
            f"{type(y_pred.distribution).__name__} is a distribution of all examples "
            "together, which has one log-probability: examples have no weights of "
            f"their own. Received: {' and '.join(given)}. Leave out examples from the "
            "data instead."
        )


def _of_each_example(values, y_pred):
    """Returns the values, or equal parts of the one that all examples have."""
    if not _is_joint(y_pred):
        return values
    count = ops.shape(y_pred)[0]
    return ops.broadcast_to(values / ops.cast(count, values.dtype), (count,))


def _check_labels(y_true, distribution):
    """Raises `ValueError` for labels that are no class, if they can be looked at."""
    if isinstance(distribution, Compound):
        distribution = distribution._specimen
    if not isinstance(distribution, Categorical) or not backend.is_concrete(y_true):
        return
    inside = distribution.support.check(ops.cast(y_true, "float32"))
    if not bool(ops.all(inside)):
        first = int(ops.argmin(ops.cast(ops.reshape(inside, (-1,)), "int32")))
        label = float(ops.reshape(y_true, (-1,))[first])
        classes = distribution.num_categories
        raise ValueError(
            f"Expected labels from 0 to {classes - 1}, as there are {classes} classes. "
            f"Received: y_true with the label {label:g}. Give the head as many `units` "
            "as there are classes, or padding a `sample_weight` of 0."
        )
