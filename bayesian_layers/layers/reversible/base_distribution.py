"""The distribution that a flow starts from."""

import keras
from keras import ops

from bayesian_layers.distributions import Distribution, Normal
from bayesian_layers.layers.register import register
from bayesian_layers.layers.returning import ReturnsRandomVariables


@register
class BaseDistribution(ReturnsRandomVariables):
    """Independent draws of one distribution, as many as there are examples.

    x ~ distribution, for each example, whatever the inputs are: of these only the shape
    matters. It is what reversible layers start from in a model that `fit` trains,

        base = bl.layers.BaseDistribution()
        model = keras.Sequential([keras.Input((2,)), base, flow])
        model.compile("adam", bl.losses.NegativeLogLikelihood())
        model.fit(x, x)

    where the targets are the data, and the inputs too, if there is nothing else to
    condition on.

    Args:
        shape: Integer or tuple: the shape of the draw of one example. Defaults to that
            of an input.
        distribution: A distribution without batch axes: of numbers, then all elements
            are independent, or of arrays of the last axes of `shape`. Defaults to
            `bl.distributions.Normal(0.0, 1.0)`.
        **kwargs: As in `bl.layers.ReturnsRandomVariables`.

    Example:
    >>> x = bl.layers.BaseDistribution(2)(np.zeros((8, 5)))
    >>> ops.shape(x), ops.shape(x.log_prob(np.zeros((8, 2))))
    ((8, 2), (8, 2))
    """

    def __init__(self, shape=None, distribution=None, **kwargs):
        super().__init__(**kwargs)
        distribution = Normal(0.0, 1.0) if distribution is None else distribution
        if not isinstance(distribution, Distribution) or distribution.batch_shape:
            raise ValueError(
                "BaseDistribution expects a distribution without batch axes, such as "
                "`bl.distributions.Normal(0.0, 1.0)`. "
                f"Received: distribution={distribution!r}"
            )
        if shape is not None:
            shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.event = shape
        self.base = distribution

    def distribution(self, inputs):
        """Returns the distribution of the draws."""
        shape = ops.shape(inputs)
        shape = shape if self.event is None else (shape[0], *self.event)
        event = self.base.event_shape
        batch, last = shape[: len(shape) - len(event)], shape[len(shape) - len(event) :]
        if tuple(last) != tuple(event) or not batch:
            raise ValueError(
                f"{self.base} has values of shape {event}. Received: draws of shape "
                f"{tuple(shape)} asked for, which does not end with it."
            )
        return self.base._broadcast_batch(batch)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "shape": self.event,
            "distribution": keras.saving.serialize_keras_object(self.base),
        }

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        base = keras.saving.deserialize_keras_object(config["distribution"])
        return cls(**{**config, "distribution": base})
