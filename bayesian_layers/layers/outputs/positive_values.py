"""Outputs that are positive, between 0 and 1, or counts."""

from bayesian_layers import distributions
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.outputs.parameters import positive
from bayesian_layers.layers.register import register


@register
class Gamma(OutputLayer):
    """An output with a gamma distribution: positive.

    y ~ Gamma(concentration(x), rate(x)), both softplus(...) + 1e-5;
    `[..., 2 * n] -> [..., n]`, concentrations first. Arguments as in
    `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Gamma()(np.ones((8, 4))))
    (8, 2)
    """

    draws_gamma_noise = True

    def sizes(self, count):
        return {"concentration": count, "rate": count}

    def distribution(self, concentration, rate):
        return distributions.Gamma(positive(concentration), positive(rate))


@register
class Beta(OutputLayer):
    """An output with a beta distribution: between 0 and 1.

    y ~ Beta(concentration1(x), concentration0(x)), both softplus(...) + 1e-5;
    `[..., 2 * n] -> [..., n]`, concentrations of 1 first. Arguments as in
    `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Beta()(np.ones((8, 4))))
    (8, 2)
    """

    draws_gamma_noise = True

    def sizes(self, count):
        return {"concentration1": count, "concentration0": count}

    def distribution(self, concentration1, concentration0):
        return distributions.Beta(positive(concentration1), positive(concentration0))


@register
class Exponential(OutputLayer):
    """An output with an exponential distribution: waiting times.

    y ~ Exponential(softplus(rate(x)) + 1e-5); `[..., n] -> [..., n]`. Arguments as in
    `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Exponential()(np.ones((8, 2))))
    (8, 2)
    """

    def sizes(self, count):
        return {"rate": count}

    def distribution(self, rate):
        return distributions.Exponential(positive(rate))


@register
class Poisson(OutputLayer):
    """An output with a Poisson distribution: counts.

    y ~ Poisson(softplus(rate(x)) + 1e-5); `[..., n] -> [..., n]`. Arguments as in
    `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.Poisson()(np.ones((8, 2))))
    (8, 2)
    """

    draws_gamma_noise = True

    def sizes(self, count):
        return {"rate": count}

    def distribution(self, rate):
        return distributions.Poisson(positive(rate))


@register
class NegativeBinomial(OutputLayer):
    """An output with a negative binomial distribution: counts that vary more.

    y ~ NegativeBinomial(softplus(total_count(x)) + 1e-5, logits(x));
    `[..., 2 * n] -> [..., n]`, total counts first. Arguments as in `bl.layers.Normal`,
    but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.NegativeBinomial()(np.ones((8, 4))))
    (8, 2)
    """

    draws_gamma_noise = True

    def sizes(self, count):
        return {"total_count": count, "logits": count}

    def distribution(self, total_count, logits):
        return distributions.NegativeBinomial(positive(total_count), logits)
