"""One row for every prior: how it is made, and what SciPy makes of it."""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy import stats

from bayesian_layers import distributions, regularizers


@dataclasses.dataclass(frozen=True)
class Row:
    """A penalty, a distribution to penalize, and the references of both."""

    make: Callable
    posterior: Callable  # a distribution of one element
    reference: tuple  # the log-densities of the posterior and of the prior, by SciPy
    interval: tuple = (-5.5, 6.5)  # that has all of the posterior but 1e-14
    exact: bool = True  # whether there is a closed form
    has_prior: bool = True  # whether `prior` does not depend on the weight
    initializer: str = "trainable_normal"  # a posterior for it, in a layer
    variables: tuple = ()  # the layer's, for the prior


def normal():
    return distributions.Normal(0.5, 0.4)


def log_normal():
    return distributions.LogNormal(0.3, 0.5)


NORMAL = stats.norm(0.5, 0.4).logpdf
LOG_NORMAL = stats.lognorm(0.5, scale=np.exp(0.3)).logpdf
POSITIVE = (1e-3, 65.0)


def scale_mixture(x):
    components = [stats.norm(0.0, 1.5).logpdf(x), stats.norm(0.0, 0.2).logpdf(x)]
    return np.logaddexp(np.log(0.3) + components[0], np.log(0.7) + components[1])


ROWS = {
    "KLDivergence": Row(
        lambda **kwargs: regularizers.KLDivergence(
            distributions.Laplace(0.1, 0.7), **kwargs
        ),
        normal,
        (NORMAL, stats.laplace(0.1, 0.7).logpdf),
    ),
    "NormalKLDivergence": Row(
        lambda **kwargs: regularizers.NormalKLDivergence(0.3, 0.8, **kwargs),
        normal,
        (NORMAL, stats.norm(0.3, 0.8).logpdf),
    ),
    "NormalKLDivergenceWithTiedMean": Row(
        lambda **kwargs: regularizers.NormalKLDivergenceWithTiedMean(0.8, **kwargs),
        normal,
        (NORMAL, stats.norm(0.5, 0.8).logpdf),
        has_prior=False,
    ),
    "TrainableNormalKLDivergenceStddev": Row(
        lambda **kwargs: regularizers.TrainableNormalKLDivergenceStddev(0.3, **kwargs),
        normal,
        (NORMAL, stats.norm(0.3, 1.0).logpdf),
        variables=("kernel_prior_stddev",),
    ),
    "AnchoredNormalKLDivergence": Row(
        lambda **kwargs: regularizers.AnchoredNormalKLDivergence(0.8, 0.5, **kwargs),
        normal,
        (NORMAL, stats.norm(0.0, 0.8).logpdf),
    ),
    "NormalMixtureKLDivergence": Row(
        lambda **kwargs: regularizers.NormalMixtureKLDivergence(
            0.3, 1.5, 0.2, **kwargs
        ),
        normal,
        (NORMAL, scale_mixture),
        exact=False,
    ),
    "CauchyKLDivergence": Row(
        lambda **kwargs: regularizers.CauchyKLDivergence(0.2, 0.6, **kwargs),
        normal,
        (NORMAL, stats.cauchy(0.2, 0.6).logpdf),
        exact=False,
    ),
    "HalfCauchyKLDivergence": Row(
        lambda **kwargs: regularizers.HalfCauchyKLDivergence(0.0, 0.6, **kwargs),
        log_normal,
        (LOG_NORMAL, stats.halfcauchy(0.0, 0.6).logpdf),
        interval=POSITIVE,
        exact=False,
        initializer="trainable_log_normal",
    ),
    "LogNormalKLDivergence": Row(
        lambda **kwargs: regularizers.LogNormalKLDivergence(0.2, 0.9, **kwargs),
        log_normal,
        (LOG_NORMAL, stats.lognorm(0.9, scale=np.exp(0.2)).logpdf),
        interval=POSITIVE,
        initializer="trainable_log_normal",
    ),
    # The interval is wide, so that no draw of a small layer is outside of it.
    "UniformKLDivergence": Row(
        lambda **kwargs: regularizers.UniformKLDivergence(-6.0, 7.0, **kwargs),
        normal,
        (NORMAL, stats.uniform(-6.0, 13.0).logpdf),
        exact=False,
    ),
}

# Penalties that are no divergence from a distribution: tested by themselves.
OTHERS = {
    "LogUniformKLDivergence": regularizers.LogUniformKLDivergence,
    "NormalEmpiricalBayesKLDivergence": regularizers.NormalEmpiricalBayesKLDivergence,
}
MAKE = {**{name: row.make for name, row in ROWS.items()}, **OTHERS}


def quadrature(row):
    """The mean and the standard deviation of log q - log p under q.

    By the trapezoidal rule, with a step of 6e-5 or 3e-4: its error is below 1e-7.
    """
    x = np.linspace(*row.interval, 200_001)
    log_q, log_p = (log_density(x) for log_density in row.reference)
    difference = log_q - log_p
    mean, square = (
        np.trapezoid(np.exp(log_q) * difference**power, x) for power in (1, 2)
    )
    return mean, np.sqrt(square - mean**2)
