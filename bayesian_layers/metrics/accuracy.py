"""The accuracy of classifiers."""

import keras
from keras import ops

from bayesian_layers.distributions import OneHotCategorical
from bayesian_layers.keras_contact import optimized
from bayesian_layers.metrics.weighted_mean import MeanOfClasses


@optimized("up")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class Accuracy(MeanOfClasses):
    """How often the most probable class is right.

    The string `"accuracy"` will not do for a model that ends with a head: Keras takes
    what it sees, one class for each example, for scores of classes. For
    `bl.layers.Categorical`, `Bernoulli` and `OneHotCategorical`, for likelihoods of
    classes, for a `bl.Prediction` of a classifier and for probabilities; labels may be
    of shape `[B]` or `[B, 1]`. Masked steps are left out. A label that is no class
    raises; in a compiled function the result is NaN.

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

    def values(self, distribution, labels):
        """Returns 1 where the most probable class is the label, and 0 elsewhere."""
        modes = distribution.mode()
        if isinstance(distribution, OneHotCategorical):
            modes = ops.argmax(modes, axis=-1)
        return ops.equal(ops.cast(modes, "int32"), labels)
