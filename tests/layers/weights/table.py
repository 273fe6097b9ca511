"""One row per public layer with random weights; what its tests share."""

import dataclasses

import keras
import numpy as np
from keras import ops

import bayesian_layers as bl
from bayesian_layers.layers import weights
from bayesian_layers.layers.weights.defaults import keras_counterpart

VECTOR, SEQUENCE, IMAGE, VOLUME = (3,), (5, 2), (4, 4, 2), (3, 3, 3, 1)


@dataclasses.dataclass(frozen=True)
class Row:
    """How to make a small layer of a family, and the shape of one of its inputs."""

    arguments: dict
    input_shape: tuple
    kernels: tuple = ("kernel",)
    vocabulary: int = 0

    def inputs(self, batch=2, seed=0):
        rng = np.random.default_rng(seed)
        shape = (batch, *self.input_shape)
        if self.vocabulary:
            return rng.integers(0, self.vocabulary, shape).astype("int32")
        return rng.normal(size=shape).astype("float32")


def _conv(rank, shape, kernel_size=2):
    size = (kernel_size,) * rank
    return Row({"filters": 2, "kernel_size": size}, shape)


FAMILIES = {
    "Dense": Row({"units": 2}, VECTOR),
    "EinsumDense": Row({"equation": "abc,cd->abd", "output_shape": (5, 3)}, SEQUENCE),
    "Conv1D": Row({"filters": 2, "kernel_size": 2, "padding": "causal"}, SEQUENCE),
    "Conv2D": _conv(2, IMAGE),
    "Conv3D": _conv(3, VOLUME),
    "Conv1DTranspose": _conv(1, (3, 2)),
    "Conv2DTranspose": _conv(2, (2, 2, 2)),
    "Conv3DTranspose": _conv(3, (2, 2, 2, 1)),
    "DepthwiseConv1D": Row({"kernel_size": 2, "depth_multiplier": 2}, SEQUENCE),
    "DepthwiseConv2D": Row({"kernel_size": (2, 2)}, IMAGE),
    "SeparableConv1D": Row(
        {"filters": 3, "kernel_size": 2},
        SEQUENCE,
        ("depthwise_kernel", "pointwise_kernel"),
    ),
    "SeparableConv2D": Row(
        {"filters": 3, "kernel_size": 2},
        IMAGE,
        ("depthwise_kernel", "pointwise_kernel"),
    ),
    "Embedding": Row(
        {"input_dim": 4, "output_dim": 2}, (5,), ("embeddings",), vocabulary=4
    ),
}
ESTIMATORS = (
    "Reparameterization",
    "Flipout",
    "LocalReparameterization",
    "VariationalDropout",
)


def _split(name):
    """The family and the estimator in the name of a layer."""
    estimator = max((e for e in ESTIMATORS if name.endswith(e)), key=len)
    return name.removesuffix(estimator), estimator


ROWS = {name: FAMILIES[_split(name)[0]] for name in weights.__all__}
LINEAR = [name for name in ROWS if len(ROWS[name].kernels) == 1]


def estimator_of(name):
    return _split(name)[1]


def make(name, /, **kwargs):
    """A layer of the table, not built."""
    return getattr(bl.layers, name)(**{**ROWS[name].arguments, **kwargs})


def make_built(name, /, **kwargs):
    """A layer of the table, built."""
    layer = make(name, **kwargs)
    layer.build((None, *ROWS[name].input_shape))
    return layer


def keras_layer(layer):
    """The Keras layer that a layer replaces, with its locations as weights."""
    counterpart = keras_counterpart(type(layer))
    config = layer.get_config()
    own = counterpart.__init__.__code__.co_varnames
    arguments = {
        key: value
        for key, value in config.items()
        if key in own and not key.endswith(("_initializer", "_regularizer"))
    }
    return counterpart(**arguments)


def array(x):
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


def kernels(layer, row):
    """The random weights of a layer by name."""
    return {name: layer.random_weights[name] for name in row.kernels}


def set_stddev(layer, stddev):
    """Sets the standard deviation of every random weight."""
    untransformed = np.log(np.expm1(stddev))
    for weight in layer.random_weights.values():
        scale = weight.variables["scale"]
        scale.assign(ops.full(scale.shape, untransformed))


def compiled(layer, row):
    """A model of one layer: `predict_on_batch` is compiled where it can be."""
    dtype = "int32" if row.vocabulary else "float32"
    inputs = keras.Input(row.input_shape, dtype=dtype)
    return keras.Model(inputs, layer(inputs))
