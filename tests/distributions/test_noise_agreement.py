"""With the same noise, samples are the same on all backends: a function of the noise.

The samplers of the backends are replaced by fixed numbers, and the samples compared
with the formula, in NumPy, that the class documents or that SciPy has as a quantile.
Poisson and binomial counts are drawn by the backends themselves, from no such noise.
"""

import keras
import numpy as np
import pytest
from keras import ops

from bayesian_layers import backend
from tests.distributions.table import ROWS

COUNT = 50


class Noise:
    """Replaces the samplers, and remembers what it gave."""

    def __init__(self, monkeypatch):
        self.rng = np.random.default_rng(0)
        self.given = []
        monkeypatch.setattr(keras.random, "normal", self.normal)
        monkeypatch.setattr(keras.random, "uniform", self.uniform)
        monkeypatch.setattr(backend, "random_gamma", self.gamma)

    def give(self, numbers, dtype):
        numbers = numbers.astype("float32").astype("float64")
        self.given.append(numbers)
        return ops.convert_to_tensor(numbers, dtype)

    def normal(self, shape, dtype, seed):
        return self.give(self.rng.normal(size=shape), dtype)

    def uniform(self, shape, dtype, seed):
        # Multiples of 2^-23, as samplers in float32 have them.
        return self.give(self.rng.integers(0, 2**23, size=shape) / 2**23, dtype)

    def gamma(self, shape, concentration, dtype, seed):
        concentration = ops.convert_to_numpy(concentration)
        return self.give(self.rng.gamma(concentration, size=shape), dtype)


def centred(u):
    """What is made of uniform noise: numbers strictly between 0 and 1."""
    return u + 2.0**-24


def log_gamma(concentration, boosted, u):
    return np.log(boosted) + np.log(centred(u)) / concentration


def gumbel_argmax(log_probs, u):
    return np.argmax(log_probs - np.log(-np.log(centred(u))), axis=-1)


def softmax_log(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def by_quantile(row, u):
    return row.oracle().quantile(centred(u))


def normal(row, z):
    return row.parameters["loc"] + row.parameters["scale"] * z


def student(row, z, boosted, u):
    p = row.parameters
    log_chi_square = np.log(2.0) + log_gamma(0.5 * p["df"], boosted, u)
    return p["loc"] + p["scale"] * z * np.sqrt(p["df"] / np.exp(log_chi_square))


def gamma(row, boosted, u):
    p = row.parameters
    return np.exp(log_gamma(p["concentration"], boosted, u)) / p["rate"]


def inverse_gamma(row, boosted, u):
    p = row.parameters
    return p["scale"] / np.exp(log_gamma(p["concentration"], boosted, u))


def beta(row, boosted1, u1, boosted0, u0):
    p = row.parameters
    first = np.exp(log_gamma(p["concentration1"], boosted1, u1))
    return first / (first + np.exp(log_gamma(p["concentration0"], boosted0, u0)))


def dirichlet(row, boosted, u):
    gammas = np.exp(log_gamma(row.parameters["concentration"], boosted, u))
    return gammas / gammas.sum(axis=-1, keepdims=True)


def low_rank(row, z, w):
    p = row.parameters
    factor = p["cov_perturb_factor"]
    correlated = np.einsum("...ij,...j->...i", factor, w)
    return p["loc"] + np.sqrt(p["cov_diag_factor"]) * z + correlated


def kronecker(row, z):
    p = row.parameters
    z = z.reshape(*z.shape[:-1], 3, 2)
    deviation = p["row_tril"] @ z @ np.swapaxes(p["column_tril"], -1, -2)
    return p["loc"] + deviation.reshape(*z.shape[:-2], 6)


def radial(row, z, r):
    p = row.parameters
    direction = z / np.linalg.norm(z, axis=-1, keepdims=True)
    return p["loc"] + p["scale_diag"] * direction * r


def mixture(row, u, z):
    p = row.parameters
    choice = gumbel_argmax(softmax_log(p["logits"]), u)[..., None]
    draws = p["loc"] + p["scale"] * z
    return np.take_along_axis(draws, choice, -1)[..., 0]


FORMULAS = {
    "Normal": normal,
    "Laplace": by_quantile,
    "Logistic": by_quantile,
    "Gumbel": by_quantile,
    "Cauchy": by_quantile,
    "Uniform": by_quantile,
    "TruncatedNormal": by_quantile,
    "HalfNormal": lambda row, z: np.abs(row.parameters["scale"] * z),
    "HalfCauchy": lambda row, u: (
        row.parameters["loc"]
        + np.abs(row.parameters["scale"] * np.tan(np.pi * (centred(u) - 0.5)))
    ),
    "LogNormal": lambda row, z: np.exp(normal(row, z)),
    "Exponential": lambda row, u: -np.log(centred(u)) / row.parameters["rate"],
    "StudentT": student,
    "Gamma": gamma,
    "InverseGamma": inverse_gamma,
    "Beta": beta,
    "Dirichlet": dirichlet,
    "Bernoulli": lambda row, u: (
        centred(u) < 1.0 / (1.0 + np.exp(-row.parameters["logits"]))
    ),
    "Categorical": lambda row, u: gumbel_argmax(
        softmax_log(row.parameters["logits"]), u
    ),
    "OneHotCategorical": lambda row, u: np.eye(3)[
        gumbel_argmax(softmax_log(row.parameters["logits"]), u)
    ],
    "MultivariateNormalDiag": lambda row, z: (
        row.parameters["loc"] + row.parameters["scale_diag"] * z
    ),
    "MultivariateNormalTriL": lambda row, z: (
        row.parameters["loc"] + z @ row.parameters["scale_tril"].T
    ),
    "MultivariateNormalLowRank": low_rank,
    "MultivariateNormalKronecker": kronecker,
    "Radial": radial,
    "MixtureSameFamily": mixture,
    "Transformed": lambda row, z: np.exp(normal(row, z)),
    "Quantized": lambda row, u: np.clip(
        np.round(row.oracle().base.quantile(centred(u))), -3, 4
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_sample_is_its_formula_of_the_noise(name, monkeypatch):
    row = ROWS[name]
    noise = Noise(monkeypatch)
    sample = ops.convert_to_numpy(row.distribution().sample(COUNT, seed=0))
    expected = FORMULAS[name](row, *noise.given)
    np.testing.assert_allclose(sample, expected, rtol=2e-4, atol=2e-5)
