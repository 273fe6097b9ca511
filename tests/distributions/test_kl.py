"""Closed forms of KL(q || p), against integrals, sums and means of the references."""

import itertools

import numpy as np
import pytest
from keras import ops

from bayesian_layers import distributions
from bayesian_layers.distributions import transforms
from bayesian_layers.distributions.kl_divergence import (
    _closed_forms,
    closed_form,
    kl_divergence,
)
from tests.differentiation import grad, run
from tests.distributions.table import ROWS
from tests.statistics import assert_mean

WITHOUT_CLOSED_FORM = {
    "Deterministic",
    "HalfCauchy",
    "Logistic",
    "MixtureSameFamily",
    "MixtureSameFamily of vectors",
    "Quantized",
    "Radial",
    "StudentT",
    "TruncatedNormal",
}
PAIRS = [(name, name) for name in ROWS if name not in WITHOUT_CLOSED_FORM] + [
    ("Normal", "Laplace"),
    ("Uniform", "Normal"),
    ("Exponential", "Gamma"),
    ("Gamma", "Exponential"),
    ("MultivariateNormalTriL", "MultivariateNormalLowRank"),
    ("MultivariateNormalLowRank", "MultivariateNormalDiag"),
    ("Radial", "MultivariateNormalDiag"),
]


def moved(row):
    """Other parameters of the same kind, and the same counts."""
    changes = {
        "probs": lambda x: np.roll(x, 1, axis=-1),
        "low": lambda x: x - 1.0,
        "high": lambda x: x + 0.5,
        "total_count": lambda x: x,
    }

    def default(x):
        return 0.75 * x + 0.25 * (x != 0.0)

    return {
        name: changes.get(name, default)(x).astype("float32").astype("float64")
        for name, x in row.parameters.items()
    }


def integral_over_probabilities():
    """Nodes and weights of the tanh-sinh rule on (0, 1)."""
    t = np.linspace(-2.8, 2.8, 201)
    angle = 0.5 * np.pi * np.sinh(t)
    nodes = 0.5 * (1.0 + np.tanh(angle))
    weights = 0.25 * np.pi * np.cosh(t) / np.square(np.cosh(angle)) * (t[1] - t[0])
    return nodes, weights


def assert_divergence(actual, q, p, row):
    """Compares by integration, by summation, or by the mean over draws from q."""
    if row.event_shape and row.continuous:
        x = q.draw(np.random.default_rng(0), 20_000)
        ratio = q.log_prob(x) - p.log_prob(x)
        assert_mean(ratio, actual, detect=0.1 * ratio.std(axis=0))
        return
    rank = len(row.batch_shape)
    if row.continuous:
        u, weights = integral_over_probabilities()
        x = q.quantile(u.reshape(-1, *[1] * rank))
        x = np.broadcast_to(x, (len(u), *row.batch_shape))
        weights = weights.reshape(-1, *[1] * rank)
    else:
        size = 12 if row.event_shape else 150
        values = itertools.product(range(size), repeat=int(np.prod(row.event_shape)))
        values = [v for v in values if len(v) == 1 or sum(v) in range(size)]
        x = np.array(values, "float64").reshape(-1, *[1] * rank, *row.event_shape)
        x = np.broadcast_to(x, (len(x), *row.batch_shape, *row.event_shape))
        inside = support(row, x)
        x = np.where(inside.reshape(inside.shape + (1,) * len(row.event_shape)), x, 0)
        with np.errstate(divide="ignore"):
            weights = np.where(inside, np.exp(q.log_prob(x)), 0.0)
    terms = np.where(weights > 0.0, q.log_prob(x) - p.log_prob(x), 0.0)
    np.testing.assert_allclose(actual, np.sum(weights * terms, axis=0), rtol=1e-4, atol=1e-5)
