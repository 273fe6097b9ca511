"""Outputs with any distribution that a function makes."""

import keras
from keras import ops

from bayesian_layers.distributions import Distribution
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.register import register


@register
class DistributionLambda(OutputLayer, keras.layers.Lambda):
    """An output with any distribution that a function makes of the inputs.

    y ~ function(x)

    The function gets the inputs as tensors, in float32 or better, and returns a
    distribution; it may take `mask` and `training` too. It has no weights: for these
    write an `OutputLayer`. Serialization follows `keras.layers.Lambda`: a registered
    function is saved by its name. A Python lambda is saved as code that is loaded with
    `safe_mode=False` only, and does not find the modules that it used: write those
    that you want to save as functions.

    Args:
        function: From the inputs to a `bl.distributions.Distribution`.
        **kwargs: As in `bl.layers.OutputLayer`, and `arguments` as in
            `keras.layers.Lambda`.

    Example:
    >>> layer = bl.layers.DistributionLambda(
    ...     lambda t: bl.distributions.Normal(t[..., :1], ops.softplus(t[..., 1:]))
    ... )
    >>> y = layer(np.zeros((8, 2)))
    >>> ops.shape(y), round(float(y.stddev()[0, 0]), 4)
    ((8, 1), 0.6931)
    """

    def __init__(self, function, **kwargs):
        super().__init__(function=function, **kwargs)

    def distribution(self, inputs, mask=None, training=None):
        """Returns what the function makes of the inputs."""
        inputs = keras.tree.map_structure(self._raise_precision, inputs)
        distribution = keras.layers.Lambda.call(self, inputs, mask, training)
        if not isinstance(distribution, Distribution):
            raise TypeError(
                "DistributionLambda expects a function that returns a distribution, as "
                "in `bl.distributions`. Received from "
                f"{self.function}: {distribution!r}"
            )
        return distribution

    def _raise_precision(self, x):
        is_float = keras.backend.is_float_dtype(x.dtype)
        return ops.cast(x, self._float_dtype()) if is_float else x

    def call(self, inputs, mask=None, training=None):
        """Returns a random variable."""
        return self._random_variable(self.distribution(inputs, mask, training))

    def compute_mask(self, inputs, mask=None):
        """Returns the mask as it came."""
        return mask
