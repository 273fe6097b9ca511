"""One row for every distribution: how it is made, and what it is compared with."""

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from bayesian_layers import distributions
from bayesian_layers.distributions import transforms
from tests.distributions import references
from tests.distributions.references import scipy


@dataclasses.dataclass(frozen=True)
class Row:
    """A distribution with parameters whose shapes broadcast, and its reference."""

    name: str
    make: Callable  # from parameters by name to the distribution
    reference: Callable  # from parameters by name to the reference
    parameters: dict  # float64 arrays of float32 numbers
    missing: frozenset  # the methods that raise NotImplementedError
    continuous: bool
    reparameterized: bool
    values: np.ndarray  # of shape [4, *batch, *event], from the reference

    def distribution(self, dtype="float32"):
        return self.make(**{n: v.astype(dtype) for n, v in self.parameters.items()})

    def oracle(self):
        return self.reference(**self.parameters)

    @property
    def differentiable(self):
        """The names of the parameters that are not whole numbers."""
        return [n for n, v in self.parameters.items() if np.any(v != np.round(v))]

    @property
    def batch_shape(self):
        return np.shape(self.oracle().log_prob(self.values))[1:]

    @property
    def event_shape(self):
        return self.values.shape[1 + len(self.batch_shape) :]


ROWS = {}


def row(
    name,
    make,
    reference,
    *,
    missing="",
    continuous=True,
    reparameterized=None,
    **parameters,
):
    """Adds a row; parameters are functions from a generator to an array."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    parameters = {n: _rounded(draw(rng)) for n, draw in parameters.items()}
    ROWS[name] = Row(
        name=name,
        make=make,
        reference=reference,
        parameters=parameters,
        missing=frozenset(missing.split()),
        continuous=continuous,
        reparameterized=continuous if reparameterized is None else reparameterized,
        values=_rounded(reference(**parameters).draw(rng, 4)),
    )


def _rounded(x):
    """Numbers that are the same in float32: a difference is then one of functions."""
    return np.asarray(x).astype("float32").astype("float64")


def real(*shape):
    return lambda rng: rng.normal(size=shape)


def positive(*shape, low=0.3, high=5.0):
    return lambda rng: np.exp(rng.uniform(np.log(low), np.log(high), size=shape))


def probability(*shape):
    return lambda rng: rng.uniform(0.05, 0.95, size=shape)


def simplex(*shape):
    return lambda rng: references.exact_simplex(
        rng.dirichlet(np.full(shape[-1], 2.0), size=shape[:-1])
    )


def counts(*shape):
    return lambda rng: rng.integers(1, 12, size=shape)


def lower_triangular(*shape):
    def draw(rng):
        diagonal = np.exp(rng.normal(size=shape[:-1]))[..., None] * np.eye(shape[-1])
        return np.tril(rng.normal(size=shape), -1) + diagonal

    return draw


LOCATION_SCALE = {"loc": real(2, 1), "scale": positive(3)}

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
    missing="quantile",
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
    missing="quantile",
    concentration=positive(2, 1),
    rate=positive(3),
)
row(
    "InverseGamma",
    distributions.InverseGamma,
    lambda concentration, scale: scipy(stats.invgamma, concentration, scale=scale),
    missing="quantile",
    concentration=positive(2, 1, low=5.0, high=12.0),
    scale=positive(3),
)
row(
    "Beta",
    distributions.Beta,
    lambda concentration1, concentration0: scipy(
        stats.beta, concentration1, concentration0
    ),
    missing="quantile",
    concentration1=positive(2, 1, low=0.5, high=8.0),
    concentration0=positive(3, low=1.2),
)
row(
    "Dirichlet",
    distributions.Dirichlet,
    references.dirichlet,
    missing="cdf quantile",
    concentration=positive(2, 3),
)
row(
    "Deterministic",
    distributions.Deterministic,
    references.Point,
    loc=real(2, 3),
    continuous=False,
    reparameterized=True,
)

# Families with logits or probs: a row for each.

row(
    "Bernoulli",
    distributions.Bernoulli,
    lambda logits: scipy(stats.bernoulli, special.expit(logits)),
    missing="quantile",
    logits=real(2, 3),
    continuous=False,
)
row(
    "Bernoulli of probs",
    lambda probs: distributions.Bernoulli(probs=probs, dtype="float32"),
    lambda probs: scipy(stats.bernoulli, probs),
    missing="quantile",
    probs=probability(2, 3),
    continuous=False,
)
row(
    "Binomial",
    distributions.Binomial,
    lambda total_count, logits: scipy(stats.binom, total_count, special.expit(logits)),
    missing="quantile entropy",
    total_count=counts(2, 1),
    logits=real(3),
    continuous=False,
)
row(
    "Binomial of probs",
    distributions.Binomial,
    lambda total_count, probs: scipy(stats.binom, total_count, probs),
    missing="quantile entropy",
    total_count=counts(2, 1),
    probs=probability(3),
    continuous=False,
)
row(
    "NegativeBinomial",
    distributions.NegativeBinomial,
    lambda total_count, logits: scipy(
        stats.nbinom, total_count, special.expit(-logits)
    ),
    missing="quantile entropy",
    total_count=positive(2, 1),
    logits=real(3),
    continuous=False,
)
row(
    "NegativeBinomial of probs",
    distributions.NegativeBinomial,
    lambda total_count, probs: scipy(stats.nbinom, total_count, 1.0 - probs),
    missing="quantile entropy",
    total_count=positive(2, 1),
    probs=probability(3),
    continuous=False,
)
row(
    "Poisson",
    distributions.Poisson,
    lambda rate: scipy(stats.poisson, rate),
    missing="quantile entropy",
    rate=positive(2, 3),
    continuous=False,
)
row(
    "Poisson of log_rate",
    distributions.Poisson,
    lambda log_rate: scipy(stats.poisson, np.exp(log_rate)),
    missing="quantile entropy",
    log_rate=real(2, 3),
    continuous=False,
)
row(
    "Categorical",
    distributions.Categorical,
    lambda logits: references.Finite(special.softmax(logits, axis=-1)),
    missing="quantile mean variance",
    logits=real(2, 3),
    continuous=False,
)
row(
    "Categorical of probs",
    lambda probs: distributions.Categorical(probs=probs, dtype="float32"),
    references.Finite,
    missing="quantile mean variance",
    probs=simplex(2, 3),
    continuous=False,
)
row(
    "OneHotCategorical",
    distributions.OneHotCategorical,
    lambda logits: references.OneHot(special.softmax(logits, axis=-1)),
    missing="cdf quantile",
    logits=real(2, 3),
    continuous=False,
)
row(
    "OneHotCategorical of probs",
    lambda probs: distributions.OneHotCategorical(probs=probs, dtype="float32"),
    references.OneHot,
    missing="cdf quantile",
    probs=simplex(2, 3),
    continuous=False,
)
row(
    "Multinomial",
    distributions.Multinomial,
    lambda total_count, logits: references.multinomial(
        total_count, special.softmax(logits, axis=-1)
    ),
    missing="cdf quantile mode entropy",
    total_count=counts(2),
    logits=real(3),
    continuous=False,
)
row(
    "Multinomial of probs",
    distributions.Multinomial,
    references.multinomial,
    missing="cdf quantile mode entropy",
    total_count=counts(2),
    probs=simplex(3),
    continuous=False,
)

# Multivariate normal distributions.

row(
    "MultivariateNormalDiag",
    distributions.MultivariateNormalDiag,
    lambda loc, scale_diag: references.multivariate_normal(
        loc, np.square(scale_diag)[..., None] * np.eye(3)
    ),
    missing="cdf quantile",
    loc=real(2, 3),
    scale_diag=positive(3),
)
row(
    "MultivariateNormalTriL",
    distributions.MultivariateNormalTriL,
    lambda loc, scale_tril: references.multivariate_normal(
        loc, np.tril(scale_tril) @ np.swapaxes(np.tril(scale_tril), -1, -2)
    ),
    missing="cdf quantile",
    loc=real(2, 3),
    scale_tril=lower_triangular(3, 3),
)
row(
    "MultivariateNormalLowRank",
    distributions.MultivariateNormalLowRank,
    lambda loc, cov_diag_factor, cov_perturb_factor: references.multivariate_normal(
        loc,
        cov_diag_factor[..., None] * np.eye(3)
        + cov_perturb_factor @ np.swapaxes(cov_perturb_factor, -1, -2),
    ),
    missing="cdf quantile",
    loc=real(2, 3),
    cov_diag_factor=positive(3),
    cov_perturb_factor=real(2, 3, 2),
)
row(
    "Radial",
    distributions.Radial,
    references.Radial,
    missing="cdf quantile entropy",
    loc=real(2, 3),
    scale_diag=positive(2, 3),
)

# Distributions made from others.

row(
    "Reshaped",
    lambda loc, scale_diag: distributions.Reshaped(
        distributions.MultivariateNormalDiag(loc, scale_diag), (2, 3)
    ),
    lambda loc, scale_diag: references.Reshaped(
        references.multivariate_normal(loc, np.diag(np.square(scale_diag))), (2, 3)
    ),
    missing="cdf quantile",
    loc=real(6),
    scale_diag=positive(6),
)

row(
    "Independent",
    lambda loc, scale: distributions.Independent(distributions.Laplace(loc, scale), 1),
    lambda loc, scale: references.Independent(
        scipy(stats.laplace, loc=loc, scale=scale)
    ),
    missing="cdf quantile",
    **LOCATION_SCALE,
)
row(
    "MixtureSameFamily",
    lambda logits, loc, scale: distributions.MixtureSameFamily(
        distributions.Categorical(logits=logits), distributions.Normal(loc, scale)
    ),
    lambda logits, loc, scale: references.Mixture(
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
    lambda logits, loc, scale_diag: references.Mixture(
        special.softmax(logits, axis=-1),
        references.multivariate_normal(
            loc, np.square(scale_diag)[..., None] * np.eye(3)
        ),
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
    lambda loc, scale: references.Quantized(
        scipy(stats.logistic, loc=loc, scale=scale), -3, 4
    ),
    missing="quantile",
    continuous=False,
    **LOCATION_SCALE,
)
