"""Outputs that are single numbers."""

from bayesian_layers import distributions
from bayesian_layers.distributions.transforms import Softplus
from bayesian_layers.layers.outputs.family_layer import FamilyLayer
from bayesian_layers.layers.outputs.parameters import FLOOR
from bayesian_layers.layers.register import register


@register
class Normal(FamilyLayer):
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
        kernel_initializer: Initializer of the linear map. Defaults to Glorot's uniform
            one, a hundredth of it in the columns of the scale: the noise starts at
            softplus(0) = 0.69, whatever the inputs.
        bias_initializer: Initializer of its bias.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.Normal(1)
    >>> y = layer(np.ones((8, 3)))
    >>> ops.shape(y), ops.shape(y.mean())
    ((8, 1), (8, 1))
    """

    family = distributions.Normal


@register
class LogNormal(FamilyLayer):
    """An output with a log-normal distribution: positive, with a long upper tail.

    log y ~ Normal(loc(x), softplus(scale(x)) + 1e-5); `[..., 2 * n] -> [..., n]`,
    locations first. Arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.LogNormal(2)(np.ones((8, 3))))
    (8, 2)
    """

    family = distributions.LogNormal


@register
class Laplace(FamilyLayer):
    """An output with a Laplace distribution: its likelihood is the absolute error.

    y ~ Laplace(loc(x), softplus(scale(x)) + 1e-5); `[..., 2 * n] -> [..., n]`,
    locations first. Arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.Laplace()(np.ones((8, 4))))
    (8, 2)
    """

    family = distributions.Laplace


@register
class Logistic(FamilyLayer):
    """An output with a logistic distribution: as normal, with heavier tails.

    y ~ Logistic(loc(x), softplus(scale(x)) + 1e-5); `[..., 2 * n] -> [..., n]`,
    locations first. Arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.Logistic()(np.ones((8, 4))))
    (8, 2)
    """

    family = distributions.Logistic


@register
class StudentT(FamilyLayer):
    """An output with Student's t distribution: robust to outliers.

    y ~ StudentT(2 + softplus(df(x)), loc(x), softplus(scale(x)) + 1e-5);
    `[..., 3 * n] -> [..., n]`, degrees of freedom first, then locations, then scales.
    With more than two degrees of freedom mean and variance exist. Arguments as in
    `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.StudentT()(np.ones((8, 6))))
    (8, 2)
    """

    family = distributions.StudentT
    maps = {"df": Softplus(2.0 + FLOOR)}


@register
class Gamma(FamilyLayer):
    """An output with a gamma distribution: positive.

    y ~ Gamma(concentration(x), rate(x)), both softplus(...) + 1e-5;
    `[..., 2 * n] -> [..., n]`, concentrations first. Arguments as in
    `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Gamma()(np.ones((8, 4))))
    (8, 2)
    """

    family = distributions.Gamma


@register
class Beta(FamilyLayer):
    """An output with a beta distribution: between 0 and 1.

    y ~ Beta(concentration1(x), concentration0(x)), both softplus(...) + 1e-5;
    `[..., 2 * n] -> [..., n]`, concentrations of 1 first. Arguments as in
    `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Beta()(np.ones((8, 4))))
    (8, 2)
    """

    family = distributions.Beta


@register
class Exponential(FamilyLayer):
    """An output with an exponential distribution: waiting times.

    y ~ Exponential(softplus(rate(x)) + 1e-5); `[..., n] -> [..., n]`. Arguments as in
    `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Exponential()(np.ones((8, 2))))
    (8, 2)
    """

    family = distributions.Exponential


@register
class Poisson(FamilyLayer):
    """An output with a Poisson distribution: counts.

    y ~ Poisson(softplus(rate(x)) + 1e-5); `[..., n] -> [..., n]`. Arguments as in
    `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Poisson()(np.ones((8, 2))))
    (8, 2)
    """

    family = distributions.Poisson


@register
class NegativeBinomial(FamilyLayer):
    """An output with a negative binomial distribution: counts that vary more.

    y ~ NegativeBinomial(softplus(total_count(x)) + 1e-5, logits(x));
    `[..., 2 * n] -> [..., n]`, total counts first. Arguments as in `bl.layers.Normal`,
    but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.NegativeBinomial()(np.ones((8, 4))))
    (8, 2)
    """

    family = distributions.NegativeBinomial
    # The mean is an exponential of them.
    calm = ("logits",)


@register
class Deterministic(FamilyLayer):
    """An output without noise, as a random variable that has one value.

    y = loc(x); `[..., n] -> [..., n]`, or `n = units` from a trainable linear map. For
    programs and models that ask for a distribution where there is none. Other arguments
    as in `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> y = bl.layers.Deterministic()(np.ones((8, 2)))
    >>> ops.shape(y), float(y.stddev()[0, 0])
    ((8, 2), 0.0)
    """

    family = distributions.Deterministic
