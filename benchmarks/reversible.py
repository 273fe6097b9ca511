"""Memory and time of gradients of deep residual networks, reversible and plain.

Blocks of two networks, 32 -> 64 -> 32 each, with or without dropout, at depths 4, 16
and 64, batch 4096, on JAX or PyTorch (KERAS_BACKEND). A reversible stack keeps the
output of its last block only; the plain network of the same layers keeps what each
block needs for its gradient.

Memory is that of activations at its peak, in MiB: what is in use besides weights, data
and the gradients that are returned. On JAX the compiler tells it of its program
(`memory_analysis`), on PyTorch the profiler records each allocation. Time is the median
of gradients that are computed in turns, in milliseconds.
"""

import numpy as np
from timing import median_times

import bayesian_layers as bl

# isort: split
import keras
from keras import ops

DEPTHS, BATCH, WIDTH, HIDDEN = (4, 16, 64), 4096, 64, 64
BACKEND = keras.backend.backend()
X = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("float32")


class Plain(keras.Layer):
    """The same blocks, as anybody would write them."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def call(self, inputs, training=None):
        first, second = ops.split(inputs, 2, axis=-1)
        for block in self.blocks:
            first = first + block.f(second, training=training)
            second = second + block.g(first, training=training)
        return ops.concatenate([first, second], axis=-1)


class Part(keras.Layer):
    """A network of one hidden layer.

    (No `keras.Sequential`: on PyTorch its calls leave cycles of references behind that
    hold inputs until Python's collector comes by. That is bounded, but noise here.)
    """

    def __init__(self, dropout):
        super().__init__()
        self.hidden = keras.layers.Dense(HIDDEN, activation="tanh")
        self.dropout = keras.layers.Dropout(0.1 if dropout else 0.0)
        self.last = keras.layers.Dense(WIDTH // 2)

    def build(self, input_shape):
        self.hidden.build(input_shape)
        self.last.build((*input_shape[:-1], HIDDEN))

    def call(self, inputs, training=None):
        hidden = self.dropout(self.hidden(inputs), training=training)
        return self.last(hidden)


def models(depth, dropout):
    """A reversible and a plain model of the same layers."""
    blocks = [
        bl.layers.ReversibleBlock(Part(dropout), Part(dropout)) for _ in range(depth)
    ]
    stack = bl.layers.ReversibleStack(blocks)
    stack.build((None, WIDTH))
    plain = Plain(blocks)
    plain.built = True
    return [keras.Sequential([keras.Input((WIDTH,)), net]) for net in (stack, plain)]


def with_jax(model):
    """The peak of memory, in bytes, and a function that computes a gradient."""
    import jax

    def loss(trained, state, x):
        y, state = model.stateless_call(trained, state, x, training=True)
        return ops.mean(ops.square(y)), state

    arguments = (
        [v.value for v in model.trainable_variables],
        [v.value for v in model.non_trainable_variables],
        jax.numpy.asarray(X),
    )
    gradient = jax.jit(jax.grad(loss, has_aux=True)).lower(*arguments).compile()
    memory = gradient.memory_analysis().temp_size_in_bytes
    return memory, lambda: jax.block_until_ready(gradient(*arguments))


def with_torch(model):
    """The peak of memory, in bytes, and a function that computes a gradient."""
    import torch

    x = ops.convert_to_tensor(X)
    weights = [v.value for v in model.trainable_variables]

    def gradient():
        y = model(x, training=True)
        return torch.autograd.grad(torch.mean(torch.square(y)), weights)

    gradient()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(
        activities=activities, profile_memory=True, record_shapes=True
    ) as profile:
        kept = gradient()
    tree = profile.profiler.kineto_results.experimental_event_tree()
    events = sorted(allocations(tree), key=lambda event: event[0])
    # What is not given back by the end are the gradients.
    left = {}
    for index, (_, address, size) in enumerate(events):
        if size > 0:
            left[address] = index
        else:
            left.pop(address, None)
    held = set(left.values())
    in_use, peak, known = 0, 0, set()
    for index, (_, address, size) in enumerate(events):
        if index in held or (size < 0 and address not in known):
            continue
        in_use += size
        peak = max(peak, in_use)
        known.add(address) if size > 0 else known.discard(address)
    del kept
    return peak, gradient


def allocations(events):
    """Times, addresses and sizes (negative where memory is given back)."""
    for event in events:
        kind, fields = event.typed
        if str(kind).endswith("Allocation"):
            yield event.start_time_ns, fields.ptr, fields.alloc_size
        yield from allocations(event.children)


def main():
    """Prints a table for networks with and without dropout."""
    measure = {"jax": with_jax, "torch": with_torch}
    if BACKEND not in measure:
        raise SystemExit(f"Memory is measured on jax and torch, not on {BACKEND}.")
    print(f"{BACKEND}, batch {BATCH}, {WIDTH} channels")
    for dropout in (False, True):
        print("with dropout" if dropout else "without dropout")
        print("depth  reversible MiB  plain MiB  reversible ms  plain ms")
        peaks = []
        for depth in DEPTHS:
            runs = [measure[BACKEND](model) for model in models(depth, dropout)]
            times = median_times([run for _, run in runs], repeats=3)
            memory = [peak / 2**20 for peak, _ in runs]
            peaks.append(memory[0])
            row = "{:5d}  {:14.2f}  {:9.2f}  {:13.1f}  {:8.1f}"
            print(row.format(depth, *memory, *(1e3 * times)), flush=True)
        spread = max(peaks) / min(peaks) - 1.0
        print(f"reversible: largest over smallest peak {100.0 * spread:+.1f}%")


if __name__ == "__main__":
    main()
