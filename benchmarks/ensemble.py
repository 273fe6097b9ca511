"""Train steps of a deep ensemble, relative to those of one network, on JAX.

A network of one hidden layer, and one of three, at batch 32, with a normal distribution
over the output, trained by Adam. `fit` runs 200 steps of the network alone, and of
`bl.Ensemble`, in turns in one run; the cost is the time of its steps over that of the
network's, Keras' own overhead included in both. Members that are trained one after
another cost as many as they are. Then the time of the first step, most of which is
compilation.
"""

import argparse
import datetime
import functools
import time

import numpy as np
from timing import median_times

import bayesian_layers as bl

# isort: split
import keras

STEPS, BATCH, FEATURES = 200, 32, 8
SIZES = (1, 2, 5, 10, 20)
NETWORKS = {"50": (50,), "256-256-256": (256, 256, 256)}

rng = np.random.default_rng(0)
X = rng.normal(size=(STEPS * BATCH, FEATURES)).astype("float32")
Y = np.sin(X[:, :1])


def network(units):
    """A network with hidden layers of so many units."""
    hidden = [keras.layers.Dense(n, activation="relu") for n in units]
    return keras.Sequential([keras.Input((FEATURES,)), *hidden, bl.layers.Normal(1)])


def compiled(model):
    model.compile(keras.optimizers.Adam(), bl.losses.NegativeLogLikelihood())
    return model


def first_step(model):
    """The time until the first step is done."""
    start = time.perf_counter()
    model.train_on_batch(X[:BATCH], Y[:BATCH])
    return time.perf_counter() - start


def steps(model):
    return functools.partial(model.fit, X, Y, batch_size=BATCH, verbose=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    print(
        f"{datetime.date.today()}, keras {keras.__version__}, {keras.backend.backend()}"
    )
    for name, units in NETWORKS.items():
        build = functools.partial(network, units)
        models = [compiled(build())]
        models += [compiled(bl.Ensemble(build, size)) for size in SIZES]
        first = [first_step(model) for model in models]
        times = median_times([steps(model) for model in models], repeats, quantile=0.1)
        print(f"hidden layers {name}: alone {1e6 * times[0] / STEPS:.0f} us a step")
        for size, relative, start in zip(
            SIZES, times[1:] / times[0], first[1:], strict=True
        ):
            print(
                f"  {size:2d} members: {relative:5.2f} steps of one, "
                f"{relative / size:.2f} for each; first step {start:.1f} s, "
                f"alone {first[0]:.1f} s"
            )


if __name__ == "__main__":
    main()
