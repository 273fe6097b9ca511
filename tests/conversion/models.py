"""Models of every kind, small, with weights that are no initial ones."""

import keras
import numpy as np
from keras import layers, ops

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3)).astype("float32")
Z = RNG.normal(size=(6, 2)).astype("float32")


def sequential(**kwargs):
    """With BatchNorm whose averages have moved."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(4, "relu", kernel_regularizer="l2", name="first"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(2, name="second"),
        ],
        **kwargs,
    )
    model(100.0 * X, training=True)
    return trained(model)


def functional():
    """Shared layers, a model inside, two inputs and outputs, operations, a keyword."""
    first, second = keras.Input((3,), name="x"), keras.Input((2,), name="z")
    shared = layers.Dense(3, "tanh", name="shared")
    inner = keras.Sequential(
        [keras.Input((3,)), layers.Dense(2, name="in_inner")], name="inner"
    )
    hidden = shared(shared(first)) + 1.0
    hidden = layers.Dropout(0.5)(hidden, training=False)
    outputs = {"sum": inner(hidden) + second, "sine": inner(ops.sin(first))}
    return trained(keras.Model({"x": first, "z": second}, outputs))


class Block(keras.Layer):
    """Layers in lists and dictionaries, some made in `build`, a weight of its own."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.denses = [layers.Dense(3), layers.Dense(3)]
        self.others = {"dropout": layers.Dropout(0.5, seed=1)}

    def build(self, input_shape):
        """Builds the layers."""
        self.factor = self.add_weight(input_shape[-1:], name="factor")
        self.normalization = layers.LayerNormalization()
        for layer in (*self.denses, self.normalization):
            layer.build(input_shape)

    def call(self, x, training=False):
        """Runs the layers."""
        for dense in self.denses:
            x = self.function(dense(x))
        x = self.others["dropout"](x, training=training)
        return self.factor * self.normalization(x)


class Net(keras.Model):
    """A model whose constructor no config could tell of."""

    def __init__(self, function):
        super().__init__()
        self.block = Block(function)
        self.head = layers.Dense(2)

    def call(self, x, training=False):
        """Runs the layers."""
        return self.head(self.block(x, training=training))


def subclassed():
    model = Net(lambda x: ops.sin(x))
    model(X)
    return trained(model)


def trained(model):
    """Gives a model other weights, all of them, and compiles it."""
    rng = np.random.default_rng(1)
    model.set_weights(
        [w + 0.1 * np.abs(rng.normal(size=w.shape)) for w in model.get_weights()]
    )
    model.compile("adam", loss=lambda y_true, y_pred: ops.mean(y_pred))
    return model


def inputs(model):
    """Inputs of one of these models."""
    several = len(getattr(model, "inputs", None) or []) > 1
    return {"x": X, "z": Z} if several else X


KINDS = {
    "sequential": sequential,
    "functional": functional,
    "subclassed": subclassed,
}
