"""100 draws of the network 784-400-400-10 on 1,000 inputs, on JAX.

`bl.predict` against itself with batches of 32, a hand-written `lax.map` over seeds and
one eager call of the model for each draw, in turns in one run. Then the memory that
predictions take above that of one call of the model, if only moments are kept.
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


def predict(model, batch_size=EXAMPLES):
    return bl.predict(
        model, x, SAMPLES, batch_size, from_logits=True, verbose=0, seed=1
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


def images():
    """The probabilities of all 256 values of the pixels of 12 images."""
    layers = [
        bl.layers.Conv2DFlipout(3 * 256, 1),
        keras.layers.Reshape((32, 32, 3, 256)),
    ]
    model = keras.Sequential(
        [keras.Input((32, 32, 3)), *layers, bl.layers.Categorical()]
    )
    return model, np.zeros((12, 32, 32, 3), "float32"), 16, 1


def mixtures():
    """16 small images under discretized mixtures."""
    head = [bl.layers.MixtureLogistic(3, num_components=5)]
    head.append(bl.layers.Discretize(0.0, 1.0, 256))
    layers = [keras.Input((8, 8, 3)), bl.layers.Conv2DFlipout(3 * 3 * 5, 1), *head]
    return keras.Sequential(layers), np.zeros((16, 8, 8, 3), "float32"), 16, 16


def language():
    """2,048 positions, a vocabulary of 30,000: the probabilities take 234 MB."""
    layers = [keras.layers.Embedding(30_000, 32), bl.layers.DenseFlipout(32)]
    head = [keras.layers.Dense(30_000), bl.layers.Categorical()]
    model = keras.Sequential([keras.Input((128,), dtype="int32"), *layers, *head])
    return model, np.zeros((16, 128), "int32"), 4, 1


def dense(num_samples=100):
    """The network above."""
    return network(), x, num_samples, 32


def dense_with_more_draws():
    """The network above, with four times as many draws."""
    return dense(400)


def memory(name):
    """The peak memory in MB of a process, after a call and after a prediction."""
    model, inputs, num_samples, batch_size = globals()[name]()
    model.predict(inputs[:1], verbose=0)
    before = peak_memory()
    bl.predict(
        model, inputs, num_samples, batch_size, store_samples=False, verbose=0, seed=1
    )
    return before, peak_memory()


def peak_memory():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024


def main():
    model = network()
    functions = {
        "bl.predict": lambda: predict(model).probs,
        "in batches of 32": lambda: predict(model, 32).probs,
        "lax.map by hand": by_hand(model),
        "a call for each draw": lambda: eagerly(model),
    }
    times = median_times(list(functions.values()), repeats=7)
    for name, seconds in zip(functions, times, strict=True):
        print(f"{name:22}{seconds:7.2f} s{times[0] / seconds:9.2f} = bl.predict / this")
    context = multiprocessing.get_context("spawn")
    for name in ("images", "mixtures", "language", "dense", "dense_with_more_draws"):
        with context.Pool(1) as pool:
            ((before, after),) = pool.map(memory, [name])
        print(f"{name:22}: peak memory {before:6.0f} MB before, {after:6.0f} MB after")


if __name__ == "__main__":
    main()
