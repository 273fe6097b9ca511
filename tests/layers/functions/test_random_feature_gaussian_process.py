"""The head of SNGP: against Bayesian regression with the same features."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops
from scipy import special
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct
from sklearn.linear_model import LogisticRegression

import bayesian_layers as bl
from tests.statistics import assert_mean, assert_variance

F = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)).astype("float32")
TEST = np.concatenate([X[:3], [[6.0, -4.0]]]).astype("float32")


def head_of(units=3, **arguments):
    head = bl.layers.RandomFeatureGaussianProcess(
        units, **{"num_features": F, "seed": 1, **arguments}
    )
    head.build((None, 2))
    return head


def gaussian(**arguments):
    arguments = {"likelihood": "gaussian", "noise_variance": 0.3, **arguments}
    return head_of(1, **arguments)


def phi_of(head, x):
    """The features, written again in NumPy."""
    x = np.asarray(x, "float64") / np.sqrt(2.0)
    projection, phases = map(ops.convert_to_numpy, (head.projection, head.phases))
    return np.sqrt(2.0 / F) * np.cos(x @ projection + phases)


def see(head, *batches, **kwargs):
    head.reset_precision()
    for batch in batches:
        head(batch, training=True, **kwargs)


def numpy(x):
    return ops.convert_to_numpy(x)


def moments(variable):
    return numpy(variable.mean()), numpy(variable.stddev())


def test_with_a_gaussian_likelihood_it_is_bayesian_linear_regression():
    head = gaussian(ridge_penalty=2.0)
    y = np.sin(X[:, 0])
    phi = phi_of(head, X)
    mode = np.linalg.solve(phi.T @ phi / 0.3 + 2.0 * np.eye(F), phi.T @ y / 0.3)
    head.coefficients.assign(mode[None])
    see(head, X[:25], X[25:])
    mean, stddev = moments(head(TEST))
    # The kernel is phi(x) . phi(z) / ridge.
    oracle = GaussianProcessRegressor(
        0.5 * DotProduct(0.0, "fixed"), alpha=0.3, optimizer=None
    ).fit(phi, y)
    expected = oracle.predict(phi_of(head, TEST), return_std=True)
    np.testing.assert_allclose(mean[:, 0], expected[0], atol=2e-5)
    np.testing.assert_allclose(stddev[:, 0], expected[1], rtol=1e-4)


def test_fit_stays_at_the_mode_and_finds_its_curvature():
    """The penalty, scaled to the data set, is the prior: gradients vanish."""
    y = (X[:, 0] + 0.5 * X[:, 1] > 0.2).astype("float32")
    head = head_of(1, likelihood="bernoulli", ridge_penalty=0.5)
    phi, at = phi_of(head, X), phi_of(head, TEST)
    oracle = LogisticRegression(C=1 / 0.5, fit_intercept=False, tol=1e-8).fit(phi, y)
    head.coefficients.assign(oracle.coef_)
    model = keras.Sequential([keras.Input((2,)), head])
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    # A penalty that is off by a tenth would move the weights by a hundredth.
    model.compile(keras.optimizers.SGD(3.0), loss)
    bl.scale_kl(model, dataset_size=len(X))
    callbacks = [bl.callbacks.ResetPrecision()]
    model.fit(X, y[:, None], batch_size=40, epochs=4, verbose=0, callbacks=callbacks)
    np.testing.assert_allclose(numpy(head.coefficients), oracle.coef_, atol=2e-4)
    mean, stddev = moments(head(TEST))
    np.testing.assert_allclose(mean[:, 0], oracle.decision_function(at), atol=1e-3)
    p = special.expit(oracle.decision_function(phi))
    precision = 0.5 * np.eye(F) + (phi.T * p * (1 - p)) @ phi
    variance = np.sum(at * np.linalg.solve(precision, at.T).T, axis=-1)
    np.testing.assert_allclose(stddev[:, 0], np.sqrt(variance), rtol=1e-3)
    assert stddev[-1] > 1.5 * stddev[:-1].max()  # Far from the examples.


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli"])
def test_the_precision_of_classes(likelihood, shared):
    head = head_of(likelihood=likelihood, shared_precision=shared)
    head.coefficients.assign(RNG.normal(size=(3, F)))
    see(head, X)
    phi = phi_of(head, X)
    logits = phi @ numpy(head.coefficients).T
    if likelihood == "categorical":
        p = special.softmax(logits, axis=-1)
    else:
        p = special.expit(logits)
    weights = p * (1 - p)
    if shared:
        weights = np.repeat(weights.max(axis=-1, keepdims=True), 3, axis=-1)
    at = phi_of(head, TEST)
    expected = np.zeros((len(at), 3))
    for unit in range(3):
        precision = np.eye(F)
        for n in range(len(X)):
            precision += weights[n, unit] * np.outer(phi[n], phi[n])
        for n in range(len(at)):
            expected[n, unit] = at[n] @ np.linalg.inv(precision) @ at[n]
    np.testing.assert_allclose(moments(head(TEST))[1] ** 2, expected, rtol=1e-4)
    kept = 2 if shared else 3
    assert len(head.information.shape) == kept


def test_the_covariance_is_never_that_of_an_earlier_precision():
    head = head_of()
    see(head, X)
    lazy = moments(head(TEST))[1]
    assert not numpy(head.is_current)
    head.update_covariance()
    assert numpy(head.is_current)
    np.testing.assert_allclose(moments(head(TEST))[1], lazy, rtol=1e-6)
    head(X, training=True)
    doubled = moments(head(TEST))[1]
    assert np.all(doubled < lazy)
    # In a compiled function, too.
    calibrated = head_of(mean_field_factor=1.0)
    calibrated.set_weights(head.get_weights())
    calibrated.coefficients.assign(RNG.normal(size=(3, F)))
    model = keras.Sequential([keras.Input((2,)), calibrated])
    stale = model.predict(TEST, verbose=0)
    calibrated.update_covariance()
    np.testing.assert_allclose(model.predict(TEST, verbose=0), stale, rtol=1e-5)
    logits = phi_of(calibrated, TEST) @ numpy(calibrated.coefficients).T
    np.testing.assert_allclose(stale, logits / np.sqrt(1 + doubled**2), rtol=1e-4)


def test_a_draw_of_the_posterior_is_one_function():
    head = gaussian()
    head.coefficients.assign(RNG.normal(size=(1, F)))
    see(head, X)
    head.update_covariance()
    model = keras.Sequential([keras.Input((2,)), head])
    mean, stddev = moments(head(TEST))
    with bl.weights(model, "mean"):
        held = model(TEST)
        np.testing.assert_allclose(numpy(held), mean, rtol=1e-5)
        assert isinstance(held.distribution, bl.distributions.Deterministic)
    with bl.weights(model, seed=7):
        first, again = numpy(model(TEST)), numpy(model(TEST[::-1]))[::-1]
    np.testing.assert_allclose(first, again, rtol=1e-5)
    assert np.all(first != mean)
    posterior = head.random_weights["coefficients"].posterior
    draws = numpy(posterior.sample(20000, seed=5))[:, 0] @ phi_of(head, TEST).T
    assert_mean(draws, mean[:, 0], detect=0.1 * stddev.max())
    assert_variance(draws, stddev[:, 0] ** 2, detect=0.1 * stddev[:, 0] ** 2)


def test_predict_draws_functions():
    head = gaussian()
    see(head, X)
    head.update_covariance()
    model = keras.Sequential([keras.Input((2,)), head])
    prediction = bl.predict(model, TEST, 400, seed=3, verbose=0, batch_size=4)
    # The standard deviation of 400 draws is off by 3.5%; of seven times that at most.
    stddev = moments(head(TEST))[1]
    np.testing.assert_allclose(prediction.stddev, stddev, rtol=0.25)


def test_handlers_see_the_coefficients():
    head = gaussian()
    see(head, X)
    with bl.tape() as tape:
        y = head(TEST)
    (name,) = [name for name in tape if name.endswith("/coefficients")]
    drawn = numpy(tape[name].value)
    np.testing.assert_allclose(
        numpy(y), phi_of(head, TEST) @ drawn.T, rtol=1e-3, atol=1e-5
    )
    value = np.ones((1, F), "float32")
    with bl.condition({name: value}):
        np.testing.assert_allclose(
            numpy(head(TEST)), phi_of(head, TEST) @ value.T, rtol=1e-3, atol=1e-5
        )


def test_the_penalty_is_in_the_losses_once():
    head = head_of(ridge_penalty=3.0, kl_scale=0.1)
    head.coefficients.assign(np.full((3, F), 2.0))
    (loss,) = head.losses
    penalty = 0.5 * 3.0 * 3 * F * 4.0
    assert float(numpy(loss)) == pytest.approx(0.1 * penalty)
    assert float(numpy(bl.total_kl(head))) == pytest.approx(penalty)
    prior = head.random_weights["coefficients"].prior
    assert float(numpy(prior.stddev())) == pytest.approx(3.0**-0.5)
    assert [v.name for v in head.trainable_variables] == ["coefficients"]
    head.trainable = False
    head.trainable = True
    assert [v.name for v in head.trainable_variables] == ["coefficients"]


def test_masked_elements_do_not_count():
    head, other = gaussian(), gaussian()
    sequences = X.reshape(8, 5, 2)
    mask = RNG.random((8, 5)) < 0.5
    see(head, sequences, mask=mask)
    see(other, sequences[mask])
    np.testing.assert_allclose(
        numpy(head.information), numpy(other.information), atol=1e-4
    )
    assert ops.shape(head(sequences)) == (8, 5, 1)


def test_save_and_load(tmp_path):
    head = head_of(covariance_fn=bl.covariances.ExponentiatedQuadratic(2.0, 3.0))
    model = keras.Sequential([keras.Input((2,)), head])
    head.coefficients.assign(RNG.normal(size=(3, F)))
    see(head, X)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for ours, theirs in zip(moments(head(TEST)), moments(loaded(TEST)), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5)
    config = loaded.layers[0].get_config()
    assert config["likelihood"] == "categorical"
    assert config["covariance_fn"]["config"]["lengthscale"] == 3.0


def test_the_config_of_the_default_covariance():
    head = head_of(mean_field_factor=0.5)
    copied = type(head).from_config(head.get_config())
    copied.build((None, 2))
    assert copied.get_config()["covariance_fn"] is None
    assert copied.mean_field_factor == 0.5
    np.testing.assert_array_equal(numpy(copied.projection), numpy(head.projection))


def test_half_precision_computes_in_single_precision():
    head, half = head_of(), head_of(dtype="mixed_bfloat16")
    for layer in (head, half):
        see(layer, X)
    ours, theirs = moments(half(TEST))[1], moments(head(TEST))[1]
    assert ours.dtype == "float32"
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_it_warns_where_it_would_be_wrong_in_silence():
    head = head_of()
    with pytest.warns(UserWarning, match="the variance that it returns is that of the"):
        _, stddev = moments(head(TEST))
    np.testing.assert_allclose(
        stddev[:, 0], np.linalg.norm(phi_of(head, TEST), axis=1), rtol=1e-4
    )
    with pytest.warns(UserWarning, match="ResetPrecision"):
        head(X, training=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        see(head, X)
        head(TEST)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"likelihood": "poisson"}, "likelihood='poisson'"),
        ({"likelihood": "gaussian"}, "which needs it"),
        ({"noise_variance": 0.1}, "belongs to the Gaussian"),
        ({"units": 1}, 'likelihood="bernoulli"'),
        ({"ridge_penalty": 0.0}, "ridge_penalty=0.0"),
        ({"mean_field_factor": -1.0}, "mean_field_factor=-1.0"),
        ({"num_features": 0}, "num_features=0"),
        ({"covariance_fn": "constant"}, "function of the distance"),
        (
            {"covariance_fn": bl.covariances.ExponentiatedQuadratic(batch_shape=(3,))},
            r"batch_shape=\(3,\)",
        ),
        (
            {
                "covariance_fn": bl.covariances.ExponentiatedQuadratic(
                    "trainable_log_normal"
                )
            },
            "no random ones",
        ),
        (
            {"coefficients_initializer": bl.initializers.TrainableNormal()},
            "initializer of Keras",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        head_of(**{"units": 3, **arguments})
