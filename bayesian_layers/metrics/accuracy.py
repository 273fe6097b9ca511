"""The accuracy of classifiers."""

import keras
from keras import ops

from bayesian_layers.distributions import Bernoulli, Categorical, OneHotCategorical
from bayesian_layers.keras_contact import optimized
from bayesian_layers.losses.alignment import align, weights_of
from bayesian_layers.random_variable import RandomVariable


@optimized("up")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class Accuracy(keras.metrics.Mean):
    """How often the most probable class is right, for a model that ends with a head.

    The string `"accuracy"` will not do: Keras takes what it sees, one class for each
    example, for scores of classes. For `bl.layers.Categorical`, `Bernoulli` and
    `OneHotCategorical`, and for likelihoods of classes; labels may be of shape `[B]` or
    `[B, 1]`. Masked steps are left out.

    Args:
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.Categorical(4)])
    >>> model.compile(
    ...     loss=bl.losses.NegativeLogLikelihood(), metrics=[bl.metrics.Accuracy()]
    ... )
    >>> x, y = np.ones((8, 3)), np.zeros(8)
    >>> sorted(model.evaluate(x, y, verbose=0, return_dict=True))
    ['accuracy', 'loss']
    """

    def __init__(self, name="accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        families = (Bernoulli, Categorical, OneHotCategorical)
        distribution = None
        if isinstance(y_pred, RandomVariable):
            distribution = y_pred.distribution.predictive()
        if not isinstance(distribution, families):
            raise TypeError(
                "Accuracy needs the random variable of a head such as "
                f"`bl.layers.Categorical`. Received: y_pred={y_pred!r}"
            )
        modes = distribution.mode()
        labels = align(y_true, distribution.shape(), distribution)
        right = ops.equal(ops.cast(labels, modes.dtype), modes)
        if isinstance(distribution, OneHotCategorical):
            right = ops.all(right, axis=-1)
        right = ops.cast(right, self.dtype)
        weights = weights_of(y_pred, sample_weight, right.shape, self.dtype)
        if weights is not None:
            weights = ops.broadcast_to(weights, ops.shape(right))
        return super().update_state(right, sample_weight=weights)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype}
