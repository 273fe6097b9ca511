"""Train steps of an LSTM, 128 units, length 64, batch 32, Adam, on JAX.

Deterministic Keras, our layers, and steps of the same mathematics written by hand in
`jax.numpy`, all in turns in one run. What Keras itself pays over its hand-written twin
is allowed for, as in `weights.py`: the last column is the ratio of ours to (by hand
+ what the deterministic Keras step costs more than its twin). The last row draws the
weights anew at each time step, as peers do.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hand_written import adam_steps, normal_kl
from timing import median_times

import bayesian_layers as bl

# isort: split
import keras

UNITS, LENGTH, BATCH, FEATURES = 128, 64, 32, 64
DATASET_SIZE, RATE = 10_000, 1e-3

rng = np.random.default_rng(0)
x = jnp.asarray(rng.normal(size=(BATCH, LENGTH, FEATURES)), "float32")
y = jnp.asarray(rng.normal(size=(BATCH, UNITS)), "float32")


def keras_step(layer):
    """One train step of a compiled Keras model."""
    model = keras.Sequential([keras.Input((LENGTH, FEATURES)), layer(UNITS)])
    if layer is not keras.layers.LSTM:
        bl.scale_kl(model, dataset_size=DATASET_SIZE)
    model.compile(keras.optimizers.Adam(RATE), "mse")
    return functools.partial(model.train_on_batch, x, y)


def by_hand(prepare, product, redraw=False):
    """One train step with the weights in a dictionary.

    `prepare(weights, key)` draws what a sequence needs and `product(drawn, x, h)` gives
    the sum of both products of a step.
    """
    shapes = {"kernel": (FEATURES, 4 * UNITS), "recurrent": (UNITS, 4 * UNITS)}
    weights = {name: rng.normal(size=s) * 0.05 for name, s in shapes.items()}
    weights["bias"] = np.zeros(4 * UNITS)
    parameters = {"mean": weights}
    if prepare is not None:
        parameters["scale"] = {
            k: np.full(np.shape(w), -3.0) for k, w in weights.items()
        }

    def loss(parameters, key):
        def draw(key):
            if prepare is None:
                return parameters["mean"]
            scale = jax.tree.map(jax.nn.softplus, parameters["scale"])
            return prepare(parameters["mean"], scale, key)

        drawn = draw(key)

        def step(carry, inputs):
            h, c = carry
            x, key = inputs
            now = draw(key) if redraw else drawn
            z = product(now, x, h) + now["bias"]
            i, f, g, o = jnp.split(z, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), None

        zeros = jnp.zeros((BATCH, UNITS))
        keys = jax.random.split(key, LENGTH)
        (h, _), _ = jax.lax.scan(step, (zeros, zeros), (jnp.swapaxes(x, 0, 1), keys))
        value = jnp.mean((h - y) ** 2)
        if prepare is not None:
            scale = jax.tree.map(jax.nn.softplus, parameters["scale"])
            kls = jax.tree.map(normal_kl, parameters["mean"], scale)
            value += sum(kls.values()) / DATASET_SIZE
        return value

    return adam_steps(loss, parameters, RATE)


def plain(drawn, x, h):
    return x @ drawn["kernel"] + h @ drawn["recurrent"]


def reparameterization(mean, scale, key):
    keys = dict(zip(mean, jax.random.split(key, len(mean)), strict=True))
    return {
        name: mean[name] + scale[name] * jax.random.normal(keys[name], mean[name].shape)
        for name in mean
    }


def flipout(mean, scale, key):
    key, *keys = jax.random.split(key, 6)
    drawn = reparameterization(mean, scale, key)
    drawn["noise"] = {k: drawn[k] - mean[k] for k in ("kernel", "recurrent")}
    sizes = [FEATURES, 4 * UNITS, UNITS, 4 * UNITS]
    drawn["signs"] = [
        jax.random.rademacher(key, (BATCH, size), "float32")
        for key, size in zip(keys, sizes, strict=False)
    ]
    return {**drawn, "kernel": mean["kernel"], "recurrent": mean["recurrent"]}


def flipped(drawn, x, h):
    noise, (s, t, u, v) = drawn["noise"], drawn["signs"]
    perturbation = ((x * s) @ noise["kernel"]) * t + ((h * u) @ noise["recurrent"]) * v
    return plain(drawn, x, h) + perturbation


CASES = {
    "deterministic": (keras.layers.LSTM, by_hand(None, plain)),
    "reparameterization": (
        bl.layers.LSTMReparameterization,
        by_hand(reparameterization, plain),
    ),
    "flipout": (bl.layers.LSTMFlipout, by_hand(flipout, flipped)),
}


def main():
    steps = [
        step for layer, hand in CASES.values() for step in (keras_step(layer), hand)
    ]
    redrawing = by_hand(reparameterization, plain, redraw=True)
    *times, redrawing = 1e3 * median_times([*steps, redrawing], repeats=30)
    times = np.reshape(times, (-1, 2))
    overhead = times[0, 0] - times[0, 1]
    print(f"Keras costs {overhead:.2f} ms more than its hand-written twin.")
    print(f"{'train step':20}{'Keras':>10}{'by hand':>10}{'ratio':>7}")
    for name, (ours, hand) in zip(CASES, times, strict=True):
        print(f"{name:20}{ours:7.1f} ms{hand:7.1f} ms{ours / (hand + overhead):7.2f}")
    print(f"by hand, drawing anew at each step: {redrawing / times[1, 1]:.1f}x as long")


if __name__ == "__main__":
    main()
