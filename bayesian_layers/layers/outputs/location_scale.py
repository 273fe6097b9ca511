"""Outputs with a location and a scale."""

from bayesian_layers import distributions
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.outputs.parameters import positive
from bayesian_layers.layers.register import register


class LocationScale(OutputLayer):
    """Base of outputs with a location and a scale."""

    scale_parameter = "scale"

    def sizes(self, count):
        return {"loc": count, "scale": count}


@register
class Normal(LocationScale):
    """An output with a normal distribution: real numbers, with noise of their own.

    y ~ Normal(loc(x), softplus(scale(x)) + 1e-5)

    Without `units` it takes `[..., 2 * n]` to `[..., n]`: the first half of the last
    axis are the locations, the second the scales before they are made positive. With
    `units` a trainable linear map makes both from the inputs.

    Train it with `bl.losses.NegativeLogLikelihood`, and get its distribution from
    `bl.predict(model, x)` or `model(x).distribution`. To other losses and to other
    layers it is a draw from that distribution.

    Args:
        units: The number n of outputs, or `None`: no map is added, and n follows from
            the inputs.
        homoscedastic: If `True`, the scale is not computed from the inputs: there is
            one trainable scale for each output, and without `units` the inputs carry
            the other parameters only.
        convert: What other layers, losses and metrics see of the random variable:
            `"sample"` (the default), a draw from it, its `"mean"` or its `"mode"`.
        prior: A distribution, to which the KL of the output is added to the losses,
            summed over all axes but the first and averaged over that: for latent
            variables. Estimated by a draw where it has no closed form.
        kl_weight: Number that multiplies that KL. Defaults to 1.
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

    def distribution(self, loc, scale):
        return distributions.Normal(loc, positive(scale))


@register
class LogNormal(LocationScale):
    """An output with a log-normal distribution: positive, with a long upper tail.

    log y ~ Normal(loc(x), softplus(scale(x)) + 1e-5); `[..., 2 * n] -> [..., n]`,
    locations first. Arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.LogNormal(2)(np.ones((8, 3))))
    (8, 2)
    """

    def distribution(self, loc, scale):
        return distributions.LogNormal(loc, positive(scale))


@register
class Laplace(LocationScale):
    """An output with a Laplace distribution: its likelihood is the absolute error.

    y ~ Laplace(loc(x), softplus(scale(x)) + 1e-5); `[..., 2 * n] -> [..., n]`,
    locations first. Arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.Laplace()(np.ones((8, 4))))
    (8, 2)
    """

    def distribution(self, loc, scale):
        return distributions.Laplace(loc, positive(scale))


@register
class Logistic(LocationScale):
    """An output with a logistic distribution: as normal, with heavier tails.

    y ~ Logistic(loc(x), softplus(scale(x)) + 1e-5); `[..., 2 * n] -> [..., n]`,
    locations first. Arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.Logistic()(np.ones((8, 4))))
    (8, 2)
    """

    def distribution(self, loc, scale):
        return distributions.Logistic(loc, positive(scale))


@register
class StudentT(LocationScale):
    """An output with Student's t distribution: robust to outliers.

    y ~ StudentT(2 + softplus(df(x)), loc(x), softplus(scale(x)) + 1e-5);
    `[..., 3 * n] -> [..., n]`, degrees of freedom first, then locations, then scales.
    With more than two degrees of freedom mean and variance exist. Arguments as in
    `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.StudentT()(np.ones((8, 6))))
    (8, 2)
    """

    draws_gamma_noise = True

    def sizes(self, count):
        return {"df": count, **super().sizes(count)}

    def distribution(self, df, loc, scale):
        return distributions.StudentT(2.0 + positive(df), loc, positive(scale))
