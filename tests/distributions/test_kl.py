"""Closed forms of KL(q || p), against integrals, sums and means of the references."""

import numpy as np
import pytest
from keras import ops
from scipy import stats

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
    "Compound",
    "Compound of classes",
    "Compound of counts",
    "Compound with heavy tails",
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


def integral(function, row):
    """The integral over (0, 1), by the tanh-sinh rule; its step is that of a kink."""
    t = np.linspace(-2.8, 2.8, 2001).reshape(-1, *[1] * len(row.batch_shape))
    angle = 0.5 * np.pi * np.sinh(t)
    slope = 0.25 * np.pi * np.cosh(t) / np.square(np.cosh(angle))
    values = function(0.5 * (1.0 + np.tanh(angle)))
    return np.sum(slope * values, axis=0) * (t[1] - t[0]).item()


def assert_divergence(actual, q, p, row):
    """Compares with a mean over draws from q, an integral, or a sum."""

    def log_ratio(x):
        return q.log_prob(x) - p.log_prob(x)

    if row.event_shape:
        ratios = log_ratio(q.draw(np.random.default_rng(0), 20_000))
        assert_mean(ratios, actual, detect=0.1 * ratios.std(axis=0))
        return
    if row.continuous:
        expected = integral(lambda u: log_ratio(q.quantile(u)), row)
    else:
        values = np.arange(200.0).reshape(-1, *[1] * len(row.batch_shape))
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = np.exp(q.log_prob(values))
            terms = np.where(probability > 0.0, probability * log_ratio(values), 0.0)
        expected = np.sum(terms, axis=0)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("q_name, p_name", PAIRS)
def test_closed_forms_are_the_expected_log_ratio(q_name, p_name):
    q_row, p_row = ROWS[q_name], ROWS[p_name]
    parameters = moved(q_row) if q_name == p_name else p_row.parameters
    q = q_row.distribution()
    p = p_row.make(**{n: x.astype("float32") for n, x in parameters.items()})
    others = [p, q] if q_name == p_name else [p]
    actual, *to_itself = run(lambda: [kl_divergence(q, other) for other in others])
    assert actual.shape == q_row.batch_shape
    assert_divergence(actual, q_row.oracle(), p_row.reference(**parameters), q_row)
    assert np.all(np.abs(to_itself) < 2e-5)


def test_every_closed_form_is_tested():
    families = {name: type(row.distribution()) for name, row in ROWS.items()}
    tested = {closed_form(families[q], families[p]) for q, p in PAIRS}
    assert tested == set(_closed_forms.values())
    for name in WITHOUT_CLOSED_FORM:
        assert closed_form(families[name], families[name]) is None


def test_batch_shapes_broadcast():
    q = distributions.Normal(np.zeros((2, 1)), 1.0)
    p = distributions.Normal(np.zeros(3), np.full((4, 1, 1), 2.0))
    assert ops.shape(kl_divergence(q, p)) == (4, 2, 3)
    q, p = (distributions.Independent(d, 1) for d in (q, p))
    assert ops.shape(kl_divergence(p, p)) == (4, 1)


def test_mass_where_p_has_none_is_infinitely_far():
    uniform = distributions.Uniform
    assert float(kl_divergence(uniform(0.0, 2.0), uniform(0.0, 1.0))) == np.inf
    bernoulli = distributions.Bernoulli
    certain, fair = bernoulli(probs=1.0), bernoulli(probs=0.5)
    np.testing.assert_allclose(float(kl_divergence(certain, fair)), np.log(2.0))
    assert float(kl_divergence(fair, certain)) == np.inf
    categorical = distributions.Categorical
    some, all_of_them = categorical(probs=[0.0, 1.0]), categorical(probs=[0.5, 0.5])
    np.testing.assert_allclose(float(kl_divergence(some, all_of_them)), np.log(2.0))
    assert float(kl_divergence(all_of_them, some)) == np.inf


def test_the_nearest_closed_form_serves_subclasses():
    class Shifted(distributions.Normal):
        pass

    q, p = Shifted(0.0, 1.0), distributions.Normal(1.0, 1.0)
    np.testing.assert_allclose(float(q.kl_divergence(p)), 0.5)
    with pytest.raises(ValueError, match="registered already"):
        distributions.register_kl(distributions.Normal, distributions.Normal)(None)


def test_the_monte_carlo_estimate_is_that_of_the_closed_form():
    q = distributions.Normal([0.0, 1.0], [1.0, 0.5])
    p = distributions.Normal(0.5, 2.0)
    count = 10_000
    estimate = kl_divergence(q, p, method="monte_carlo", num_samples=count, seed=0)
    # log q - log p = c - z^2 / 2 + (x - 0.5)^2 / 8 has a variance of about 1/2: 0.05
    # is seven standard errors, a false-failure rate below 1e-10.
    np.testing.assert_allclose(
        ops.convert_to_numpy(estimate),
        ops.convert_to_numpy(kl_divergence(q, p)),
        atol=0.05,
    )


def test_the_gradient_of_the_estimate_reaches_both_distributions():
    def loss(q_loc, p_loc, **kwargs):
        q = distributions.Normal(q_loc, 1.0)
        return kl_divergence(q, distributions.Normal(p_loc, 1.0), **kwargs)

    # d KL / d q_loc = q_loc - p_loc; with equal scales the estimate has no more noise.
    expected = grad(loss, 1.0, 0.25)
    estimate = grad(
        lambda q, p: loss(q, p, method="monte_carlo", num_samples=5_000, seed=0),
        1.0,
        0.25,
    )
    np.testing.assert_allclose(expected, [0.75, -0.75], atol=1e-6)
    # The standard error of both means of z + 0.75 is 1 / sqrt(5000) = 0.014.
    np.testing.assert_allclose(estimate, expected, atol=0.1)


@pytest.mark.parametrize("name", sorted(WITHOUT_CLOSED_FORM))
def test_without_a_closed_form_an_estimate_is_offered(name):
    q = ROWS[name].distribution()
    family = type(q).__name__
    message = rf"KL\({family} \|\| {family}\) .*method='monte_carlo', num_samples="
    with pytest.raises(NotImplementedError, match=message):
        q.kl_divergence(q, method="closed_form")


@pytest.mark.parametrize(
    "q, p",
    [
        (
            distributions.Binomial(3.0, probs=0.5),
            distributions.Binomial(4.0, probs=0.5),
        ),
        (
            distributions.NegativeBinomial(3.0, probs=0.5),
            distributions.NegativeBinomial(4.0, probs=0.5),
        ),
        (
            distributions.Transformed(distributions.Normal(0.0, 1.0), transforms.Exp()),
            distributions.Transformed(
                distributions.Normal(0.0, 1.0), transforms.Softplus()
            ),
        ),
    ],
    ids=lambda distribution: type(distribution).__name__,
)
def test_closed_forms_for_equals_only_refuse_others(q, p):
    with pytest.raises(NotImplementedError, match="equal .*monte_carlo"):
        kl_divergence(q, p, method="closed_form")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"method": "closed_form", "num_samples": 3}, "num_samples=3"),
        ({"method": "exact"}, "Received: method='exact'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    q = distributions.Normal(0.0, 1.0)
    with pytest.raises(ValueError, match=message):
        kl_divergence(q, q, **arguments)


def test_by_default_it_is_estimated_where_there_is_no_closed_form():
    """log q - log p of 100,000 draws: an error of 0.03 is seen.

    It has a standard deviation of about 1 (both densities are near each other), so the
    mean has a standard error of 0.003; 6 of them are 0.02, false failures below 1e-8.
    """
    q, p = distributions.Logistic(0.0, 1.0), distributions.Normal(0.0, 2.0)
    (estimate,) = run(lambda: [kl_divergence(q, p, num_samples=100_000, seed=1)])
    x = np.linspace(-60.0, 60.0, 200_001)
    log_q, log_p = stats.logistic.logpdf(x), stats.norm.logpdf(x, 0.0, 2.0)
    expected = np.trapezoid(np.exp(log_q) * (log_q - log_p), x)
    np.testing.assert_allclose(estimate, expected, atol=0.02)


def test_events_of_different_sizes_are_refused():
    three = distributions.Categorical(probs=[0.5, 0.25, 0.25])
    two = distributions.Categorical(probs=[0.5, 0.5])
    with pytest.raises(ValueError, match="3 and 2"):
        kl_divergence(three, two)
    normal = distributions.Normal(np.zeros((2, 3)), 1.0)
    one, all_axes = (distributions.Independent(normal, n) for n in (1, 2))
    with pytest.raises(ValueError, match="1 and 2"):
        kl_divergence(one, all_axes)


def test_closed_forms_are_looked_up_once_and_after_each_registration():
    from bayesian_layers.distributions.kl_divergence import closed_form

    class Own(distributions.Normal):
        pass

    assert closed_form(Own, Own) is closed_form(distributions.Normal, Own)
    hits = closed_form.cache_info().hits
    closed_form(Own, Own)
    assert closed_form.cache_info().hits == hits + 1

    @distributions.register_kl(Own, Own)
    def own(q, p):
        return q.loc

    assert closed_form(Own, Own) is own
