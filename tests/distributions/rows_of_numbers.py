"""The continuous distributions of numbers."""

import numpy as np
from scipy import stats

from bayesian_layers import distributions
from tests.distributions.references import Point, scipy
from tests.distributions.rows import LOCATION_SCALE, positive, real, row

for family, oracle in {
    "Normal": stats.norm,
    "Laplace": stats.laplace,
    "Logistic": stats.logistic,
    "Gumbel": stats.gumbel_r,
}.items():
    row(
        family,
        getattr(distributions, family),
        lambda loc, scale, oracle=oracle: scipy(oracle, loc=loc, scale=scale),
        **LOCATION_SCALE,
    )

row(
    "Cauchy",
    distributions.Cauchy,
    lambda loc, scale: scipy(stats.cauchy, loc=loc, scale=scale),
    missing="mean variance",
    **LOCATION_SCALE,
)
row(
    "HalfCauchy",
    distributions.HalfCauchy,
    lambda loc, scale: scipy(stats.halfcauchy, loc=loc, scale=scale),
    missing="mean variance",
    **LOCATION_SCALE,
)
row(
    "HalfNormal",
    distributions.HalfNormal,
    lambda scale: scipy(stats.halfnorm, scale=scale),
    scale=positive(2, 3),
)
row(
    "StudentT",
    distributions.StudentT,
    lambda df, loc, scale: scipy(stats.t, df, loc=loc, scale=scale),
    df=positive(2, 1, low=5.0, high=30.0),
    loc=real(2, 1),
    scale=positive(3),
)
row(
    "LogNormal",
    distributions.LogNormal,
    lambda loc, scale: scipy(stats.lognorm, scale, scale=np.exp(loc)),
    loc=real(2, 1),
    scale=positive(3, low=0.2, high=0.6),
)
row(
    "Exponential",
    distributions.Exponential,
    lambda rate: scipy(stats.expon, scale=1.0 / rate),
    rate=positive(2, 3),
)
row(
    "Uniform",
    distributions.Uniform,
    lambda low, high: scipy(stats.uniform, loc=low, scale=high - low),
    missing="mode",
    low=real(2, 1),
    high=lambda rng: 4.0 + rng.normal(size=3),
)
row(
    "TruncatedNormal",
    distributions.TruncatedNormal,
    lambda loc, scale, low, high: scipy(
        stats.truncnorm, (low - loc) / scale, (high - loc) / scale, loc=loc, scale=scale
    ),
    loc=real(2, 1),
    scale=positive(3),
    low=lambda rng: -1.0 - rng.uniform(size=(2, 1)),
    high=lambda rng: 1.0 + rng.uniform(size=3),
)
row(
    "Gamma",
    distributions.Gamma,
    lambda concentration, rate: scipy(stats.gamma, concentration, scale=1.0 / rate),
    concentration=positive(2, 1),
    rate=positive(3),
)
row(
    "InverseGamma",
    distributions.InverseGamma,
    lambda concentration, scale: scipy(stats.invgamma, concentration, scale=scale),
    concentration=positive(2, 1, low=5.0, high=12.0),
    scale=positive(3),
)
row(
    "Beta",
    distributions.Beta,
    lambda concentration1, concentration0: scipy(
        stats.beta, concentration1, concentration0
    ),
    concentration1=positive(2, 1, low=0.5, high=8.0),
    concentration0=positive(3, low=1.2),
)
row(
    "Deterministic",
    distributions.Deterministic,
    Point,
    loc=real(2, 3),
    continuous=False,
    reparameterized=True,
)
