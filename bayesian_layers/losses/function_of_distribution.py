"""A loss from a function of the target and of the random variable."""

import keras

from bayesian_layers.losses.distribution_loss import DistributionLoss


def of_distribution(function, reduction="sum_over_batch_size", name=None, dtype=None):
    """Makes a loss of a function that needs the distribution of an output.

    `compile(loss=lambda y, rv: -rv.log_prob(y))` works by itself on TensorFlow only:
    on JAX and PyTorch Keras hands a function a tensor, and the error is that it "has no
    attribute 'log_prob'". With this around the function it works on all backends, for
    each of several outputs too. It can be used as a decorator.

    Args:
        function: From `y_true` and the random variable to an array `[B, ...]`: a number
            for each example, or for each position of it. To save a compiled model,
            register it by `keras.saving.register_keras_serializable`.
        reduction: As in `bl.losses.DistributionLoss`.
        name: The name of the loss. Defaults to that of the function.
        dtype: As in `keras.losses.Loss`.

    Returns:
        A `bl.losses.DistributionLoss`.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.Normal(1)])
    >>> model.compile("adam", bl.losses.of_distribution(lambda y, rv: -rv.log_prob(y)))
    >>> history = model.fit(np.ones((8, 3)), np.ones(8), verbose=0)
    """
    return FunctionOfDistribution(function, reduction, name, dtype)


@keras.saving.register_keras_serializable("bayesian_layers.losses")
class FunctionOfDistribution(DistributionLoss):
    """What `of_distribution` returns."""

    def __init__(
        self, function, reduction="sum_over_batch_size", name=None, dtype=None
    ):
        if not callable(function):
            raise TypeError(
                "`of_distribution` needs a function of `y_true` and of a random "
                f"variable. Received: function={function!r}"
            )
        name = name or getattr(function, "__name__", None)
        super().__init__(reduction, name, dtype)
        self.function = function

    def call(self, y_true, y_pred):
        """Returns what the function does."""
        return self.function(y_true, y_pred)

    def get_config(self):
        """Returns the constructor's arguments."""
        function = keras.saving.serialize_keras_object(self.function)
        return {**super().get_config(), "function": function}

    @classmethod
    def from_config(cls, config):
        """Makes a loss from what `get_config` returned."""
        function = keras.saving.deserialize_keras_object(config["function"])
        return cls(**{**config, "function": function})
