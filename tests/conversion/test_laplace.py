"""Posteriors from the curvature at trained weights, against NumPy and scikit-learn."""

import keras
import numpy as np
import pytest
from keras import layers
from sklearn.linear_model import BayesianRidge

import bayesian_layers as bl
from tests.layers.weights.table import array

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype("float32")
WEIGHTS = np.array([[1.0, 0.0], [-1.0, 0.5], [0.3, 2.0]])
Y = (X @ WEIGHTS + 0.3 * RNG.normal(size=(40, 2))).astype("float32")
CLASSES = RNG.integers(0, 3, 40)


def dense(kernel, **kwargs):
    """A model that is linear."""
    layer = layers.Dense(kernel.shape[1], use_bias=False, **kwargs)
    model = keras.Sequential([keras.Input((kernel.shape[0],)), layer])
    model.set_weights([kernel])
    return model


def laplace(net, data, likelihood, **kwargs):
    return bl.to_bayesian(
        net, posterior="laplace", data=data, likelihood=likelihood, **kwargs
    )


def covariance(weight):
    """Of all elements."""
    return array(weight.posterior.distribution.covariance())


def test_it_is_the_conjugate_posterior_of_linear_regression():
    noise, stddev = 0.3, 2.0
    precision = X.T @ X / noise**2 + np.eye(3) / stddev**2
    mean = np.linalg.solve(precision, X.T @ Y / noise**2)
    model = laplace(
        dense(mean),
        (X, Y),
        bl.distributions.Normal(0.0, noise),
        prior=bl.regularizers.NormalKLDivergence(stddev=stddev),
    )
    weight = model.layers[0].random_weights["kernel"]
    np.testing.assert_allclose(array(weight.posterior.mean()), mean, rtol=1e-5)
    # Elements in the order of rows: those of an input to all outputs together.
    expected = np.kron(np.linalg.inv(precision), np.eye(2))
    np.testing.assert_allclose(covariance(weight), expected, rtol=1e-4, atol=1e-8)
    assert model.noise_stddev == pytest.approx(noise)


def test_precision_and_noise_are_those_of_the_largest_marginal_likelihood():
    flat = {"alpha_1": 0.0, "alpha_2": 0.0, "lambda_1": 0.0, "lambda_2": 0.0}
    x, y = X.astype("float64"), Y[:, 0].astype("float64")
    ridge = BayesianRidge(fit_intercept=False, tol=1e-12, max_iter=1000, **flat)
    ridge.fit(x, y)
    model = laplace(dense(ridge.coef_[:, None]), (X, Y[:, :1]), "normal")
    weight = model.layers[0].random_weights["kernel"]
    assert model.noise_stddev == pytest.approx(ridge.alpha_**-0.5, rel=1e-4)
    assert float(array(weight.prior.scale)) == pytest.approx(
        ridge.lambda_**-0.5, rel=1e-4
    )
    np.testing.assert_allclose(covariance(weight), ridge.sigma_, rtol=1e-3, atol=1e-7)


def gauss_newton_of_classes(x, logits):
    """By a loop over examples."""
    total = 0.0
    for row, f in zip(x.astype("float64"), logits.astype("float64"), strict=True):
        p = np.exp(f) / np.sum(np.exp(f))
        total = total + np.kron(np.outer(row, row), np.diag(p) - np.outer(p, p))
    return total


@pytest.mark.parametrize("activation", ["softmax", None])
def test_it_is_the_gauss_newton_matrix_of_logistic_regression(activation):
    kernel = RNG.normal(size=(3, 3)).astype("float32")
    model = laplace(
        dense(kernel, activation=activation),
        (X, CLASSES),
        "categorical",
        prior=bl.regularizers.NormalKLDivergence(stddev=1.0),
    )
    precision = gauss_newton_of_classes(X, X @ kernel) + np.eye(9)
    found = covariance(model.layers[0].random_weights["kernel"])
    np.testing.assert_allclose(found, np.linalg.inv(precision), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("activation", ["sigmoid", None])
def test_it_is_the_gauss_newton_matrix_of_two_classes(activation):
    kernel = RNG.normal(size=(3, 1)).astype("float32")
    model = laplace(
        dense(kernel, activation=activation),
        (X, CLASSES > 0),
        "bernoulli",
        prior=bl.regularizers.NormalKLDivergence(stddev=0.5),
    )
    p = 1.0 / (1.0 + np.exp(-X @ kernel))
    precision = X.T @ (p * (1.0 - p) * X) + 4.0 * np.eye(3)
    found = covariance(model.layers[0].random_weights["kernel"])
    np.testing.assert_allclose(found, np.linalg.inv(precision), rtol=1e-3, atol=1e-6)


def test_of_the_other_layers_it_is_the_diagonal_if_asked_for():
    net = keras.Sequential(
        [keras.Input((3,)), layers.Dense(2, "tanh"), layers.Dense(2, "softmax")]
    )
    first, bias, second, last_bias = (w.astype("float64") for w in net.get_weights())

    def logits(kernel, x):
        return np.tanh(x @ kernel + bias) @ second + last_bias

    diagonal = np.zeros(6)
    for x in X.astype("float64"):
        f = logits(first, x)
        p = np.exp(f) / np.sum(np.exp(f))
        jacobian = np.zeros((2, 6))
        for i in range(6):
            step = np.zeros(6)
            step[i] = 1e-5
            step = step.reshape(3, 2)
            jacobian[:, i] = (logits(first + step, x) - logits(first - step, x)) / 2e-5
        hessian = np.diag(p) - np.outer(p, p)
        diagonal += np.einsum("ci,cd,di->i", jacobian, hessian, jacobian)
    model = laplace(
        net,
        (X, CLASSES % 2),
        "categorical",
        layers="all",
        structure="diagonal",
        prior=bl.regularizers.NormalKLDivergence(stddev=1.0),
    )
    found = array(model.layers[0].random_weights["kernel"].posterior.stddev())
    np.testing.assert_allclose(found.ravel(), (diagonal + 1.0) ** -0.5, rtol=1e-3)
    assert "tril" in model.layers[1].random_weights["kernel"].variables


def network():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((5, 5, 1)),
            layers.Conv2D(2, 2, activation="relu"),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(2),
            layers.SeparableConv2D(2, 2),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )


IMAGES = RNG.normal(size=(40, 5, 5, 1)).astype("float32")


def test_it_is_a_posterior_as_any_other(tmp_path):
    net = network()
    model = laplace(
        net, (IMAGES, CLASSES), "categorical", layers="all", seed=1, dataset_size=40
    )
    with bl.weights(model, "mean"):
        np.testing.assert_allclose(array(model(IMAGES)), array(net(IMAGES)), atol=1e-5)
    prediction = bl.predict(model, IMAGES[:4], num_samples=20, seed=1)
    assert np.all(prediction.epistemic > 0.0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    again = bl.predict(loaded, IMAGES[:4], num_samples=20, seed=1)
    np.testing.assert_allclose(again.mean, prediction.mean, atol=1e-5)
    model.compile("adam", "sparse_categorical_crossentropy")
    before = [np.copy(w) for w in model.get_weights()]
    model.fit(IMAGES, CLASSES, verbose=0)
    moved = [np.any(a != b) for a, b in zip(model.get_weights(), before, strict=True)]
    assert all(moved)


@pytest.mark.parametrize("stddev", [None, 0.5])
def test_every_kernel_has_the_prior_and_data_make_it_narrower(stddev):
    prior = stddev and bl.regularizers.NormalKLDivergence(stddev=stddev)
    model = laplace(
        network(), (IMAGES, CLASSES), "categorical", layers="all", prior=prior
    )
    weights = [
        weight
        for layer in model.layers
        for weight in getattr(layer, "random_weights", {}).values()
    ]
    assert len(weights) == 5
    for weight in weights:
        scale = array(weight.prior.scale)
        # By marginal likelihood each has another: none is the default of the layers.
        assert (scale == stddev) if stddev else (scale != 1.0)
        ratio = np.sqrt(array(weight.posterior.variance())) / scale
        # Single variances of a Kronecker product may be above that of the prior.
        is_product = "row_tril" in weight.variables
        limited = np.mean(ratio**2) if is_product else np.max(ratio)
        assert limited <= 1.0 + 1e-4
        assert np.min(ratio) < 1.0 - 1e-4


class Pair(keras.Model):
    """Two inputs in a dictionary."""

    def __init__(self):
        super().__init__()
        self.first, self.last = layers.Dense(2, "tanh"), layers.Dense(1)

    def call(self, inputs):
        """Adds up the inputs."""
        return self.last(self.first(inputs["a"] + inputs["b"]))


def test_a_subclass_with_several_inputs_is_converted():
    net = Pair()
    x = {"a": X, "b": 2.0 * X}
    net(x)
    model = laplace(net, (x, Y[:, 0]), "normal", layers="all")
    assert len(bl.predict(model, x, num_samples=2).mean) == len(X)
    # Of the sum of both, as of one input with three times the numbers.
    features = np.tanh(3.0 * X @ array(net.first.kernel))
    weight = model.last.random_weights["kernel"]
    precision = features.T @ features / model.noise_stddev**2
    precision += np.eye(2) / array(weight.prior.scale) ** 2
    np.testing.assert_allclose(
        covariance(weight), np.linalg.inv(precision), rtol=1e-3, atol=1e-6
    )


def lstm():
    return keras.Sequential([keras.Input((4, 3)), layers.LSTM(2), layers.Dense(3)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"likelihood": "poisson"}, "`likelihood` should be one of"),
        ({"data": X}, "needs the training data"),
        ({"layers": "first"}, '`layers` should be "last" or "all"'),
        ({"include": "dense"}, "goes with"),
        ({"structure": "kfac"}, '`structure` should be "kronecker" or "diagonal"'),
        ({"structure": "diagonal"}, "The last layer has a full covariance"),
        ({"posterior_scale": 0.1}, "starts with its own scale"),
        ({"delta": 0.1}, "`delta` belongs to"),
        ({"likelihood": "normal"}, "should have one of the activations"),
        ({"prior": "normal_mixture_kl_divergence"}, "normal, around zero"),
        ({"estimator": "flipout"}, "Flipout needs|needs a kernel with"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments, message):
    given = {"data": (X, CLASSES), "likelihood": "categorical", **arguments}
    net = dense(np.ones((3, 3)), activation="softmax")
    with pytest.raises(ValueError, match=message):
        bl.to_bayesian(net, posterior="laplace", **given)


def test_models_that_cannot_be_are_refused():
    x = np.ones((40, 4, 3), dtype="float32")
    with pytest.raises(ValueError, match="`exclude` it"):
        laplace(lstm(), (x, CLASSES), "categorical", layers="all")
    head = keras.Sequential([keras.Input((3,)), layers.Dense(2), bl.layers.Normal()])
    with pytest.raises(ValueError, match="before its head"):
        laplace(head, (X, Y), "normal")
    large = keras.Sequential([keras.Input((600,)), layers.Dense(10)])
    with pytest.raises(ValueError, match="36,000,000 numbers"):
        laplace(large, (np.ones((2, 600)), np.ones((2, 10))), "normal")
    exact = dense(WEIGHTS)
    with pytest.raises(ValueError, match="fits its data without error"):
        laplace(exact, (X, 0.0 * Y + array(exact(X))), "normal")
    with pytest.raises(ValueError, match='belong to `posterior="laplace"`'):
        bl.to_bayesian(exact, data=(X, Y))
