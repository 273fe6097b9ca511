"""Quadrature over weights, against closed forms and conjugate posteriors."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import integrate, stats

import bayesian_layers as bl
from tests.layers.weights.table import array

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 2)).astype("float32")


def made(units=1, stddev=0.5, inputs=2, **kwargs):
    layer = bl.layers.DenseQuadrature(units, **kwargs)
    layer.build((None, inputs))
    for weight in layer.random_weights.values():
        scale = weight.variables["scale"]
        scale.assign(np.full(scale.shape, np.log(np.expm1(stddev))))
    return layer


@pytest.mark.parametrize("rule", ["grid", "unscented"])
def test_a_linear_layer_has_exact_mean_and_variance(rule):
    layer = made(2, rule=rule, bias_initializer="trainable_normal")
    y = layer(X)
    expected = X @ array(layer.kernel) + array(layer.bias)
    np.testing.assert_allclose(array(y), expected, atol=1e-5)
    np.testing.assert_allclose(array(y.mean()), expected, atol=1e-5)
    variance = 0.25 * (1.0 + np.sum(X**2, axis=1, keepdims=True))
    np.testing.assert_allclose(
        array(y.variance()), np.broadcast_to(variance, (5, 2)), rtol=1e-4
    )
    count = 3**6 if rule == "grid" else 12
    assert len(layer.nodes()[0]) == count
    second = array(y.expect(lambda f: f**2))
    np.testing.assert_allclose(second, expected**2 + variance, rtol=1e-4)


def test_expectations_converge_to_the_integral():
    layer = made(1, inputs=1, num_nodes=3, activation="tanh", stddev=1.0)
    x = np.array([[1.5]], "float32")
    loc = float(array(layer.kernel)[0, 0])

    def exact(function):
        density = stats.norm(loc, 1.0).pdf
        return integrate.quad(
            lambda w: function(np.tanh(1.5 * w)) * density(w), loc - 9.0, loc + 9.0
        )[0]

    errors = []
    for num_nodes in (3, 9, 40):
        finer = made(1, inputs=1, num_nodes=num_nodes, activation="tanh", stddev=1.0)
        finer.set_weights(layer.get_weights())
        found = array(finer(x).expect(lambda f: ops.exp(f)))[0, 0]
        errors.append(abs(found - exact(np.exp)))
    assert errors[2] < 1e-3 and errors[2] < errors[1] < errors[0]


@pytest.mark.parametrize(
    "head", [bl.layers.GaussianLikelihood, bl.layers.BernoulliLikelihood]
)
def test_a_likelihood_takes_the_sum_over_nodes(head):
    layer, likelihood = made(2), head()
    f = layer(X)
    y = likelihood(f)
    targets = np.ones((5, 2), "float32")
    points, log_weights = layer.nodes()
    kernel = array(layer.kernel)
    terms = []
    for point in points:
        at_node = X @ (kernel + 0.5 * point.reshape(2, 2))
        terms.append(array(likelihood(at_node.astype("float32")).log_prob(targets)))
    weights = np.exp(log_weights)
    expected = np.tensordot(weights, np.stack(terms), axes=1)
    np.testing.assert_allclose(array(y.expected_log_prob(targets)), expected, rtol=1e-4)
    mixed = np.log(np.tensordot(weights, np.exp(np.stack(terms)), axes=1))
    np.testing.assert_allclose(array(y.log_prob(targets)), mixed, rtol=1e-4)
    term = bl.expected_log_likelihood(f, likelihood, targets)
    np.testing.assert_allclose(array(term), expected, rtol=1e-4)
    # It is not the likelihood of the mean.
    of_mean = array(likelihood(array(f)).log_prob(targets))
    assert np.max(np.abs(of_mean - expected)) > 0.02


def test_a_function_as_likelihood_and_a_categorical_one():
    layer = made(3, rule="unscented")
    f = layer(X)
    term = bl.expected_log_likelihood(
        f, lambda f: bl.distributions.Poisson(log_rate=f), np.ones((5, 3), "float32")
    )
    points, _ = layer.nodes()
    at_nodes = [X @ (array(layer.kernel) + 0.5 * p.reshape(2, 3)) for p in points]
    expected = np.mean([stats.poisson.logpmf(1, np.exp(a)) for a in at_nodes], axis=0)
    np.testing.assert_allclose(array(term), expected, rtol=1e-4)
    labels = np.array([0, 1, 2, 1, 0])
    found = array(bl.layers.CategoricalLikelihood()(f).expected_log_prob(labels))
    logs = [a - np.log(np.sum(np.exp(a), axis=1, keepdims=True)) for a in at_nodes]
    expected = np.mean([log[np.arange(5), labels] for log in logs], axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    with pytest.raises(ValueError, match="nodes of its own"):
        bl.expected_log_likelihood(f, lambda f: f, 1.0, num_nodes=5)


@pytest.mark.parametrize("rule", ["grid", "unscented"])
def test_trained_it_recovers_the_conjugate_posterior(rule):
    """Orthogonal inputs: the posterior of linear regression has independent weights."""
    x = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 4, "float32") * [1.0, 2.0]
    y = x @ [[0.7], [-0.4]] + 0.3 * RNG.normal(size=(16, 1))
    noise = 0.09
    layer = bl.layers.DenseQuadrature(1, num_nodes=2, rule=rule, use_bias=False)
    head = bl.layers.GaussianLikelihood(noise, trainable=False)
    model = keras.Sequential([keras.Input((2,)), layer, head])
    bl.scale_kl(model, dataset_size=16)
    model.compile(keras.optimizers.Adam(0.05), bl.losses.NegativeLogLikelihood())
    x, y = x.astype("float32"), y.astype("float32")
    # One epoch over copies of the data: epochs have a cost of their own.
    copies = np.tile(x, (250, 1)), np.tile(y, (250, 1))
    model.fit(*copies, batch_size=16, shuffle=False, verbose=0)
    precision = x.T @ x / noise + np.eye(2)
    mean = np.linalg.solve(precision, x.T @ y / noise)
    posterior = layer.random_weights["kernel"].posterior
    np.testing.assert_allclose(array(posterior.loc), mean, atol=0.01)
    stddev = np.sqrt(np.diag(np.linalg.inv(precision)))[:, None]
    np.testing.assert_allclose(array(posterior.scale), stddev, rtol=0.05)
    # At the optimum the bound is the evidence.
    covariance = x @ x.T + noise * np.eye(16)
    evidence = stats.multivariate_normal(np.zeros(16), covariance).logpdf(y[:, 0])
    losses = [model.evaluate(x, y, batch_size=16, verbose=0) for _ in range(2)]
    np.testing.assert_allclose(losses[0], -evidence / 16, atol=2e-3)
    assert losses[0] == losses[1]


def test_a_grid_that_is_too_large_is_refused_with_its_cost():
    layer = bl.layers.DenseQuadrature(4, num_nodes=3)
    with pytest.raises(
        ValueError, match=r"3\*\*20 = 3.5e\+09 runs.*unscented.*40 runs"
    ):
        layer.build((None, 5))
    bl.layers.DenseQuadrature(4, rule="unscented").build((None, 5))
    with pytest.raises(ValueError, match="rule='sparse'"):
        bl.layers.DenseQuadrature(2, rule="sparse")
    layer = bl.layers.DenseQuadrature(2, kernel_initializer="trainable_cauchy")
    with pytest.raises(ValueError, match="normal elements"):
        layer.build((None, 2))


def test_held_and_saved(tmp_path):
    layer = made(1, num_nodes=4, seed=2, activation="tanh")
    model = keras.Sequential([keras.Input((2,)), layer])
    with bl.weights(model, "mean"):
        expected = np.tanh(X @ array(layer.kernel))
        np.testing.assert_allclose(array(model(X)), expected, atol=1e-6)
    prediction = bl.predict(model, X, num_samples=8, verbose=0)
    assert np.max(prediction.epistemic) > 1e-3
    with bl.weights(model, seed=1):
        held = array(model(X))
        np.testing.assert_allclose(array(model(X[::-1]))[::-1], held, atol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(array(loaded(X)), array(model(X)), atol=1e-6)
    with bl.weights(loaded, seed=1):
        np.testing.assert_allclose(array(loaded(X)), held, atol=1e-6)
    assert loaded.layers[0].get_config() == layer.get_config()
    compiled = model.predict(X, verbose=0)
    np.testing.assert_allclose(compiled, array(model(X)), atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_in_mixed_precision_means_are_float32(policy):
    layer = bl.layers.DenseQuadrature(1, dtype=policy)
    y = layer(X)
    assert keras.backend.standardize_dtype(y.variance().dtype) == "float32"
    assert np.all(np.isfinite(array(y.variance())))
