"""A user's own covariance."""

import keras

from bayesian_layers.covariances.covariance import Covariance, register


@register
class FromFunction(Covariance):
    """The covariance that a function computes.

    It has no hyperparameters, but those of a Keras layer that is given for the
    function. Wherever a covariance is expected, the function may be given itself. For a
    covariance with hyperparameters write a `bl.covariances.Covariance`.

    Args:
        function: A function, or Keras layer, `(x, z) -> matrix`, from `[..., n, D]` and
            `[..., m, D]` to `[..., n, m]`. To be saved, it is registered with
            `keras.saving.register_keras_serializable`.
        **kwargs: `active_dims`, and all else of `bl.covariances.Covariance` but
            `batch_shape` and `fixed`: there is nothing that these could apply to.

    Example:
    >>> def overlap(x, z):
    ...     return ops.minimum(x, ops.swapaxes(z, -1, -2))
    >>> cov = bl.covariances.FromFunction(overlap)
    >>> ops.convert_to_numpy(cov(np.array([[1.0], [2.0]]))).tolist()
    [[1.0, 1.0], [1.0, 2.0]]
    >>> ops.convert_to_numpy(cov.diagonal(np.array([[1.0], [2.0]]))).tolist()
    [1.0, 2.0]
    """

    def __init__(self, function, **kwargs):
        super().__init__(batch_shape=(), fixed=(), **kwargs)
        if not callable(function):
            raise ValueError(
                "`function` should be a function (x, z) -> matrix. "
                f"Received: function={function!r}"
            )
        self.function = function

    def build(self, input_shape):
        """Builds the function, if that is a layer."""
        super().build(input_shape)
        if isinstance(self.function, keras.Layer) and not self.function.built:
            row = keras.KerasTensor((1, self.num_dims), dtype=self.precision)
            self.function(row, row)

    def matrix(self, x, z):
        """Returns what the function does."""
        return self.function(x, x if z is None else z)

    def get_config(self):
        """Returns the constructor's arguments."""
        config = super().get_config()
        del config["batch_shape"], config["fixed"]
        function = keras.saving.serialize_keras_object(self.function)
        return {**config, "function": function}

    @classmethod
    def from_config(cls, config):
        """Makes a covariance from what `get_config` returned."""
        function = keras.saving.deserialize_keras_object(config["function"])
        return cls(**{**config, "function": function})

    def __repr__(self):
        return f"FromFunction({getattr(self.function, '__name__', self.function)})"
