"""The distributions that are made from others."""

import numpy as np
from scipy import special, stats

from bayesian_layers import distributions
from bayesian_layers.distributions import transforms
from tests.distributions.references import (
    Finite,
    Independent,
    Mixture,
    Quantized,
    over_normal,
    scipy,
)
from tests.distributions.references_of_vectors import Reshaped, multivariate_normal
from tests.distributions.rows import LOCATION_SCALE, positive, real, row

row(
    "Reshaped",
    lambda loc, scale_diag: distributions.Reshaped(
        distributions.MultivariateNormalDiag(loc, scale_diag), (2, 3)
    ),
    lambda loc, scale_diag: Reshaped(
        multivariate_normal(loc, np.diag(np.square(scale_diag))), (2, 3)
    ),
    missing="cdf quantile",
    loc=real(6),
    scale_diag=positive(6),
)

row(
    "Independent",
    lambda loc, scale: distributions.Independent(distributions.Laplace(loc, scale), 1),
    lambda loc, scale: Independent(scipy(stats.laplace, loc=loc, scale=scale)),
    missing="cdf quantile",
    **LOCATION_SCALE,
)
row(
    "MixtureSameFamily",
    lambda logits, loc, scale: distributions.MixtureSameFamily(
        distributions.Categorical(logits=logits), distributions.Normal(loc, scale)
    ),
    lambda logits, loc, scale: Mixture(
        special.softmax(logits, axis=-1), scipy(stats.norm, loc=loc, scale=scale)
    ),
    missing="quantile mode entropy",
    reparameterized=False,
    logits=real(3),
    loc=real(2, 3),
    scale=positive(3),
)
row(
    "MixtureSameFamily of vectors",
    lambda logits, loc, scale_diag: distributions.MixtureSameFamily(
        distributions.Categorical(logits=logits),
        distributions.MultivariateNormalDiag(loc, scale_diag),
    ),
    lambda logits, loc, scale_diag: Mixture(
        special.softmax(logits, axis=-1),
        multivariate_normal(loc, np.square(scale_diag)[..., None] * np.eye(3)),
        event_rank=1,
    ),
    missing="cdf quantile mode entropy",
    reparameterized=False,
    logits=real(2, 3),
    loc=real(3, 3),
    scale_diag=positive(3),
)
row(
    "Transformed",
    lambda loc, scale: distributions.Transformed(
        distributions.Normal(loc, scale), transforms.Exp()
    ),
    lambda loc, scale: scipy(stats.lognorm, scale, scale=np.exp(loc)),
    missing="mean variance mode entropy",
    loc=real(2, 1),
    scale=positive(3, low=0.2, high=0.6),
)
row(
    "Transformed by a decreasing map",
    lambda loc, scale: distributions.Transformed(
        distributions.Gumbel(loc, scale), transforms.Affine(0.5, -2.0)
    ),
    lambda loc, scale: scipy(stats.gumbel_l, loc=0.5 - 2.0 * loc, scale=2.0 * scale),
    missing="mean variance mode entropy",
    **LOCATION_SCALE,
)
row(
    "Quantized",
    lambda loc, scale: distributions.Quantized(
        distributions.Logistic(loc, scale), low=-3, high=4
    ),
    lambda loc, scale: Quantized(scipy(stats.logistic, loc=loc, scale=scale), -3, 4),
    missing="quantile",
    continuous=False,
    **LOCATION_SCALE,
)
row(
    "Compound",
    lambda loc, scale, noise: distributions.Compound(
        distributions.Normal(loc, scale), distributions.Normal(0.0, noise), "loc"
    ),
    lambda loc, scale, noise: scipy(
        stats.norm, loc=loc, scale=np.sqrt(np.square(scale) + np.square(noise))
    ),
    loc=real(2, 1),
    scale=positive(3, low=0.9, high=1.1),
    noise=positive(2, 1, low=0.9, high=1.1),
)
row(
    "Compound of counts",
    lambda loc, scale: distributions.Compound(
        distributions.Normal(loc, scale),
        distributions.Poisson(log_rate=0.0),
        "log_rate",
    ),
    lambda loc, scale: over_normal(
        loc, scale, lambda f: scipy(stats.poisson, np.exp(f))
    ),
    missing="quantile mode entropy",
    continuous=False,
    loc=real(2, 1),
    scale=positive(3, low=0.2, high=0.6),
)
row(
    "Compound of classes",
    lambda loc, scale: distributions.Compound(
        distributions.Normal(loc, scale),
        distributions.Bernoulli(logits=0.0),
        "logits",
        num_nodes=64,
    ),
    lambda loc, scale: Finite(
        over_normal(
            loc, scale, lambda f: scipy(stats.bernoulli, special.expit(f))
        ).mean()[..., None]
        * [-1.0, 1.0]
        + [1.0, 0.0]
    ),
    missing="quantile",
    continuous=False,
    loc=real(2, 1),
    scale=positive(3, low=0.2, high=1.5),
)
row(
    "Compound with heavy tails",
    lambda loc, scale, noise: distributions.Compound(
        distributions.Normal(loc, scale),
        distributions.StudentT(5.0, 0.0, noise),
        "loc",
        num_nodes=40,
    ),
    lambda loc, scale, noise: over_normal(
        loc, scale, lambda f: scipy(stats.t, 5.0, loc=f, scale=noise[..., None])
    ),
    missing="quantile mode entropy",
    loc=real(2, 1),
    scale=positive(3, low=0.2, high=0.5),
    noise=positive(2, 1, low=1.0, high=2.0),
)
