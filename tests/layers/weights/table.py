"""One row per public layer with random weights; what its tests share."""

import dataclasses
import inspect

import keras
import numpy as np
from keras import ops

import bayesian_layers as bl
from bayesian_layers.layers import weights

VECTOR, SEQUENCE, IMAGE, VOLUME = (3,), (5, 2), (4, 4, 2), (3, 3, 3, 1)


@dataclasses.dataclass(frozen=True)
class Row:
    """How to make a small layer of a family, and the shape of one of its inputs."""

    arguments: dict
    input_shape: tuple
    kernels: tuple = ("kernel",)
    vocabulary: int = 0
    is_cell: bool = False
    is_attention: bool = False

    def run(self, layer, x):
        """Outputs of a layer: of a cell over a sequence, of attention to itself."""
        if self.is_cell:
            return keras.layers.RNN(layer, dtype=layer.dtype_policy)(x)
        return layer(x, x) if self.is_attention else layer(x)

    def build(self, layer):
        shape = (None, *self.input_shape)
        if self.is_cell:
            layer = keras.layers.RNN(layer)
        layer.build(*[shape] * (2 if self.is_attention else 1))

    def output_shape(self, layer):
        shape = (None, *self.input_shape)
        if self.is_cell:
            layer = keras.layers.RNN(layer)
        return layer.compute_output_shape(*[shape] * (2 if self.is_attention else 1))

    def inputs(self, batch=2, seed=0):
        rng = np.random.default_rng(seed)
        shape = (batch, *self.input_shape)
        if self.vocabulary:
            return rng.integers(0, self.vocabulary, shape).astype("int32")
        return rng.normal(size=shape).astype("float32")


def _conv(rank, shape, kernel_size=2):
    size = (kernel_size,) * rank
    return Row({"filters": 2, "kernel_size": size}, shape)


RECURRENT = ("kernel", "recurrent_kernel", "bias")


def _recurrent(**kwargs):
    return Row({"units": 3}, SEQUENCE, RECURRENT, **kwargs)


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
    "SimpleRNNCell": _recurrent(is_cell=True),
    "GRUCell": _recurrent(is_cell=True),
    "LSTMCell": _recurrent(is_cell=True),
    "SimpleRNN": _recurrent(),
    "GRU": _recurrent(),
    "LSTM": _recurrent(),
    "MultiHeadAttention": Row(
        {"num_heads": 2, "key_dim": 3}, SEQUENCE, ("kernel",) * 4, is_attention=True
    ),
    "GroupedQueryAttention": Row(
        {"head_dim": 3, "num_query_heads": 2, "num_key_value_heads": 1},
        SEQUENCE,
        ("kernel",) * 4,
        is_attention=True,
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


@dataclasses.dataclass(frozen=True)
class Other:
    """A layer that is random in a way of its own: `test_other_layers.py` runs it.

    `divergences` counts its losses. Held at the mean it is the Keras layer with the
    same weights, if `is_keras_at_the_mean`. Calls differ if `draws_anew`, and the
    examples of a batch if `by_example`.
    """

    arguments: dict
    input_shape: tuple
    divergences: int = 0
    is_keras_at_the_mean: bool = True
    by_example: bool = True
    draws_anew: bool = True
    is_cell: bool = False

    def model(self, name, /, **kwargs):
        """A model of the layer, and the layer."""
        layer = getattr(bl.layers, name)(**{**self.arguments, **kwargs})
        inputs = keras.Input(self.input_shape)
        run = (
            keras.layers.RNN(layer, dtype=layer.dtype_policy) if self.is_cell else layer
        )
        return keras.Model(inputs, run(inputs)), layer

    def inputs(self, batch=4, seed=0):
        rng = np.random.default_rng(seed)
        return rng.normal(size=(batch, *self.input_shape)).astype("float32")


def _families(estimator, names, divergences, **kwargs):
    """Rows of an estimator for families of the table, with further arguments."""
    arguments = kwargs.pop("arguments", {})
    return {
        f"{name}{estimator}": Other(
            {**FAMILIES[name].arguments, **arguments},
            FAMILIES[name].input_shape,
            divergences * (2 if FAMILIES[name].is_cell else 1),
            is_cell=FAMILIES[name].is_cell,
            **kwargs,
        )
        for name in names
    }


DROPOUT = {"rate": 0.5}
RANK_ONE = ["Dense", "Conv1D", "Conv2D", "DepthwiseConv2D", "LSTMCell"]
OTHERS = {
    "MonteCarloDropout": Other(DROPOUT, SEQUENCE),
    "MonteCarloSpatialDropout1D": Other(DROPOUT, (2, 6)),
    "MonteCarloSpatialDropout2D": Other(DROPOUT, (2, 2, 6)),
    "MonteCarloSpatialDropout3D": Other(DROPOUT, (2, 2, 2, 6)),
    "MonteCarloGaussianDropout": Other(DROPOUT, VECTOR),
    **_families(
        "ConcreteDropout",
        ["Dense", "Conv1D", "Conv2D", "Conv3D"],
        divergences=1,
        arguments={"initial_rate": 0.4},
    ),
    **_families(
        "BatchEnsemble",
        RANK_ONE,
        divergences=0,
        arguments={"ensemble_size": 2},
        is_keras_at_the_mean=False,
        draws_anew=False,
    ),
    **_families(
        "Rank1",
        RANK_ONE,
        divergences=2,
        arguments={"ensemble_size": 2},
        is_keras_at_the_mean=False,
    ),
    **_families(
        "Hierarchical",
        ["Dense", "Conv1D", "Conv2D"],
        divergences=3,
        is_keras_at_the_mean=False,
        by_example=False,
    ),
}

# What these return is of another kind: files of their own test them.
ELSEWHERE = (
    "DenseMomentPropagation",
    "Conv2DMomentPropagation",
    "FlattenMomentPropagation",
    "AveragePooling2DMomentPropagation",
    "GlobalAveragePooling2DMomentPropagation",
    "DropoutMomentPropagation",
    "MomentPropagation",
    "DenseQuadrature",
)
LAYERS = [
    name
    for name in weights.__all__
    if inspect.isclass(getattr(weights, name))
    and issubclass(getattr(weights, name), keras.Layer)
    and name not in (*OTHERS, *ELSEWHERE)
]
ROWS = {name: FAMILIES[_split(name)[0]] for name in LAYERS}
LINEAR = [name for name in ROWS if len(ROWS[name].kernels) == 1]


def estimator_of(name):
    return _split(name)[1]


def make(name, /, **kwargs):
    """A layer of the table, not built."""
    return getattr(bl.layers, name)(**{**ROWS[name].arguments, **kwargs})


def make_built(name, /, **kwargs):
    """A layer of the table, built."""
    layer = make(name, **kwargs)
    ROWS[name].build(layer)
    return layer


def keras_layer(layer):
    """The Keras layer that a layer replaces, with its locations as weights."""
    counterpart = type(layer).keras_counterpart
    config = layer.get_config()
    own = inspect.signature(counterpart).parameters
    arguments = {
        key: value
        for key, value in config.items()
        if key in own and not key.endswith(("_initializer", "_regularizer"))
    }
    return counterpart(**arguments)


def array(x):
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


def random_weights(layer):
    """The random weights of a layer and its parts, in the order of `weights`."""
    order = [id(variable) for variable in layer.weights]
    found = [
        weight
        for part in layer._flatten_layers()
        for weight in getattr(part, "random_weights", {}).values()
    ]
    return sorted(found, key=lambda weight: order.index(id(weight.location)))


def set_stddev(layer, stddev):
    """Sets the standard deviation of every random weight."""
    untransformed = np.log(np.expm1(stddev))
    for weight in random_weights(layer):
        scale = weight.variables["scale"]
        scale.assign(ops.full(scale.shape, untransformed))


def compiled(layer, row):
    """A model of one layer: `predict_on_batch` is compiled where it can be."""
    dtype = "int32" if row.vocabulary else "float32"
    inputs = keras.Input(row.input_shape, dtype=dtype)
    return keras.Model(inputs, row.run(layer, inputs))


def assert_same_outputs(outputs, expected):
    """One output or several are those that are expected."""
    if not isinstance(outputs, (list, tuple)):
        outputs, expected = [outputs], [expected]
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(array(ours), array(theirs), atol=1e-5)
