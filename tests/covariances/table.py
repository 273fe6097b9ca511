"""One row for every covariance: how it is made, and what it is by an outside oracle."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
from keras import ops
from sklearn.gaussian_process import kernels

from bayesian_layers import covariances
from tests.covariances import references

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(6, 3).astype("float32")
Z = RANDOM.randn(4, 3).astype("float32")
SCALES = [0.7, 1.5, 2.0]


@dataclasses.dataclass(frozen=True)
class Row:
    """A covariance, and a reference: a function `(x, z=None) -> matrix` of arrays.

    Kernels of scikit-learn are such references. `detect` is the error of the
    expectation of random features that a test must see; `None` where there are none.
    """

    make: Callable
    reference: Callable
    detect: float | None
    hyperparameters: dict = dataclasses.field(default_factory=dict)


def squared(amplitude, kernel):
    return kernels.ConstantKernel(amplitude**2) * kernel


@keras.saving.register_keras_serializable("tests.covariances")
def function(x, z):
    """A covariance of a user: a product of inner products."""
    return ops.square(ops.matmul(x, ops.swapaxes(z, -1, -2)) + 1.0)


@keras.saving.register_keras_serializable("tests.covariances")
class UsersLayer(keras.Layer):
    """A covariance of a user, with a weight."""

    def build(self, x_shape, z_shape):
        self.factor = self.add_weight((), initializer="ones")

    def call(self, x, z):
        return self.factor * function(x, z)


def fixed_network():
    initializer = keras.initializers.RandomNormal(seed=1)
    return keras.Sequential([keras.layers.Dense(2, "tanh", False, initializer)])


def _sum():
    smooth = covariances.ExponentiatedQuadratic(1.3, 0.8)
    return smooth + covariances.Linear(0.5) + covariances.White(0.3)


def _product():
    smooth = covariances.ExponentiatedQuadratic(1.3, 0.8)
    return 2.0 * smooth * covariances.Linear(0.5)


SMOOTH = squared(1.3, kernels.RBF(0.8))
LINEAR = squared(0.5, kernels.DotProduct(0.0))

ROWS = {
    "ExponentiatedQuadratic": Row(
        lambda **kwargs: covariances.ExponentiatedQuadratic(1.3, SCALES, **kwargs),
        squared(1.3, kernels.RBF(SCALES)),
        0.15,
        {"amplitude": (), "lengthscale": (3,)},
    ),
    "Matern12": Row(
        lambda **kwargs: covariances.Matern12(1.3, SCALES, **kwargs),
        squared(1.3, kernels.Matern(SCALES, nu=0.5)),
        0.15,
        {"amplitude": (), "lengthscale": (3,)},
    ),
    "Matern32": Row(
        lambda **kwargs: covariances.Matern32(1.3, SCALES, **kwargs),
        squared(1.3, kernels.Matern(SCALES, nu=1.5)),
        0.15,
        {"amplitude": (), "lengthscale": (3,)},
    ),
    "Matern52": Row(
        lambda **kwargs: covariances.Matern52(1.3, SCALES, **kwargs),
        squared(1.3, kernels.Matern(SCALES, nu=2.5)),
        0.15,
        {"amplitude": (), "lengthscale": (3,)},
    ),
    "RationalQuadratic": Row(
        lambda **kwargs: covariances.RationalQuadratic(1.3, 0.8, 0.6, **kwargs),
        squared(1.3, kernels.RationalQuadratic(0.8, 0.6)),
        0.15,
        {"amplitude": (), "lengthscale": (), "concentration": ()},
    ),
    "Periodic": Row(
        lambda **kwargs: covariances.Periodic(1.3, [0.8, 1.1], 2.5, **kwargs),
        references.periodic(1.3, [0.8, 1.1], [2.5, 2.5]),
        0.15,
        {"amplitude": (), "lengthscale": (2,), "period": ()},
    ),
    "Cosine": Row(
        lambda **kwargs: covariances.Cosine(1.3, SCALES, **kwargs),
        references.cosine(1.3, SCALES),
        0.15,
        {"amplitude": (), "period": (3,)},
    ),
    "Linear": Row(
        lambda **kwargs: covariances.Linear(0.5, **kwargs),
        LINEAR,
        0.15,
        {"amplitude": ()},
    ),
    "Polynomial": Row(
        lambda **kwargs: covariances.Polynomial(0.4, 1.5, 0.9, degree=3, **kwargs),
        references.polynomial(0.4, 1.5, 0.9, 3),
        3.0,
        {"amplitude": (), "lengthscale": (), "bias": ()},
    ),
    "ArcCosine": Row(
        lambda **kwargs: covariances.ArcCosine(0.8, SCALES, 0.6, **kwargs),
        references.arc_cosine(0.8, SCALES, 0.6, 1),
        0.6,
        {"amplitude": (), "lengthscale": (3,), "bias": ()},
    ),
    "Constant": Row(
        lambda **kwargs: covariances.Constant(1.3, **kwargs),
        kernels.ConstantKernel(1.69),
        0.01,
        {"amplitude": ()},
    ),
    "White": Row(
        lambda **kwargs: covariances.White(1.3, **kwargs),
        kernels.WhiteKernel(1.69),
        None,
        {"amplitude": ()},
    ),
    "Sum": Row(_sum, SMOOTH + LINEAR + kernels.WhiteKernel(0.09), None),
    "Product": Row(_product, 2.0 * SMOOTH * LINEAR, 0.6),
    "Stacked": Row(
        lambda: covariances.get([_product(), covariances.Constant(1.3)]),
        lambda x, z=None: np.stack(
            [(2.0 * SMOOTH * LINEAR)(x, z), kernels.ConstantKernel(1.69)(x, z)]
        ),
        0.6,
    ),
    "DeepKernel": Row(
        lambda: covariances.DeepKernel(
            fixed_network(), covariances.ExponentiatedQuadratic(1.0, 0.8)
        ),
        None,
        0.15,
    ),
    "FromFunction": Row(
        lambda: covariances.get(function),
        references.polynomial(1.0, 1.0, 1.0, 2),
        None,
    ),
}


def inputs_of(name):
    """The inputs of a row: its covariance has as many dimensions."""
    columns = 2 if name == "Periodic" else 3
    return X[:, :columns], Z[:, :columns]


def reference_of(name, covariance):
    """The reference of a row; that of a network reads its weights."""
    if name != "DeepKernel":
        return ROWS[name].reference

    def reference(x, z=None):
        kernel = ops.convert_to_numpy(covariance.network.layers[0].kernel)
        z = None if z is None else np.tanh(z @ kernel)
        return kernels.RBF(0.8)(np.tanh(x @ kernel), z)

    return reference


def array(x):
    return ops.convert_to_numpy(x)
