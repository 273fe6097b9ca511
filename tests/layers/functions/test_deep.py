"""Deep Gaussian processes, against the sparse ones that they are made of."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.functions.processes import NEW, X, Y, array

TARGETS = Y[:, :1]


def deep(**kwargs):
    kwargs = {"num_inducing": 5, "seed": 0, **kwargs}
    return bl.layers.deep_gaussian_process(X, **kwargs)


def randomize(model, seed=1):
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        value = array(variable)
        variable.assign(value + 0.1 * rng.normal(size=value.shape))


def test_with_one_layer_it_is_the_sparse_process():
    """The same loss, and the same predictive density, with no draw in between."""
    model = deep(num_layers=1)
    single = keras.Sequential(
        [
            keras.Input((2,)),
            bl.layers.SparseGaussianProcess(
                1, 5, covariance_fn=bl.covariances.ExponentiatedQuadratic(ard=True)
            ),
            bl.layers.GaussianLikelihood(),
        ]
    )
    randomize(model)
    single.set_weights(model.get_weights())
    losses = []
    for each in (model, single):
        bl.scale_kl(each, dataset_size=len(X))
        each.compile("adam", bl.losses.NegativeLogLikelihood(), jit_compile=False)
        losses.append(each.evaluate(X, TARGETS, verbose=0))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    np.testing.assert_allclose(
        array(model(NEW).log_prob(np.zeros((5, 1)))),
        array(single(NEW).log_prob(np.zeros((5, 1)))),
        rtol=1e-5,
    )


def test_inner_layers_start_near_their_mean_function():
    """At the inducing inputs their values are those of the mean, but for 0.01."""
    first, second, likelihood = deep().layers
    points = array(first.inducing_inputs)
    np.testing.assert_allclose(array(first(points).mean()), points, atol=1e-5)
    np.testing.assert_allclose(array(first(points).stddev()), 0.01, atol=2e-3)
    assert isinstance(likelihood, bl.layers.GaussianLikelihood)
    # Those of the next layer are where the mean function of the first one maps data.
    assert np.all(np.abs(array(second.inducing_inputs)) <= np.abs(X).max() + 1e-5)


def test_fewer_inner_functions_start_at_principal_components():
    model = deep(hidden_units=1)
    deviation = X - X.mean(axis=0)
    _, _, directions = np.linalg.svd(deviation, full_matrices=False)
    found = array(model.layers[0].mean_fn(X))[:, 0]
    expected = deviation @ directions[0]
    correlation = np.corrcoef(found, expected)[0, 1]
    np.testing.assert_allclose(np.abs(correlation), 1.0, atol=1e-5)


def test_layers_share_no_hyperparameters():
    model = deep(covariance_fn=bl.covariances.Matern52(), num_layers=3)
    kernels = [layer.covariance_fn for layer in model.layers[:3]]
    assert len({id(v) for k in kernels for v in k.trainable_variables}) == 6
    assert len(model.losses) == 3


def test_its_bound_integrates_over_draws_of_inner_layers():
    """The mean loss over draws is that of Gauss-Hermite nodes of the inner function.

    One inner function, one point: E log N(y | f2, noise) over f1 ~ N, with f2 | f1 a
    normal distribution that the second layer gives. 4,000 draws; the test fails by
    chance with a probability of 1e-6 (4.9 standard errors).
    """
    model = deep(hidden_units=1, hidden_stddev=0.7)
    randomize(model)
    first, second, likelihood = model.layers
    point, target = X[:1], TARGETS[:1]
    inner = first(point)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    values = array(inner.mean()) + array(inner.stddev()) * nodes[:, None]
    outer = second(values.astype("float32"))
    noise = float(array(likelihood(np.zeros((1, 1), "float32")).variance())[0, 0])
    squares = np.square(target - array(outer.mean())) + array(outer.variance())
    terms = -0.5 * (np.log(2.0 * np.pi * noise) + squares / noise)[:, 0]
    expected = np.sum(weights * terms) / np.sum(weights)

    loss = bl.losses.NegativeLogLikelihood(reduction=None)
    draws = -array(
        loss(np.repeat(target, 4000, axis=0), model(np.repeat(point, 4000, axis=0)))
    )
    error = draws.std() / np.sqrt(len(draws))
    assert error < 0.2 * np.abs(expected)
    np.testing.assert_allclose(draws.mean(), expected, atol=4.9 * error)


def test_it_learns():
    model = deep()
    bl.scale_kl(model, dataset_size=len(X))
    model.compile(keras.optimizers.Adam(0.05), bl.losses.NegativeLogLikelihood())
    losses = model.fit(X, TARGETS, batch_size=12, epochs=60, verbose=0).history["loss"]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="`num_layers` should be a positive integer"):
        deep(num_layers=0)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_given_targets_the_last_layer_starts_at_its_optimum(num_layers):
    """That of the collapsed bound, at the inputs that the mean functions give it."""
    model = deep(num_layers=num_layers, y=TARGETS)
    *_, last, likelihood = model.layers
    bound = array(last.collapsed_bound(X, TARGETS, 0.1))  # Inner ones are the identity.
    distribution = likelihood(last(X)).distribution
    data_term = array(distribution.expected_log_prob(TARGETS)).sum()
    kl = array(last.random_weights["inducing_values"].kl())
    np.testing.assert_allclose(array(likelihood.noise_variance), 0.1, rtol=1e-5)
    np.testing.assert_allclose(data_term - kl, bound, rtol=1e-3)


def test_targets_of_another_likelihood_are_refused():
    with pytest.raises(ValueError, match="Gaussian noise"):
        deep(y=TARGETS, likelihood=bl.layers.StudentTLikelihood())
    with pytest.raises(ValueError, match=r"y.shape"):
        deep(y=TARGETS[:-1])
