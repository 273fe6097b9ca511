"""Compound distributions: means over an uncertain parameter, against SciPy's."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import integrate, special, stats

from bayesian_layers import distributions as d
from bayesian_layers.distributions import transforms
from tests.differentiation import run, values_and_grad

MEANS = np.array([-1.0, 0.3, 1.5])
SPREADS = np.array([0.4, 0.9, 0.2])


def softplus(x):
    return np.logaddexp(0.0, x)


# The distribution given f, the name of the parameter and the link; log p(y | f) and y.
CASES = {
    "normal": (
        (d.Normal(0.0, 0.5), "loc", None),
        lambda y, f: stats.norm.logpdf(y, f, 0.5),
        [0.2, -1.0, 3.0],
    ),
    "a link": (
        (d.Normal(0.0, 0.8), "loc", "sigmoid"),
        lambda y, f: stats.norm.logpdf(y, special.expit(f), 0.8),
        [0.2, -1.0, 3.0],
    ),
    "counts by exp": (
        (d.Poisson(log_rate=0.0), "log_rate", None),
        lambda y, f: stats.poisson.logpmf(y, np.exp(f)),
        [0.0, 2.0, 7.0],
    ),
    "counts by softplus": (
        (d.Poisson(rate=1.0), "rate", transforms.Softplus()),
        lambda y, f: stats.poisson.logpmf(y, softplus(f)),
        [0.0, 2.0, 7.0],
    ),
    "classes": (
        (d.Bernoulli(logits=0.0), "logits", None),
        lambda y, f: stats.bernoulli.logpmf(y, special.expit(f)),
        [0.0, 1.0, 1.0],
    ),
    "heavy tails": (
        (d.StudentT(4.0, 0.0, 1.0), "loc", None),
        lambda y, f: stats.t.logpdf(y, 4.0, f),
        [0.2, -1.0, 8.0],
    ),
    "waiting times": (
        (d.Exponential(1.0), "rate", transforms.Exp()),
        lambda y, f: stats.expon.logpdf(y, scale=np.exp(-f)),
        [0.2, 1.0, 3.0],
    ),
}


def mean_over_f(function, y, mean, spread):
    """E function(y, f), by SciPy's adaptive quadrature."""
    ends = mean - 12.0 * spread, mean + 12.0 * spread
    return integrate.quad(
        lambda f: function(y, f) * stats.norm.pdf(f, mean, spread),
        *ends,
        points=[mean],
        epsabs=1e-12,
    )[0]


@pytest.fixture(scope="module")
def values():
    """What is computed by our code, for all cases in one program."""

    def evaluate(mean, spread):
        latent = d.Normal(mean, spread)
        results = {}
        for name, (arguments, _, y) in CASES.items():
            compound = d.Compound(latent, *arguments)
            results[name] = {
                # One more axis, to see that values have axes of their own.
                "expected_log_prob": compound.expected_log_prob(np.array([y, y])),
                "log_prob": compound.log_prob(np.array([y, y])),
                "mean": compound.mean(),
                "variance": compound.variance(),
            }
        return results

    return run(evaluate, MEANS.astype("float32"), SPREADS.astype("float32"))


@pytest.mark.parametrize("name", CASES)
def test_log_likelihoods_are_those_of_scipy(values, name):
    _, log_prob, y = CASES[name]
    cases = list(zip(y, MEANS, SPREADS, strict=True))
    expected = [mean_over_f(log_prob, *case) for case in cases]
    result = values[name]["expected_log_prob"]
    np.testing.assert_allclose(result, [expected] * 2, rtol=2e-5, atol=2e-5)
    density = [mean_over_f(lambda y, f: np.exp(log_prob(y, f)), *c) for c in cases]
    result = values[name]["log_prob"]
    np.testing.assert_allclose(result, np.log([density] * 2), rtol=2e-5, atol=5e-5)
    # Jensen's inequality.
    assert np.all(values[name]["expected_log_prob"] < values[name]["log_prob"])


MOMENTS = {
    "a link": (special.expit, lambda f: 0.64),
    "counts by exp": (np.exp, np.exp),
    "counts by softplus": (softplus, softplus),
    "classes": (special.expit, lambda f: special.expit(f) * special.expit(-f)),
    "heavy tails": (lambda f: f, lambda f: 2.0),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_follow_the_laws_of_total_expectation_and_variance(values, name):
    mean_of, variance_of = MOMENTS[name]
    for i, case in enumerate(zip(MEANS, SPREADS, strict=True)):
        mean = mean_over_f(lambda _, f: mean_of(f), None, *case)
        second = mean_over_f(
            lambda _, f: variance_of(f) + np.square(mean_of(f)), None, *case
        )
        np.testing.assert_allclose(values[name]["mean"][i], mean, rtol=1e-4)
        variance = second - mean**2
        np.testing.assert_allclose(values[name]["variance"][i], variance, rtol=1e-3)


def classes():
    rng = np.random.default_rng(0)
    latent = d.Normal(rng.normal(size=(2, 3)).astype("float32"), 0.7)
    nodes = rng.normal(size=(2, 3, 5)).astype("float32")
    return d.Compound(latent, d.Categorical(logits=[0.0]), "logits", nodes=nodes)


def test_classes_are_a_mixture_over_the_draws():
    compound = classes()
    assert (compound.batch_shape, compound.event_shape) == ((2,), ())
    f = ops.expand_dims(compound.latent.loc, -1) + 0.7 * compound.nodes
    mixture = d.MixtureSameFamily(
        d.Categorical(logits=np.zeros((2, 5), "float32")),
        d.Categorical(logits=ops.transpose(f, (0, 2, 1))),
    )
    y = np.array([[0, 1], [2, 2]])

    def evaluate():
        predictive = compound.predictive()
        assert type(predictive) is d.Categorical
        return (
            [q.log_prob(y) for q in (compound, predictive, mixture)],
            compound.expected_log_prob(y),
            compound.mode(),
        )

    log_probs, expected, mode = run(evaluate)
    for log_prob in log_probs[:2]:
        np.testing.assert_allclose(log_prob, log_probs[2], rtol=1e-5)
    logits = np.moveaxis(ops.convert_to_numpy(f), -1, 0)
    chosen = special.log_softmax(logits, axis=-1).mean(axis=0)
    np.testing.assert_allclose(
        expected, [[chosen[0, 0], chosen[1, 1]], chosen[:, 2]], rtol=1e-5
    )
    probs = special.softmax(logits, axis=-1).mean(axis=0)
    np.testing.assert_array_equal(mode, probs.argmax(axis=-1))


def test_classes_go_through_a_config_with_their_draws():
    compound = classes()
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(compound)
    )
    y = np.array([0, 2])
    for method in ("log_prob", "expected_log_prob"):
        np.testing.assert_array_equal(
            *(ops.convert_to_numpy(getattr(q, method)(y)) for q in (compound, copy))
        )


@pytest.mark.parametrize("link", ["tanh", transforms.Affine(0.5, 2.0)])
def test_a_link_goes_through_a_config(link):
    compound = d.Compound(d.Normal(1.0, 0.3), d.Normal(0.0, 2.0), "loc", link)
    copy = d.Compound.from_config(compound.get_config())
    assert copy.link == link
    assert float(copy.mean()) == float(compound.mean())


def test_predicted_probabilities_are_precise_in_both_tails():
    latent = d.Normal(np.array([-60.0, 60.0], "float32"), 1.0)
    compound = d.Compound(latent, d.Bernoulli(logits=0.0), "logits")
    log_probs = [
        ops.convert_to_numpy(compound.predictive().log_prob(y)) for y in (0, 1)
    ]
    # E exp(f), far from where the sigmoid bends.
    np.testing.assert_allclose(log_probs[1][0], -59.5, rtol=1e-5)
    np.testing.assert_allclose(log_probs[0][1], -59.5, rtol=1e-5)


def test_every_element_of_an_event_counts():
    latent = d.Normal(np.zeros((2, 3), "float32"), 1.0)
    compound = d.Compound(latent, d.Normal(0.0, 1.0), "loc")
    independent = d.Independent(compound, 1)
    result = ops.convert_to_numpy(independent.expected_log_prob(np.zeros(3)))
    expected = 3.0 * (stats.norm.logpdf(0.0) - 0.5)
    np.testing.assert_allclose(result, [expected] * 2, rtol=1e-6)


def test_expected_log_prob_of_other_distributions_is_log_prob():
    gamma = d.Gamma(2.0, 3.0)
    assert float(gamma.expected_log_prob(0.7)) == float(gamma.log_prob(0.7))
    assert gamma.predictive() is gamma


def test_gradients_are_those_of_the_closed_form():
    def bound(mean, spread):
        compound = d.Compound(d.Normal(mean, spread), d.Normal(0.0, 0.1), "loc")
        return compound.expected_log_prob(0.5)

    _, gradients = values_and_grad(bound, 0.3, 0.2)
    np.testing.assert_allclose(gradients, [0.2 / 0.01, -0.2 / 0.01], rtol=1e-4)


@pytest.mark.parametrize("method", ["log_prob", "expected_log_prob"])
@pytest.mark.parametrize("name", ["counts by exp", "counts by softplus"])
def test_outside_of_the_support_there_is_no_density_and_no_nan(name, method):
    arguments, _, _ = CASES[name]

    def log_prob(mean, spread):
        compound = d.Compound(d.Normal(mean, spread), *arguments)
        return getattr(compound, method)(-1.0)

    values, gradients = values_and_grad(log_prob, 0.3, 0.2)
    assert values == -np.inf
    assert np.all(np.isfinite(gradients))


NORMAL = d.Normal(0.0, 1.0)
REFUSED = [
    ((d.Laplace(0.0, 1.0), NORMAL, "loc"), {}, "`latent` to be a Normal"),
    ((NORMAL, NORMAL, "rate"), {}, r"parameters \['loc', 'scale'\]"),
    ((NORMAL, "normal", "loc"), {}, "to be a distribution"),
    ((NORMAL, d.Bernoulli(probs=0.5), "logits"), {}, r"made with \['probs'\]"),
    ((NORMAL, NORMAL, "loc"), {"num_nodes": 0}, "from 1 to 100"),
    ((NORMAL, NORMAL, "loc"), {"num_nodes": 9, "nodes": [0.1]}, "take the place of"),
    ((NORMAL, NORMAL, "loc", "no_such_link"), {}, "no_such_link"),
    (
        (d.Normal([0.0, 0.0], 1.0), d.Categorical(logits=[0.0, 0.0]), "logits"),
        {},
        "is a vector",
    ),
    (
        (d.Normal([0.0, 0.0], 1.0), d.Normal(0.0, [1.0, 1.0, 1.0]), "loc"),
        {},
        "broadcast together",
    ),
]


@pytest.mark.parametrize(("arguments", "named", "message"), REFUSED)
def test_wrong_arguments_are_refused(arguments, named, message):
    with pytest.raises(ValueError, match=message):
        d.Compound(*arguments, **named)
