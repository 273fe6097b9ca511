"""Train steps of every estimator, relative to the deterministic layer, on JAX.

A dense network 256-128-128-8-1, batch 64, and a convolutional one, 16 x 16 x 8 images,
two layers of 16 filters of 3 x 3, batch 32; both end with a dense layer and Gaussian
noise, are trained by Adam, and run in turns in one run. The cost is the median time of
a train step over that of the deterministic network, Keras' own overhead included in
both; numbers are all trained ones, relative too. What has "last" in its name replaces
the last layer only.
"""

import argparse
import datetime
import functools
import math

import numpy as np
from timing import median_times

import bayesian_layers as bl

# isort: split
import keras

DATASET_SIZE = 10_000

rng = np.random.default_rng(0)
X = rng.normal(size=(64, 256)).astype("float32")
IMAGES = rng.normal(size=(32, 16, 16, 8)).astype("float32")


def dense_network(dense, between=None, last=None):
    """Three layers of `dense`, and the last one."""
    layers = []
    for units in (128, 128, 8):
        layers += [] if between is None else [between()]
        layers.append(dense(units, activation="relu"))
    return [*layers, (last or dense)(1)]


def conv_network(conv, between=None, flatten=keras.layers.Flatten, last=None):
    """Two layers of `conv`, and a dense one."""
    layers = []
    for _ in range(2):
        layers += [] if between is None else [between()]
        layers.append(conv(16, 3, activation="relu"))
    return [*layers, flatten(), (last or keras.layers.Dense)(1)]


def both(name):
    """The networks of an estimator that exists for both families."""
    return (
        functools.partial(dense_network, getattr(bl.layers, f"Dense{name}")),
        functools.partial(conv_network, getattr(bl.layers, f"Conv2D{name}")),
    )


def plain(**kwargs):
    return functools.partial(dense_network, keras.layers.Dense, **kwargs)


def quadrature(**kwargs):
    return plain(last=functools.partial(bl.layers.DenseQuadrature, **kwargs))


CASES = {
    "deterministic": (
        plain(),
        functools.partial(conv_network, keras.layers.Conv2D),
    ),
    **{
        name: both(name)
        for name in (
            "Reparameterization",
            "Flipout",
            "LocalReparameterization",
            "VariationalDropout",
            "ConcreteDropout",
            "BatchEnsemble",
            "Rank1",
            "Hierarchical",
        )
    },
    "MonteCarloDropout": (
        plain(between=lambda: bl.layers.MonteCarloDropout(0.1)),
        functools.partial(
            conv_network,
            keras.layers.Conv2D,
            lambda: bl.layers.MonteCarloSpatialDropout2D(0.1),
        ),
    ),
    "MomentPropagation, diagonal": (
        functools.partial(
            dense_network,
            functools.partial(bl.layers.DenseMomentPropagation, covariance="diagonal"),
        ),
        functools.partial(
            conv_network,
            bl.layers.Conv2DMomentPropagation,
            flatten=bl.layers.FlattenMomentPropagation,
            last=functools.partial(
                bl.layers.DenseMomentPropagation, covariance="diagonal"
            ),
        ),
    ),
    "MomentPropagation, full": (
        functools.partial(dense_network, bl.layers.DenseMomentPropagation),
        None,
    ),
    "Quadrature, last, grid of 256": (quadrature(num_nodes=2), None),
    "Quadrature, last, unscented": (quadrature(rule="unscented"), None),
}


def train_step(make, x):
    """One train step of a compiled model, and how many numbers are trained."""
    layers = [keras.Input(x.shape[1:]), *make(), bl.layers.GaussianLikelihood()]
    model = keras.Sequential(layers)
    for layer in model.layers:
        if hasattr(layer, "kl_scale"):
            layer.kl_scale = 1.0 / DATASET_SIZE
    model.compile(keras.optimizers.Adam(), bl.losses.NegativeLogLikelihood())
    y = rng.normal(size=(len(x), 1)).astype("float32")
    size = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    return functools.partial(model.train_on_batch, x, y), size


def measured(side, x, repeats):
    """The relative times and sizes of one side of the table, by name."""
    made = {
        name: train_step(case[side], x)
        for name, case in CASES.items()
        if case[side] is not None
    }
    times = median_times([step for step, _ in made.values()], repeats)
    sizes = [size for _, size in made.values()]
    print(f"deterministic: {1e3 * times[0]:.2f} ms, {sizes[0]} numbers")
    return {
        name: (time / times[0], size / sizes[0])
        for name, time, size in zip(made, times, sizes, strict=True)
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    repeats = parser.parse_args().repeats
    print(
        f"{datetime.date.today()}, keras {keras.__version__}, {keras.backend.backend()}"
    )
    dense, conv = measured(0, X, repeats), measured(1, IMAGES, repeats)
    print("| estimator | dense: step | numbers | conv: step | numbers |")
    print("|---|---|---|---|---|")
    for name in CASES:
        cells = []
        for side in (dense, conv):
            time, size = side.get(name, (None, None))
            cells += ["", ""] if time is None else [f"{time:.2f}", f"{size:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
