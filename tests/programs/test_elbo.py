"""The evidence bound, against closed forms and exact enumeration."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from bayesian_layers import backend, seeds
from tests import statistics
from tests.differentiation import values_and_grad

Y = np.array([0.5, 1.5, 1.0], "float32")


def array(x):
    return ops.convert_to_numpy(x)


def normal_model():
    m = bl.Normal(0.0, 2.0, name="m")
    return bl.Normal(m, 1.0, sample_shape=3, name="y")


# The posterior of m, and the evidence.
PRECISION = 1.0 / 4.0 + 3.0
MEAN, STDDEV = float(Y.sum()) / PRECISION, PRECISION**-0.5
EVIDENCE = stats.multivariate_normal.logpdf(Y, np.zeros(3), np.eye(3) + 4.0)


def test_the_bound_of_the_posterior_is_the_evidence():
    def guide():
        bl.Normal(MEAN, STDDEV, name="m")

    bound = bl.elbo(normal_model, guide, {"y": Y}, num_particles=3, seed=1)
    np.testing.assert_allclose(float(bound), EVIDENCE, rtol=1e-5)


def test_the_gap_is_the_divergence_and_the_gradient_that_of_the_closed_form():
    """300 particles each for 12 estimates of a bound and its gradient."""
    loc, scale = np.float32(0.2), np.float32(0.9)

    def estimate(loc, scale, seed):
        def guide():
            bl.Normal(loc, scale, name="m")

        return bl.elbo(normal_model, guide, {"y": Y}, num_particles=25, seed=seed)

    results = [
        values_and_grad(lambda a, b, i=i: estimate(a, b, i), loc, scale)
        for i in range(12)
    ]
    # KL(N(loc, scale) || N(MEAN, STDDEV)), and what it changes by.
    ratio = scale / STDDEV
    kl = 0.5 * (ratio**2 + ((loc - MEAN) / STDDEV) ** 2 - 1.0) - np.log(ratio)
    slopes = [-(loc - MEAN) / STDDEV**2, -(scale / STDDEV**2 - 1.0 / scale)]
    values = np.array([value for value, _ in results])
    gradients = np.array([gradient for _, gradient in results])
    statistics.assert_mean(values, EVIDENCE - kl, detect=1.5)
    statistics.assert_mean(gradients, np.array(slopes), detect=[3.0, 6.0])


def discrete_model():
    z = bl.Bernoulli(probs=0.3, sample_shape=2, name="z")
    total = ops.sum(ops.cast(ops.convert_to_tensor(z), "float32"))
    return bl.Normal(total, 0.7, name="y")


def exact_bound(logits, y=1.2):
    """The evidence bound, by enumeration of both variables."""
    q = 1.0 / (1.0 + np.exp(-np.asarray(logits, "float64")))
    bound = 0.0
    for z in np.ndindex(2, 2):
        weight = np.prod(np.where(z, q, 1.0 - q))
        log_p = stats.bernoulli.logpmf(z, 0.3).sum()
        log_p += stats.norm.logpdf(y, sum(z), 0.7)
        bound += weight * (log_p - np.log(weight))
    return bound


@pytest.mark.parametrize(("num_particles", "count"), [(1, 400), (3, 200)])
def test_the_score_function_gradient_is_unbiased(num_particles, count):
    """Means of many estimates, each of which has logits of its own."""
    logits, step = np.array([0.4, -0.8]), 1e-4
    expected = [
        (exact_bound(logits + d) - exact_bound(logits - d)) / (2.0 * step)
        for d in step * np.eye(2)
    ]
    keys = seeds.integers([5], count, 2)

    def estimate(arguments):
        logits, key = arguments

        def guide():
            bl.Bernoulli(logits=logits, name="z")

        seed = seeds.Replay(backend.seed_state(key))
        return bl.elbo(discrete_model, guide, {"y": 1.2}, num_particles, seed=seed)

    values, (gradients,) = values_and_grad(
        lambda logits: backend.vectorize(estimate)(
            (logits, ops.convert_to_tensor(keys))
        ),
        np.tile(logits, (count, 1)),
    )
    statistics.assert_mean(values, exact_bound(logits), detect=0.5)
    statistics.assert_mean(gradients, np.array(expected), detect=0.5)
    if num_particles == 3:
        # The baseline leaves little of the noise of log p - log q, about -2 here.
        assert np.all(gradients.std(axis=0) < 0.8)


def test_layers_are_model_and_guide_at_once():
    """A linear layer: the bound is E log p(y | w) - KL, both in closed form."""
    layer = bl.layers.DenseFlipout(1, use_bias=False, name="dense")
    model = keras.Sequential([keras.Input((2,)), layer], name="model")
    x = np.array([[1.0, 2.0], [0.5, -1.0]], "float32")
    y = np.array([[1.0], [0.0]], "float32")

    def normal(f):
        return bl.distributions.Normal(f, 1.0)

    weight = layer.random_weights["kernel"]
    mean, stddev = array(weight.posterior.mean()), array(weight.posterior.stddev())
    variance = (x**2) @ stddev**2
    expected = stats.norm.logpdf(y, x @ mean, 1.0).sum() - 0.5 * variance.sum()
    expected -= float(array(bl.total_kl(model)))
    bounds = [
        array(bl.elbo(model, None, (x, y), 20, likelihood=normal, seed=i))
        for i in range(10)
    ]
    statistics.assert_mean(np.array(bounds), expected, detect=2.0)

    def guide(x):
        model(x)

    same = bl.elbo(model, guide, (x, y), 20, likelihood=normal, seed=0)
    np.testing.assert_allclose(array(same), bounds[0], rtol=1e-5)


def test_a_guide_that_does_not_fit_is_refused():
    def nothing():
        pass

    def other():
        bl.Normal(0.0, 1.0, name="m")
        bl.Normal(0.0, 1.0, name="n")

    def unnamed():
        bl.Normal(0.0, 1.0)

    data = {"y": Y}
    with pytest.raises(LookupError, match="guide leaves out.*'m' of shape"):
        bl.elbo(normal_model, nothing, data, seed=0)
    with pytest.raises(ValueError, match=r"no random variables \['n'\]"):
        bl.elbo(normal_model, other, data, seed=0)
    with pytest.raises(ValueError, match="name of its own"):
        bl.elbo(normal_model, unnamed, data, seed=0)
    with pytest.raises(ValueError, match="positive integer.*0"):
        bl.elbo(normal_model, other, data, 0)


def test_handlers_around_the_estimate_see_what_the_guide_draws():
    def guide():
        bl.Normal(MEAN, STDDEV, name="m")

    expected = (
        stats.norm.logpdf(0.3, 0.0, 2.0)
        + stats.norm.logpdf(Y, 0.3).sum()
        - stats.norm.logpdf(0.3, MEAN, STDDEV)
    )
    with bl.condition(m=0.3):
        bound = bl.elbo(normal_model, guide, {"y": Y}, seed=0)
    np.testing.assert_allclose(float(bound), expected, rtol=1e-5)


# Training.


def test_a_guide_with_discrete_variables_is_trained_to_the_best_bound():
    """The posterior of one of two switches has no product form; one of one has."""
    logits = keras.Variable(np.zeros(1, "float32"), name="logits")

    def model():
        z = bl.Bernoulli(probs=np.array([0.3], "float32"), name="z")
        return bl.Normal(ops.cast(ops.convert_to_tensor(z), "float32"), 0.7, name="y")

    def guide():
        bl.Bernoulli(logits=logits, name="z")

    data = {"y": np.array([1.2], "float32")}
    inference = bl.VariationalInference(model, guide, data, num_particles=4, seed=1)
    inference.compile(keras.optimizers.Adam(0.1))
    history = inference.fit(epochs=3, steps_per_epoch=60, verbose=0)
    joint = [
        np.log(p) + stats.norm.logpdf(1.2, z, 0.7) for z, p in ((0, 0.7), (1, 0.3))
    ]
    # Adam's steps of 0.1, near the optimum, move the logits by about 0.2.
    assert abs(float(array(logits)[0]) - (joint[1] - joint[0])) < 0.6
    np.testing.assert_allclose(
        -history.history["loss"][-1], np.logaddexp(*joint), atol=0.02
    )


def test_variables_of_both_programs_are_trained_and_frozen_ones_are_not():
    scale = keras.Variable(np.float32(0.0), name="log_scale")
    loc = keras.Variable(np.float32(0.0), name="loc")
    frozen = keras.Variable(np.float32(1.0), trainable=False, name="frozen")

    def model():
        m = bl.Normal(0.0, frozen, name="m")
        return bl.Normal(m, ops.exp(scale), sample_shape=3, name="y")

    def guide():
        bl.Normal(loc, 0.3, name="m")

    inference = bl.VariationalInference(model, guide, {"y": Y}, seed=1)
    assert {v.name for v in inference.trainable_variables} == {"log_scale", "loc"}
    inference.compile("sgd")
    inference.fit(epochs=1, steps_per_epoch=2, verbose=0)
    assert float(array(scale)) != 0.0 and float(array(loc)) != 0.0
    assert float(array(frozen)) == 1.0
