"""Curvatures that are Kronecker products, against loops over examples and positions."""

import keras
import numpy as np
import pytest
from keras import layers
from scipy import optimize

import bayesian_layers as bl
from bayesian_layers.conversion.kronecker import Kronecker
from tests.conversion.test_laplace import CLASSES, RNG, X, Y, covariance, laplace
from tests.layers.weights.table import array

PRIOR = bl.regularizers.NormalKLDivergence(stddev=0.8)


def convolution(rank):
    return {1: layers.Conv1D, 2: layers.Conv2D, 3: layers.Conv3D}[rank]


def network(rank, seed=1):
    """A Dense layer or a convolution, with padding or strides, and a Dense layer."""
    keras.utils.set_random_seed(seed)
    if rank == 0:
        body = [keras.Input((3,)), layers.Dense(4, "tanh")]
    else:
        settings = {"padding": "same"} if rank == 2 else {"strides": 2}
        conv = convolution(rank)(2, 2, activation="tanh", **settings)
        body = [keras.Input((4,) * rank + (2,)), conv, layers.Flatten()]
    return keras.Sequential([*body, layers.Dense(3, "softmax")])


def inputs(rank):
    return X if rank == 0 else RNG.normal(size=(40, *(4,) * rank, 2)).astype("float32")


def patches(layer, x):
    """The inputs that each output of a layer sees, `[positions, inputs]`."""
    if x.ndim == 1:
        return x[None]
    rank = x.ndim - 1
    if layer.padding == "same":
        x = np.pad(x, [(0, 1)] * rank + [(0, 0)])
    found = []
    for position in np.ndindex(*(((n - 2) // s + 1) for n, s in _steps(layer, x))):
        corner = [p * s for p, (_, s) in zip(position, _steps(layer, x), strict=True)]
        window = tuple(slice(c, c + 2) for c in corner)
        found.append(x[window].reshape(-1))
    return np.array(found)


def _steps(layer, x):
    return list(zip(x.shape[:-1], layer.strides, strict=True))


def derivatives(net, x):
    """V for every example and class, by the chain rule."""
    layer, last = net.layers[0], net.layers[-1]
    kernel, bias = (array(w).astype("float64") for w in layer.weights)
    second, last_bias = (array(w).astype("float64") for w in last.weights)
    kernel = kernel.reshape(-1, kernel.shape[-1])
    for example in x.astype("float64"):
        a = patches(layer, example)
        h = np.tanh(a @ kernel + bias)
        f = h.reshape(-1) @ second + last_bias
        p = np.exp(f) / np.sum(np.exp(f))
        for c in range(3):
            # The square root of diag(p) - p p^T, column by column.
            root = np.sqrt(p[c]) * (np.eye(3)[c] - p)
            g = (second @ root).reshape(h.shape) * (1.0 - h**2)
            total = np.zeros_like(kernel)
            for one, slope in zip(a, g, strict=True):
                total += np.outer(one, slope)
            yield total


def factors(net, x):
    """A and G, whose Kronecker product stands for the curvature."""
    rows = columns = 0.0
    for v in derivatives(net, x):
        rows, columns = rows + v @ v.T, columns + v.T @ v
    return rows / np.trace(rows), columns


def covariances(weight):
    """Those of rows and of columns."""
    flat = weight.posterior.distribution
    trils = array(flat.row_tril), array(flat.column_tril)
    return [x.astype("float64") @ x.T for x in trils]


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_covariance_is_the_product_nearest_to_the_inverse(rank):
    """Where KL(q || p) by U and V has no slope, U^-1 and V^-1 are these sums."""
    net, x = network(rank), inputs(rank)
    model = laplace(net, (x, CLASSES), "categorical", layers="all", prior=PRIOR)
    a, g = factors(net, x)
    u, v = covariances(model.layers[0].random_weights["kernel"])
    precision = 0.8**-2
    for found, other, ours, theirs in ((u, v, a, g), (v, u, g, a)):
        expected = ours * np.trace(theirs @ other)
        expected += precision * np.trace(other) * np.eye(len(ours))
        expected /= len(theirs)
        product = found @ expected
        np.testing.assert_allclose(product, np.eye(len(ours)), atol=2e-3)


def test_it_is_the_exact_covariance_of_a_linear_network():
    """The curvature is a Kronecker product; the prior is too wide to be seen."""
    net = keras.Sequential(
        [keras.Input((3,)), layers.Dense(2, use_bias=False), layers.Dense(2)]
    )
    noise = 0.1
    model = laplace(
        net,
        (X, Y),
        bl.distributions.Normal(0.0, noise),
        layers="all",
        prior=bl.regularizers.NormalKLDivergence(stddev=1e4),
    )
    second = array(net.layers[-1].kernel).astype("float64")
    hessian = np.kron(X.T @ X, second @ second.T) / noise**2
    weight = model.layers[0].random_weights["kernel"]
    found = covariance(weight)
    np.testing.assert_allclose(found @ hessian, np.eye(6), atol=2e-3)


def test_the_prior_has_the_largest_marginal_likelihood():
    net = network(0)
    model = laplace(net, (X, CLASSES), "categorical", layers="all")
    hessian = np.kron(*factors(net, X))
    kernel = array(net.layers[0].kernel).astype("float64")

    def loss(log_precision):
        precision = np.exp(log_precision)
        whole = hessian + precision * np.eye(12)
        log_prior = 12 * log_precision - precision * np.sum(kernel**2)
        return np.linalg.slogdet(whole)[1] - log_prior

    best = optimize.minimize_scalar(loss, bounds=(-6.0, 6.0), method="bounded")
    stddev = float(array(model.layers[0].random_weights["kernel"].prior.scale))
    assert -2.0 * np.log(stddev) == pytest.approx(best.x, abs=1e-3)


def test_the_mean_variance_of_any_spectrum_is_at_most_that_of_the_prior():
    rows, columns = (np.diag(np.logspace(-9.0, 3.0, n)) for n in (6, 5))
    rows[0, 0] = 0.0
    columns *= np.trace(rows) / np.trace(columns)
    u, v = (x @ x.T for x in Kronecker(rows, columns).covariance_factors(0.1))
    variances = np.outer(np.diag(u), np.diag(v))
    precisions = np.outer(np.diag(rows), np.diag(columns)) / np.trace(rows) + 0.1
    for axis in (0, 1):
        np.testing.assert_allclose(np.mean(variances * precisions, axis), 1.0, 1e-6)
    assert np.mean(variances) < 10.0


def test_layers_that_it_does_not_fit_have_the_diagonal():
    # TensorFlow has no derivatives by example of groups on a CPU.
    has_groups = keras.backend.backend() != "tensorflow"
    net = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Embedding(5, 2),
            layers.DepthwiseConv1D(2),
            *[layers.Conv1D(2, 2, groups=2)] * has_groups,
            layers.Dense(2),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )
    x = RNG.integers(0, 5, (40, 4))
    model = laplace(net, (x, CLASSES), "categorical", layers="all")
    kinds = [
        type(weight.initializer).__name__
        for layer in model.layers
        for weight in getattr(layer, "random_weights", {}).values()
    ]
    assert kinds == [
        *["TrainableNormal"] * (2 + has_groups),
        "TrainableKroneckerNormal",
        "TrainableMultivariateNormal",
    ]


def test_a_layer_with_many_inputs_is_refused():
    net = keras.Sequential([keras.Input((5001,)), layers.Dense(1), layers.Dense(1)])
    data = np.ones((2, 5001)), np.ones((2, 1))
    with pytest.raises(ValueError, match='25,010,001 numbers.*structure="diagonal"'):
        laplace(net, data, "normal", layers="all")
