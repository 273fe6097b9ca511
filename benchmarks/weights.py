"""Train steps of an MLP 784-400-400-10, batch 128, Adam, on JAX.

Deterministic Keras, our layers, and steps of the same mathematics written by hand in
`jax.numpy`, all in turns in one run. What Keras itself pays over its hand-written twin
(its trainer, metrics and state) is allowed for: the last column is the ratio of ours to
(hand-written + what the deterministic Keras step costs more than its twin).
"""

import functools
import multiprocessing
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
from hand_written import adam_steps, normal_kl
from timing import median_times

import bayesian_layers as bl

# isort: split
import keras

SIZES = (784, 400, 400, 10)
BATCH, DATASET_SIZE, RATE = 128, 60_000, 1e-3

rng = np.random.default_rng(0)
x = jnp.asarray(rng.normal(size=(BATCH, SIZES[0])), "float32")
y = jnp.asarray(rng.integers(0, SIZES[-1], BATCH), "int32")


def keras_step(layer):
    """One train step of a compiled Keras model."""
    model = keras.Sequential(
        [keras.Input(SIZES[:1])]
        + [layer(size, activation="relu") for size in SIZES[1:-1]]
        + [layer(SIZES[-1])]
    )
    if layer is not keras.layers.Dense:
        bl.scale_kl(model, dataset_size=DATASET_SIZE)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(RATE), loss)
    return functools.partial(model.train_on_batch, x, y)


def by_hand(apply, random):
    """One train step with the weights in a list of dictionaries."""
    layers = []
    for fan_in, fan_out in zip(SIZES[:-1], SIZES[1:], strict=True):
        limit = np.sqrt(6.0 / (fan_in + fan_out))
        kernel = rng.uniform(-limit, limit, (fan_in, fan_out))
        layers.append({"kernel": kernel, "bias": np.zeros(fan_out)})
        if random:
            layers[-1]["scale"] = np.full((fan_in, fan_out), -3.0)

    def loss(parameters, key):
        h, kl = x, 0.0
        for i, layer in enumerate(parameters):
            h = apply(h, layer, jax.random.fold_in(key, i)) + layer["bias"]
            h = jax.nn.relu(h) if i < len(parameters) - 1 else h
            if random:
                kl += normal_kl(layer["kernel"], jax.nn.softplus(layer["scale"]))
        log_probs = jax.nn.log_softmax(h)
        nll = -jnp.mean(jnp.take_along_axis(log_probs, y[:, None], axis=1))
        return nll + kl / DATASET_SIZE

    return adam_steps(loss, layers, RATE)


def deterministic(h, layer, key):
    return h @ layer["kernel"]


def reparameterization(h, layer, key):
    noise = jax.random.normal(key, layer["kernel"].shape)
    return h @ (layer["kernel"] + jax.nn.softplus(layer["scale"]) * noise)


def flipout(h, layer, key):
    noise_key, in_key, out_key = jax.random.split(key, 3)
    noise = jax.random.normal(noise_key, layer["kernel"].shape)
    noise = jax.nn.softplus(layer["scale"]) * noise
    signs_in = jax.random.rademacher(in_key, h.shape, "float32")
    signs_out = jax.random.rademacher(out_key, (len(h), noise.shape[1]), "float32")
    return h @ layer["kernel"] + ((h * signs_in) @ noise) * signs_out


def local(h, layer, key):
    mean = h @ layer["kernel"]
    variance = h**2 @ jax.nn.softplus(layer["scale"]) ** 2
    return mean + jnp.sqrt(variance + 1e-30) * jax.random.normal(key, mean.shape)


CASES = {
    "deterministic": (keras.layers.Dense, deterministic),
    "reparameterization": (bl.layers.DenseReparameterization, reparameterization),
    "flipout": (bl.layers.DenseFlipout, flipout),
    "local": (bl.layers.DenseLocalReparameterization, local),
}


def steps(name):
    """The step of Keras and the step by hand of a case."""
    layer, apply = CASES[name]
    return keras_step(layer), by_hand(apply, random=apply is not deterministic)


def peak_memory(name, side):
    """The peak memory in MB of a process that runs some steps of one side."""
    run = steps(name)[side]
    for _ in range(3):
        run()
    # Not `ru_maxrss`, which a child process takes over from its parent.
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024


def main():
    functions = [step for name in CASES for step in steps(name)]
    times = 1e3 * median_times(functions, repeats=60).reshape(-1, 2)
    overhead = times[0, 0] - times[0, 1]
    print(f"Keras costs {overhead:.2f} ms more than its hand-written twin.")
    print(f"{'train step':20}{'Keras':>9}{'by hand':>9}{'ratio':>7}{'peak memory':>19}")
    context = multiprocessing.get_context("spawn")
    for name, (ours, hand) in zip(CASES, times, strict=True):
        with context.Pool(1, maxtasksperchild=1) as pool:
            memory = pool.starmap(peak_memory, [(name, 0), (name, 1)], chunksize=1)
        print(
            f"{name:20}{ours:6.2f} ms{hand:6.2f} ms{ours / (hand + overhead):7.2f}"
            f"{memory[0]:8.0f} /{memory[1]:5.0f} MB"
        )


if __name__ == "__main__":
    main()
