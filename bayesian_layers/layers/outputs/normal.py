"""Normal outputs."""

from bayesian_layers import distributions
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.outputs.positive import positive
from bayesian_layers.layers.register import register


@register
class Normal(OutputLayer):
    """An output with a normal distribution: real numbers, with noise of their own.

    y ~ Normal(loc(x), softplus(scale(x)) + 1e-5)

    Without `units` it takes `[..., 2 * n]` to `[..., n]`: the first half of the last
    axis are the locations, the second the scales before they are made positive. With
    `units` a trainable linear map makes both from the inputs.

    Train it with `bl.losses.NegativeLogLikelihood`, and get its distribution from
    `bl.predict(model, x)` or `model(x).distribution`. To other losses and to other
    layers it is a draw from that distribution.

    Args:
        units: The number n of outputs, or `None`.
        convert: What other layers and metrics see: `"sample"` (the default),
            `"mean"` or `"mode"`.
        seed: Integer seed of the draws. Defaults to a random one.
        kernel_initializer: Initializer of the linear map.
        bias_initializer: Initializer of its bias.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.Normal(1)
    >>> y = layer(np.ones((8, 3)))
    >>> ops.shape(y), ops.shape(y.mean())
    ((8, 1), (8, 1))
    """

    def sizes(self, count):
        return {"loc": count, "scale": count}

    def distribution(self, loc, scale):
        return distributions.Normal(loc, positive(scale))
