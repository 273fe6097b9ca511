"""One row per public reversible layer; what its tests share.

A row is all that a layer needs: the harness runs it through everything. A layer may
have several rows, under names that begin with its own: `"RealNVP, autoregressive"`.
"""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

import bayesian_layers as bl

BATCH = 5


def normal(rng, shape):
    return rng.normal(size=shape)


def between_zero_and_one(rng, shape):
    return rng.uniform(0.1, 0.9, size=shape)


@dataclasses.dataclass(frozen=True)
class Row:
    """How to make a small layer, and what it is defined on.

    `make(**kwargs)` makes a layer, not built; the harness sets all its weights to
    random numbers. `shape` is that of one input.
    """

    make: Callable
    shape: tuple = (2,)
    inputs: Callable = normal  # draws inputs, from a generator and a shape
    context: int = 0  # the size of the context that it takes: 2, or none
    # What the layer transforms in the test that densities integrate to one, and the
    # square outside of which next to nothing is; `None` for layers of no pair of
    # numbers, whose densities the test of log-determinants checks.
    base: Callable = lambda: bl.distributions.Normal(0.0, 0.5)
    grid: tuple | None = (-6.0, 6.0)
    spread: float = 0.4  # of the weights
    bad_shape: tuple | None = None  # of one input that a built layer has to refuse

    def built(self, seed=0, **kwargs):
        """A layer with random weights, the same each time."""
        layer = self.make(**kwargs)
        x, context = self.draw(BATCH), self.draw_context(BATCH)
        layer(x, **context)
        rng = np.random.default_rng(seed)
        for variable in layer.trainable_variables:
            values = self.spread * rng.normal(size=variable.shape)
            variable.assign(values.astype("float32"))
        return layer

    def draw(self, *batch, seed=0):
        """Inputs, `[*batch, *shape]`."""
        rng = np.random.default_rng(seed)
        return self.inputs(rng, (*batch, *self.shape)).astype("float32")

    def draw_context(self, *batch, seed=1):
        """The keyword arguments of a call besides its inputs."""
        if not self.context:
            return {}
        rng = np.random.default_rng(seed)
        return {"context": rng.normal(size=(*batch, self.context)).astype("float32")}


def array(x):
    return np.asarray(ops.convert_to_numpy(x))


def _sequential(**kwargs):
    inner = bl.Sequential([bl.layers.Affine(), bl.layers.Permute()])
    return bl.Sequential([inner, bl.layers.Scale(), bl.layers.Shift()], **kwargs)


def _split(**kwargs):
    return bl.layers.MultiScaleSplit(bl.layers.Affine(), **kwargs)


def _split_images(**kwargs):
    layers = [bl.layers.Squeeze(), bl.layers.ActNorm(), _inner_split()]
    return bl.layers.MultiScaleSplit(bl.Sequential(layers), **kwargs)


def _inner_split():
    network = keras.layers.Conv2D(4, 1)
    return bl.layers.MultiScaleSplit(bl.layers.InvertibleConv1x1(seed=1), network)


def _block(**kwargs):
    f = keras.layers.Dense(1, activation="tanh")
    return bl.layers.ReversibleBlock(f, keras.layers.Dense(1), **kwargs)


def _convolutions(**kwargs):
    def part():
        return keras.layers.Conv2D(1, 3, padding="same", activation="tanh")

    blocks = [bl.layers.ReversibleBlock(part(), part()) for _ in range(2)]
    return bl.layers.ReversibleStack(blocks, **kwargs)


def _network():
    return keras.Sequential([keras.layers.Dense(5, activation="tanh")])


def _made(**kwargs):
    return bl.layers.MADE(hidden_dims=[7, 5], activation="tanh", **kwargs)


def _of(layer, network=_network, **arguments):
    """A row's `make`, of a layer with a network."""
    return lambda **kwargs: layer(network(), **arguments, **kwargs)


def _conditional_sequential(**kwargs):
    layers = [bl.layers.RealNVP(_network()), bl.layers.Permute(), bl.layers.Affine()]
    return bl.Sequential(layers, **kwargs)


ROWS = {
    "Affine": Row(bl.layers.Affine, bad_shape=(3,)),
    "Affine, given": Row(
        lambda **kwargs: bl.layers.Affine([1.0, -1.0], [-2.0, 0.5], **kwargs)
    ),
    "Shift": Row(bl.layers.Shift, bad_shape=(3,)),
    "Scale": Row(bl.layers.Scale, bad_shape=(3,)),
    "Exp": Row(bl.layers.Exp, grid=(1e-3, 9.0)),
    "Softplus": Row(bl.layers.Softplus, grid=(1e-3, 4.0)),
    "Sigmoid": Row(bl.layers.Sigmoid, grid=(1e-3, 0.999)),
    "Tanh": Row(bl.layers.Tanh, grid=(-0.999, 0.999)),
    "Logit": Row(
        bl.layers.Logit,
        inputs=between_zero_and_one,
        base=lambda: bl.distributions.Beta(3.0, 3.0),
    ),
    "LeakyReLU": Row(bl.layers.LeakyReLU),
    "Permute": Row(bl.layers.Permute, bad_shape=(3,)),
    "Permute, given": Row(
        lambda **kwargs: bl.layers.Permute([2, 0, 1], **kwargs),
        shape=(3,),
        grid=None,
        bad_shape=(2,),
    ),
    "Reshape": Row(
        lambda **kwargs: bl.layers.Reshape((3, 2), **kwargs),
        shape=(2, 3),
        grid=None,
        bad_shape=(2, 2),
    ),
    "Reverse": Row(
        lambda **kwargs: bl.layers.Reverse(bl.layers.Affine(), **kwargs), bad_shape=(3,)
    ),
    "Sequential": Row(_sequential, bad_shape=(3,)),
    "ActNorm": Row(bl.layers.ActNorm, bad_shape=(3,)),
    "ActNorm, of images": Row(
        bl.layers.ActNorm, shape=(2, 3, 2), grid=None, bad_shape=(2, 3, 3)
    ),
    "InvertibleConv1x1": Row(
        lambda **kwargs: bl.layers.InvertibleConv1x1(seed=1, **kwargs), bad_shape=(3,)
    ),
    "InvertibleConv1x1, of images": Row(
        lambda **kwargs: bl.layers.InvertibleConv1x1(seed=2, **kwargs),
        shape=(2, 2, 3),
        grid=None,
        bad_shape=(2, 2, 2),
    ),
    "Squeeze": Row(bl.layers.Squeeze, shape=(4, 2, 2), grid=None, bad_shape=(3, 3, 2)),
    "MultiScaleSplit": Row(_split, bad_shape=(3,)),
    "MultiScaleSplit, of images": Row(
        _split_images, shape=(4, 4, 2), grid=None, bad_shape=(4, 4, 3)
    ),
    "ReversibleBlock": Row(_block, bad_shape=(4,)),
    "ReversibleStack": Row(
        lambda **kwargs: bl.layers.ReversibleStack([_block(), _block()], **kwargs),
        bad_shape=(4,),
    ),
    "ReversibleStack, of images": Row(
        _convolutions, shape=(3, 3, 2), grid=None, bad_shape=(3, 3, 4)
    ),
}
PAIR = {"bad_shape": (3,)}
ROWS |= {
    "RealNVP": Row(_of(bl.layers.RealNVP), **PAIR),
    "RealNVP, conditional": Row(
        _of(bl.layers.RealNVP, parity=1),
        shape=(3,),
        context=2,
        grid=None,
        bad_shape=(4,),
    ),
    "RealNVP, autoregressive": Row(_of(bl.layers.RealNVP, _made), **PAIR),
    "AdditiveCoupling": Row(_of(bl.layers.AdditiveCoupling), **PAIR),
    "InverseAutoregressiveFlow": Row(
        _of(bl.layers.InverseAutoregressiveFlow, lambda: _made(order="random")),
        shape=(4,),
        context=2,
        grid=None,
        bad_shape=(3,),
    ),
    "MaskedAutoregressiveFlow": Row(
        _of(
            bl.layers.MaskedAutoregressiveFlow,
            lambda: _made(order="right-to-left"),
        ),
        context=2,
        **PAIR,
    ),
    "SplineCoupling": Row(
        _of(bl.layers.SplineCoupling, num_bins=4, bound=3.0), context=2, **PAIR
    ),
    "SplineAutoregressiveFlow": Row(
        _of(bl.layers.SplineAutoregressiveFlow, _made, num_bins=4, bound=3.0), **PAIR
    ),
    "Reverse, of a flow": Row(
        lambda **kwargs: bl.layers.Reverse(bl.layers.RealNVP(_made()), **kwargs),
        context=2,
        **PAIR,
    ),
    "Sequential, conditional": Row(_conditional_sequential, context=2, **PAIR),
}
# Not reversible layers themselves; files of their own test them.
OTHERS = {"BaseDistribution", "MADE", "ReversibleLayer"}
OTHERS |= {"KLFromPrior", "UniformDequantization"}


def model_of_all(layers):
    """A model that `fit` trains by maximum likelihood, of a layer of each row."""
    inputs, context = keras.Input((1,)), keras.Input((2,))
    outputs = {}
    for name, layer in layers.items():
        row = ROWS[name]
        base = bl.layers.BaseDistribution(row.shape, row.base(), seed=3)(inputs)
        given = {"context": context} if row.context else {}
        outputs[key(name)] = layer(base, **given)
    return keras.Model([inputs, context], outputs)


def key(name):
    """The name of an output, of a row's."""
    return name.replace(", ", "_").replace(" ", "_")
