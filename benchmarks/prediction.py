"""100 draws of the network 784-400-400-10 on 1,000 inputs, on JAX.

`bl.predict` against a hand-written `lax.map` over seeds and against one eager call of
the model for each draw, in turns in one run; and the memory that 10, 100 and 400 draws
take if only moments are kept.
"""

import multiprocessing
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
from timing import median_times

import bayesian_layers as bl

# isort: split
import keras

SIZES = (784, 400, 400, 10)
EXAMPLES, SAMPLES = 1000, 100

x = np.random.default_rng(0).normal(size=(EXAMPLES, SIZES[0])).astype("float32")


def network():
    return keras.Sequential(
        [keras.Input(SIZES[:1])]
        + [bl.layers.DenseFlipout(size, activation="relu") for size in SIZES[1:-1]]
        + [bl.layers.DenseFlipout(SIZES[-1])]
    )


def predict(model, num_samples=SAMPLES, **kwargs):
    return bl.predict(
        model, x, num_samples, EXAMPLES, from_logits=True, verbose=0, seed=1, **kwargs
    )


def by_hand(model):
    """The same mathematics: for each seed draw the weights, run, and average."""
    layers = [
        (layer.kernel.value, layer.random_weights["kernel"].variables["scale"].value)
        for layer in model.layers
    ]
    biases = [layer.bias.value for layer in model.layers]

    @jax.jit
    def run(layers, biases, x, seeds):
        def one(seed):
            h, key = x, jax.random.key(seed)
            for i, ((mean, scale), bias) in enumerate(zip(layers, biases, strict=True)):
                noise = jax.random.normal(jax.random.fold_in(key, i), mean.shape)
                h = h @ (mean + jax.nn.softplus(scale) * noise) + bias
                h = jax.nn.relu(h) if i < len(layers) - 1 else h
            return h

        return jax.lax.map(one, seeds)

    def moments():
        logits = run(layers, biases, x, jnp.arange(SAMPLES))
        probs = np.asarray(jax.nn.softmax(logits), "float64")
        return probs.mean(axis=0), probs.var(axis=0)

    return moments


def eagerly(model):
    return np.stack([np.asarray(model(x)) for _ in range(SAMPLES)])


def peak_memory(num_samples):
    """The peak memory in MB of a process that keeps moments only."""
    predict(network(), num_samples, store_samples=False)
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024


def main():
    model = network()
    functions = {
        "bl.predict": lambda: predict(model).probs,
        "lax.map by hand": by_hand(model),
        "a call for each draw": lambda: eagerly(model),
    }
    ours, hand, calls = median_times(list(functions.values()), repeats=7)
    for name, seconds in zip(functions, (ours, hand, calls), strict=True):
        print(f"{name:22}{seconds:7.2f} s{ours / seconds:9.2f} = bl.predict / this")
    context = multiprocessing.get_context("spawn")
    for num_samples in (10, 100, 400):
        with context.Pool(1) as pool:
            (memory,) = pool.map(peak_memory, [num_samples])
        print(f"moments of {num_samples:4} draws: peak memory {memory:6.0f} MB")


if __name__ == "__main__":
    main()
