"""Outputs without noise."""

from bayesian_layers import distributions
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.register import register


@register
class Deterministic(OutputLayer):
    """An output without noise, as a random variable that has one value.

    y = loc(x); `[..., n] -> [..., n]`, or `n = units` from a trainable linear map. For
    programs and models that ask for a distribution where there is none. Other arguments
    as in `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> y = bl.layers.Deterministic()(np.ones((8, 2)))
    >>> ops.shape(y), float(y.stddev()[0, 0])
    ((8, 2), 0.0)
    """

    def sizes(self, count):
        return {"loc": count}

    def distribution(self, loc):
        return distributions.Deterministic(loc)
