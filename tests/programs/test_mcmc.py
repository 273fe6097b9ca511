"""Draws of NUTS and HMC: closed forms, and NumPyro's own on the same models."""

import sys

import keras
import numpy as np
import pytest
from scipy import stats

import bayesian_layers as bl
from tests.statistics import assert_counts, assert_distributed_as

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="`bl.mcmc` runs on JAX only."
)
RNG = np.random.default_rng(0)


def run(program, data=None, **arguments):
    settings = {"num_warmup": 300, "num_samples": 400, "seed": 0, "progress_bar": False}
    return bl.mcmc(program, data, **{**settings, **arguments})


@pytest.fixture(scope="module")
def expected():
    """NumPyro's draws of its own versions of two models, which are independent."""
    from jax.random import PRNGKey
    from numpyro.infer import MCMC, NUTS

    def both():
        numpyro_schools(ERRORS, EFFECTS)
        numpyro_logistic(X, CLASSES)

    sampler = MCMC(
        NUTS(both, target_accept_prob=0.95),
        num_warmup=300,
        num_samples=400,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(PRNGKey(1))
    return {n: np.asarray(v) for n, v in sampler.get_samples(True).items()}


def standard_error(draws):
    """Of the mean of `[chains, draws, ...]`, by the effective sample size."""
    from numpyro.diagnostics import effective_sample_size

    return draws.std(axis=(0, 1)) / np.sqrt(effective_sample_size(draws))


def assert_moments(draws, mean, variance=None, error=0.0):
    """Mean and variance within Monte Carlo error, at a false-failure rate of 1e-6.

    `error` is the standard error of the expected mean, where that is one of draws.
    """
    draws = draws.astype("float64")
    width = stats.norm.isf(0.5e-6 / max(np.size(mean), 1))
    errors = np.sqrt(standard_error(draws) ** 2 + np.square(error))
    assert np.all(np.abs(draws.mean(axis=(0, 1)) - mean) < width * errors)
    # So many that an error of a third of a standard deviation cannot hide.
    assert np.all(width * errors < 0.35 * draws.std(axis=(0, 1)))
    if variance is not None:
        assert_moments(np.square(draws - mean), variance)


# Programs against NumPyro.

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], "float32")
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], "float32")


def schools(errors):
    mu = bl.Normal(0.0, 5.0, name="mu")
    tau = bl.HalfCauchy(0.0, 5.0, name="tau")
    z = bl.Normal(0.0, 1.0, sample_shape=(8,), name="z")
    theta = bl.Deterministic(mu + tau * z, name="theta")
    return bl.Normal(theta, errors, name="y")


def numpyro_schools(errors, effects):
    import numpyro
    from numpyro.distributions import HalfCauchy, Normal

    mu = numpyro.sample("mu", Normal(0.0, 5.0))
    tau = numpyro.sample("tau", HalfCauchy(5.0))
    z = numpyro.sample("z", Normal(0.0, 1.0).expand([8]))
    theta = numpyro.deterministic("theta", mu + tau * z)
    numpyro.sample("y", Normal(theta, errors), obs=effects)


@pytest.fixture(scope="module")
def schools_draws():
    return run(
        schools, {"errors": ERRORS, "y": EFFECTS}, seed=3, target_accept_prob=0.95
    )


def test_eight_schools_as_by_numpyro(schools_draws, expected):
    assert set(schools_draws) == set(expected) - {"kernel", "bias"}
    for name, draws in schools_draws.items():
        other = expected[name]
        error = standard_error(other)
        assert_moments(draws, other.mean(axis=(0, 1)), error=error)


def test_deterministic_variables_follow_and_names_keep_their_order(schools_draws):
    assert list(schools_draws) == ["mu", "tau", "z", "theta"]
    mu, tau, z, theta = (schools_draws[name] for name in schools_draws)
    np.testing.assert_allclose(mu[..., None] + tau[..., None] * z, theta, rtol=1e-4)
    assert theta.shape == (4, 400, 8)


def test_arviz_and_statistics(schools_draws):
    table = schools_draws.summary()
    assert table["r_hat"].max() < 1.05
    assert table["ess_bulk"].min() > 100
    stats_group = schools_draws.to_arviz()["sample_stats"]
    assert {"diverging", "acceptance_rate", "lp", "energy"} <= set(stats_group)
    # The log-density up to what the map of tau adds, at the first draw.
    first = {name: schools_draws[name][0, 0] for name in ("mu", "tau", "z")}
    data = {"errors": ERRORS, "y": EFFECTS}
    log_joint = float(bl.make_log_joint_fn(schools, data)(**first))
    lp = stats_group["lp"].values[0, 0]
    np.testing.assert_allclose(lp, log_joint + np.log(first["tau"]), rtol=1e-4)


X = RNG.normal(size=(80, 2)).astype("float32")
CLASSES = (RNG.uniform(size=(80, 1)) < 1 / (1 + np.exp(-X[:, :1] - 0.5))).astype(
    "int32"
)


def numpyro_logistic(x, y):
    import numpyro
    from numpyro.distributions import Bernoulli, Normal

    kernel = numpyro.sample("kernel", Normal(0.0, 1.0).expand([2, 1]))
    bias = numpyro.sample("bias", Normal(0.0, 1.0).expand([1]))
    numpyro.sample("classes", Bernoulli(logits=x @ kernel + bias), obs=y)


def test_logistic_regression_as_a_keras_model_as_by_numpyro(expected):
    layer = bl.layers.DenseFlipout(
        1, bias_initializer="trainable_normal", bias_regularizer="normal_kl_divergence"
    )
    model = keras.Sequential([keras.Input((2,)), layer])
    draws = run(
        model,
        (X, CLASSES),
        likelihood=lambda f: bl.distributions.Bernoulli(logits=f),
        start="posterior",
    )
    assert [name.split("/")[-1] for name in draws] == ["kernel", "bias"]
    for name, value in draws.items():
        other = expected[name.split("/")[-1]]
        error = standard_error(other)
        assert_moments(value, other.mean(axis=(0, 1)), error=error)


# Closed forms.

NOISE, PRIOR = 0.5, 2.0
Y = (X @ [[1.0], [-2.0]] + NOISE * RNG.normal(size=(80, 1))).astype("float32")
COVARIANCE = np.linalg.inv(X.T.astype("float64") @ X / NOISE**2 + np.eye(2) / PRIOR**2)
MEAN = COVARIANCE @ X.T @ Y[:, 0] / NOISE**2


def linear_model(**kwargs):
    penalty = bl.regularizers.NormalKLDivergence(stddev=PRIOR)
    layer = bl.layers.DenseReparameterization(1, kernel_regularizer=penalty, **kwargs)
    return keras.Sequential([keras.Input((2,)), layer])


def likelihood(f):
    return bl.distributions.Normal(f, NOISE)


def test_a_linear_layer_has_its_conjugate_posterior():
    model = linear_model(use_bias=False)
    before = model.get_weights()
    draws = run(model, (X, Y), likelihood=likelihood, num_samples=500)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    (kernels,) = draws.values()
    assert kernels.shape == (4, 500, 2, 1)
    assert_moments(kernels[..., 0], MEAN, np.diag(COVARIANCE))
    products = np.prod(kernels[..., 0] - MEAN, axis=-1)
    assert_moments(products, COVARIANCE[0, 1])
    prediction = bl.predict(model, X, draws=draws, verbose=0)
    flat = kernels.reshape(-1, 2)
    np.testing.assert_allclose(prediction.mean[:, 0], X @ flat.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(
        prediction.epistemic[:, 0], (X @ flat.T).var(axis=1), rtol=1e-3
    )


def test_biases_are_held_and_named_and_hmc_draws_from_the_posterior():
    model = linear_model()
    model.layers[0].bias.assign([3.0])
    # A quarter of a turn, in the posterior of a normal distribution.
    settings = {"kernel": "hmc", "num_chains": 1, "trajectory_length": 1.5}
    settings["num_samples"] = 2000
    with pytest.warns(UserWarning, match="dense_reparameterization.*bias.*bias_init"):
        draws = run(model, (X, Y + 3.0), likelihood=likelihood, **settings)
    (kernels,) = draws.values()
    assert kernels.shape == (1, 2000, 2, 1)
    assert_moments(kernels[..., 0], MEAN, np.diag(COVARIANCE))


def conjugate():
    """Supports of all kinds, each with data that keep its family."""
    p = bl.Beta(2.0, 3.0, name="p")
    bl.Binomial(20.0, probs=p, value=14.0, name="successes")
    rate = bl.Gamma(2.0, 1.0, name="rate")
    bl.Poisson(
        rate, sample_shape=3, value=np.array([3.0, 5.0, 4.0], "float32"), name="n"
    )
    simplex = bl.Dirichlet(np.array([1.0, 2.0, 3.0], "float32"), name="simplex")
    bl.Multinomial(
        10.0, probs=simplex, value=np.array([5.0, 2.0, 3.0], "float32"), name="counts"
    )
    width = bl.HalfNormal(2.0, name="width")
    # Its support depends on another variable.
    bl.Uniform(0.0, width, name="inside")


MARGINALS = {
    "p": stats.beta(16, 9),
    "rate": stats.gamma(14, scale=1 / 4),
    "width": stats.halfnorm(scale=2.0),
}


def test_supports_are_mapped_with_their_volume():
    draws = run(conjugate, num_samples=1000, target_accept_prob=0.95)
    for name, expected in MARGINALS.items():
        thinned = draws[name][:, ::4].ravel()
        assert_distributed_as(thinned, expected.cdf, detect=0.16)
        assert_moments(draws[name], expected.mean(), expected.var())
    simplex, concentration = draws["simplex"], np.array([6.0, 4.0, 6.0])
    np.testing.assert_allclose(simplex.sum(axis=-1), 1.0, rtol=1e-5)
    expected = stats.dirichlet(concentration)
    assert_moments(simplex, expected.mean(), expected.var())
    share = (draws["inside"] / draws["width"])[:, ::4].ravel()
    assert_distributed_as(share, stats.uniform.cdf, detect=0.16)


@pytest.mark.slow
def test_ranks_of_truths_are_uniform():
    """Simulation-based calibration, with all data sets as one program.

    They are independent, so that each has its own posterior in it.
    """
    count, size, bins = 500, 5, 10
    rng = np.random.default_rng(4)
    mean = rng.normal(size=(count, 1))
    scale = np.abs(rng.normal(size=(count, 1))) + 1e-3
    y = (mean + scale * rng.normal(size=(count, size))).astype("float32")

    def program():
        mean = bl.Normal(0.0, 1.0, sample_shape=(count, 1), name="mean")
        scale = bl.HalfNormal(1.0, sample_shape=(count, 1), name="scale")
        bl.Normal(mean + np.zeros((1, size), "float32"), scale, value=y, name="y")

    # Chains of three draws far from each other: nine of them, and ten ranks.
    draws = run(
        program, num_chains=3, num_samples=90, target_accept_prob=0.9, start="prior"
    )
    for name, truth in (("mean", mean), ("scale", scale)):
        kept = draws[name][:, 29::30].reshape(bins - 1, count)
        ranks = np.sum(kept < truth[:, 0], axis=0)
        assert_counts(ranks, np.full(bins, 1.0 / bins), detect=0.22)


# Starts, seeds and errors, on the smallest programs.


def gaussian():
    w = bl.Normal(1.0, 2.0, name="w")
    bl.Normal(w, 1.0, value=0.5, name="y")


SHORT = {"kernel": "hmc", "num_warmup": 200, "num_samples": 5, "num_chains": 2}


def test_equal_seeds_are_equal_draws():
    first, second = (run(gaussian, start="prior", **SHORT)["w"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_chains_start_where_they_are_told_to():
    fixed = {
        "trajectory_length": None,
        "adapt_step_size": False,
        "step_size": 1e-6,
        "num_steps": 1,
    }
    arguments = {**SHORT, "num_warmup": 0, "start": {"w": np.array([3.0, 7.0])}}
    draws = run(gaussian, **arguments, **fixed)
    np.testing.assert_allclose(draws["w"], [[3.0] * 5, [7.0] * 5], atol=1e-3)


def test_divergences_are_told():
    steps = {"adapt_step_size": False, "step_size": 1e3}
    with pytest.warns(UserWarning, match=r"of 10 draws .* diverged"):
        draws = run(gaussian, **{**SHORT, "num_warmup": 0}, **steps)
    assert draws.num_divergences > 0


def discrete():
    bl.Bernoulli(probs=0.5, name="coin")


def nameless():
    bl.Normal(0.0, 1.0)


def observed():
    bl.Normal(0.0, 1.0, value=1.0, name="y")


def impossible():
    w = bl.Normal(0.0, 1.0, name="w")
    bl.HalfNormal(1.0, value=w * 0.0 - 1.0, name="negative")


REFUSED = {
    "discrete": (discrete, {}, "'coin' is discrete"),
    "nameless": (nameless, {}, "without a name"),
    "nothing": (observed, {}, "nothing to draw"),
    "zero density": (impossible, {}, "No place to start"),
    "kernel": (gaussian, {"kernel": "gibbs"}, "kernel='gibbs'"),
    "start": (gaussian, {"start": "zero"}, "start='zero'"),
    "start name": (gaussian, {"start": {"v": np.zeros(4)}}, "start for each"),
    "start shape": (gaussian, {"start": {"w": 0.0}}, "value for each chain"),
    "bad start": (gaussian, {"start": {"w": np.full(4, np.nan)}}, "should start"),
    "chains": (gaussian, {"num_chains": 0}, "num_chains=0"),
    "samples": (gaussian, {"num_samples": 0}, "num_samples=0"),
    "method": (gaussian, {"chain_method": "fast"}, "chain_method='fast'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_refused(case):
    program, arguments, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        run(program, **arguments)


def test_a_weight_without_a_prior_is_named():
    model = keras.Sequential(
        [keras.Input((2,)), bl.layers.DenseFlipout(1, kernel_regularizer=None)]
    )
    with pytest.raises(ValueError, match="kernel' has no prior"):
        run(model, (X, Y), likelihood=likelihood)


def test_without_numpyro_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    monkeypatch.setitem(sys.modules, "numpyro.infer", None)
    with pytest.raises(ImportError, match=r'numpyro.*"bayesian-layers\[mcmc\]"'):
        run(gaussian)
