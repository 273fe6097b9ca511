"""The discrete distributions: those that take logits or probs have a row for each."""

import numpy as np
from scipy import special, stats

from bayesian_layers import distributions
from tests.distributions.references import Finite, scipy
from tests.distributions.references_of_vectors import OneHot, multinomial
from tests.distributions.rows import counts, positive, probability, real, row, simplex

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
    lambda logits: Finite(special.softmax(logits, axis=-1)),
    missing="quantile mean variance",
    logits=real(2, 3),
    continuous=False,
)
row(
    "Categorical of probs",
    lambda probs: distributions.Categorical(probs=probs, dtype="float32"),
    Finite,
    missing="quantile mean variance",
    probs=simplex(2, 3),
    continuous=False,
)
row(
    "OneHotCategorical",
    distributions.OneHotCategorical,
    lambda logits: OneHot(special.softmax(logits, axis=-1)),
    missing="cdf quantile",
    logits=real(2, 3),
    continuous=False,
)
row(
    "OneHotCategorical of probs",
    lambda probs: distributions.OneHotCategorical(probs=probs, dtype="float32"),
    OneHot,
    missing="cdf quantile",
    probs=simplex(2, 3),
    continuous=False,
)
row(
    "Multinomial",
    distributions.Multinomial,
    lambda total_count, logits: multinomial(
        total_count, special.softmax(logits, axis=-1)
    ),
    missing="cdf quantile mode entropy",
    total_count=counts(2, 1),
    logits=real(3, 3),
    continuous=False,
)
row(
    "Multinomial of probs",
    distributions.Multinomial,
    multinomial,
    missing="cdf quantile mode entropy",
    total_count=counts(2, 1),
    probs=simplex(3, 3),
    continuous=False,
)
