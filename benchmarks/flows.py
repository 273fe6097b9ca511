"""Maximum-likelihood train steps of flows, against a step by hand and libraries.

Five transforms of 8 numbers, networks of two hidden layers of 128 units, batches of
512, Adam, float32, one core:

- autoregressive: each number is shifted and scaled by those before it, in orders that
  alternate (a masked autoregressive flow);
- coupling: half of the numbers are shifted and scaled by the other half.

Every side runs in a process of its own, and they take turns of 50 steps each, as `fit`,
or the loop of a library's manual, makes them. A library runs if it can be imported,
here or by the interpreter that is given for it:

    python benchmarks/flows.py --python-of zuko=venv/bin/python
"""

import argparse

import numpy as np
import sides as turns
from sides import OURS

CASES = ("autoregressive", "coupling")
LIBRARIES = ("flowjax", "zuko", "normflows", "distrax", "tensorflow_probability")
SIZE, TRANSFORMS, HIDDEN, BATCH, STEPS, RATE = 8, 5, 128, 512, 50, 1e-3
HALF = SIZE // 2

rng = np.random.default_rng(0)
X = rng.normal(size=(STEPS * BATCH, SIZE)).astype("float32")
X[:, 1:] += 0.5 * X[:, :-1] ** 2 - 0.5
BATCHES = X.reshape(STEPS, BATCH, SIZE)


# Ours, on the backend that Keras runs on.


def ours(case):
    import bayesian_layers as bl

    # isort: split
    import keras

    def transform(i):
        if case == "autoregressive":
            order = ("left-to-right", "right-to-left")[i % 2]
            network = bl.layers.MADE(hidden_dims=[HIDDEN, HIDDEN], order=order)
            return bl.layers.MaskedAutoregressiveFlow(network)
        hidden = [keras.layers.Dense(HIDDEN, activation="relu") for _ in range(2)]
        return bl.layers.RealNVP(keras.Sequential(hidden), parity=i % 2)

    flow = bl.Sequential([transform(i) for i in range(TRANSFORMS)])
    base = bl.layers.BaseDistribution()
    model = keras.Sequential([keras.Input((SIZE,)), base, flow])
    model.compile(keras.optimizers.Adam(RATE), bl.losses.NegativeLogLikelihood())
    x = keras.ops.convert_to_tensor(X)

    def steps():
        history = model.fit(x, x, batch_size=BATCH, shuffle=False, verbose=0)
        return history.history["loss"][0]

    return steps


# By hand.


def glorot(generator, *shape):
    limit = (6.0 / sum(shape)) ** 0.5
    return generator.uniform(-limit, limit, size=shape).astype("float32")


def parameters_by_hand(case):
    """Kernels and biases of each transform: the last ones start at zero."""
    generator = np.random.default_rng(1)
    inputs, outputs = (SIZE, SIZE) if case == "autoregressive" else (HALF, HALF)
    return [
        [
            (glorot(generator, inputs, HIDDEN), np.zeros(HIDDEN, "float32")),
            (glorot(generator, HIDDEN, HIDDEN), np.zeros(HIDDEN, "float32")),
            (
                np.zeros((HIDDEN, 2 * outputs), "float32"),
                np.zeros(2 * outputs, "float32"),
            ),
        ]
        for _ in range(TRANSFORMS)
    ]


def masks_by_hand(i):
    """Who sees whom, from left to right or from right to left."""
    positions = np.arange(SIZE) if i % 2 == 0 else np.arange(SIZE)[::-1]
    hidden = np.sort(np.resize(np.arange(SIZE - 1), HIDDEN))
    return (
        (positions[:, None] <= hidden).astype("float32"),
        (hidden[:, None] <= hidden).astype("float32"),
        (hidden[:, None] < np.tile(positions, 2)).astype("float32"),
    )


def log_prob_by_hand(case, jnp, relu):
    def network(layers, x, masks):
        for i, ((kernel, bias), mask) in enumerate(zip(layers, masks, strict=True)):
            x = x @ (kernel * mask) + bias
            x = relu(x) if i < 2 else x
        return jnp.split(x, 2, axis=-1)

    def reverse(i, layers, y):
        if case == "autoregressive":
            shift, log_scale = network(layers, y, masks_by_hand(i))
            log_scale = 5.0 * jnp.tanh(log_scale / 5.0)
            return (y - shift) * jnp.exp(-log_scale), -jnp.sum(log_scale, -1)
        parts = [y[:, :HALF], y[:, HALF:]]
        kept, mapped = parts[i % 2], parts[1 - i % 2]
        shift, log_scale = network(layers, kept, (1.0, 1.0, 1.0))
        log_scale = 5.0 * jnp.tanh(log_scale / 5.0)
        mapped = (mapped - shift) * jnp.exp(-log_scale)
        parts = [kept, mapped] if i % 2 == 0 else [mapped, kept]
        return jnp.concatenate(parts, axis=-1), -jnp.sum(log_scale, -1)

    def log_prob(parameters, y):
        total = 0.0
        for i in reversed(range(TRANSFORMS)):
            y, log_det = reverse(i, parameters[i], y)
            total = total + log_det
        return total - 0.5 * jnp.sum(y**2, -1) - 0.5 * SIZE * np.log(2.0 * np.pi)

    return log_prob


def by_hand(case):
    import jax
    import jax.numpy as jnp
    import optax

    log_prob = log_prob_by_hand(case, jnp, jax.nn.relu)
    return jax_steps(
        parameters_by_hand(case), lambda p, x: -jnp.mean(log_prob(p, x)), jax, optax
    )


def jax_steps(parameters, loss, jax, optax):
    """Steps of Adam, compiled one by one."""
    optimizer = optax.adam(RATE)

    def update(parameters, state, x):
        value, gradient = jax.value_and_grad(loss)(parameters, x)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(parameters, updates), state, value

    update = jax.jit(update, donate_argnums=(0, 1))
    batches = [jax.numpy.asarray(x) for x in BATCHES]
    parameters = jax.tree.map(jax.numpy.asarray, parameters)
    kept = [parameters, optimizer.init(parameters)]

    def steps():
        values = []
        for x in batches:
            *kept[:], value = update(*kept, x)
            values.append(value)
        return np.mean([float(value) for value in values])

    return steps


# Libraries.


def flowjax(case):
    import equinox
    import flowjax.bijections
    import flowjax.distributions
    import flowjax.flows
    import jax
    import jax.numpy as jnp
    import optax
    import paramax

    make = {
        "autoregressive": flowjax.flows.masked_autoregressive_flow,
        "coupling": flowjax.flows.coupling_flow,
    }[case]
    # Its name for the map of one number is an argument of couplings only.
    given = {} if case == "autoregressive" else {"transformer": _affine(flowjax)}
    flow = make(
        jax.random.key(0),
        base_dist=flowjax.distributions.Normal(jnp.zeros(SIZE)),
        flow_layers=TRANSFORMS,
        nn_width=HIDDEN,
        nn_depth=2,
        **given,
    )
    parameters, static = equinox.partition(
        flow,
        equinox.is_inexact_array,
        is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable),
    )

    def loss(parameters, x):
        flow = paramax.unwrap(equinox.combine(parameters, static))
        return -jnp.mean(flow.log_prob(x))

    return jax_steps(parameters, loss, jax, optax)


def _affine(flowjax):
    return flowjax.bijections.Affine()


def torch_steps(log_prob, parameters):
    import torch

    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(list(parameters), RATE)
    batches = [torch.tensor(x) for x in BATCHES]

    def steps():
        values = []
        for x in batches:
            optimizer.zero_grad()
            loss = -log_prob(x).mean()
            loss.backward()
            optimizer.step()
            values.append(loss.detach())
        return float(torch.stack(values).mean())

    return steps


def zuko(case):
    import zuko

    make = {"autoregressive": zuko.flows.MAF, "coupling": zuko.flows.RealNVP}[case]
    flow = make(SIZE, transforms=TRANSFORMS, hidden_features=(HIDDEN, HIDDEN))
    return torch_steps(lambda x: flow().log_prob(x), flow.parameters())


def normflows(case):
    import normflows
    import torch

    def transform(i):
        if case == "autoregressive":
            return normflows.flows.MaskedAffineAutoregressive(
                SIZE, HIDDEN, num_blocks=1, use_residual_blocks=False
            )
        sizes = [SIZE // 2, HIDDEN, HIDDEN, SIZE]
        return normflows.flows.AffineCouplingBlock(
            normflows.nets.MLP(sizes, init_zeros=True)
        )

    layers = []
    for i in range(TRANSFORMS):
        layers += [transform(i), normflows.flows.Permute(SIZE, mode="swap")]
    base = normflows.distributions.DiagGaussian(SIZE, trainable=False)
    flow = normflows.NormalizingFlow(base, layers)
    torch.manual_seed(0)
    return torch_steps(flow.log_prob, flow.parameters())


def distrax(case):
    try:
        import distrax
    except AttributeError as error:
        # Of a release that this version of JAX has left behind.
        raise ModuleNotFoundError(str(error), name="distrax") from error

    import jax
    import jax.numpy as jnp
    import optax

    if case == "autoregressive":
        return None

    def network(layers, x):
        for i, (kernel, bias) in enumerate(layers):
            x = x @ kernel + bias
            x = jax.nn.relu(x) if i < 2 else x
        return jnp.reshape(x, (*x.shape[:-1], HALF, 2))

    def affine(parameters):
        log_scale = 5.0 * jnp.tanh(parameters[..., 1] / 5.0)
        return distrax.ScalarAffine(shift=parameters[..., 0], log_scale=log_scale)

    def loss(parameters, x):
        layers = [
            distrax.SplitCoupling(
                HALF,
                1,
                lambda kept, p=p: network(p, kept),
                affine,
                swap=bool(i % 2),
            )
            for i, p in enumerate(parameters)
        ]
        base = distrax.MultivariateNormalDiag(jnp.zeros(SIZE), jnp.ones(SIZE))
        flow = distrax.Transformed(base, distrax.Chain(layers[::-1]))
        return -jnp.mean(flow.log_prob(x))

    return jax_steps(parameters_by_hand(case), loss, jax, optax)


def tensorflow_probability(case):
    import tensorflow_probability

    # isort: split
    import tensorflow as tf
    import tf_keras

    if case == "coupling":
        return None
    bijectors = tensorflow_probability.bijectors
    chain = []
    for i in range(TRANSFORMS):
        order = ("left-to-right", "right-to-left")[i % 2]
        network = bijectors.AutoregressiveNetwork(
            2,
            event_shape=[SIZE],
            hidden_units=[HIDDEN, HIDDEN],
            input_order=order,
            activation="relu",
        )
        chain.append(bijectors.MaskedAutoregressiveFlow(network))
    distributions = tensorflow_probability.distributions
    base = distributions.MultivariateNormalDiag(tf.zeros(SIZE))
    flow = distributions.TransformedDistribution(base, bijectors.Chain(chain))
    optimizer = tf_keras.optimizers.legacy.Adam(RATE)
    batches = [tf.constant(x) for x in BATCHES]
    flow.log_prob(batches[0])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(flow.log_prob(x))
        gradients = tape.gradient(loss, flow.trainable_variables)
        optimizer.apply_gradients(zip(gradients, flow.trainable_variables, strict=True))
        return loss

    return lambda: np.mean([float(value) for value in [step(x) for x in batches]])


SIDES = {
    "by hand": by_hand,
    **{name: ours for name in OURS},
    "flowjax": flowjax,
    "zuko": zuko,
    "normflows": normflows,
    "distrax": distrax,
    "tensorflow_probability": tensorflow_probability,
}


def print_case(case, medians, losses):
    print(f"{case:28}{'a step':>12}{'to by hand':>12}{'first loss':>12}")
    for name, median in medians.items():
        label = f"ours, {name}" if name in OURS else name
        ratio = median / medians["by hand"] if "by hand" in medians else np.nan
        print(f"  {label:26}{median / STEPS:9.2f} ms{ratio:12.2f}{losses[name]:12.4f}")
    ours_only = [median for name, median in medians.items() if name in OURS]
    others = [median for name, median in medians.items() if name in LIBRARIES]
    if ours_only and others:
        ratio = min(ours_only) / min(others)
        print(f"  the fastest of ours to the fastest library: {ratio:.2f}")
    missing = [name for name in LIBRARIES if name not in medians]
    if missing:
        print(f"  not installed, without such a flow, or broken here: {missing}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="*", choices=CASES, default=CASES)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--python-of", nargs="*", default=[], metavar="LIBRARY=PATH")
    parser.add_argument("--side", nargs="*", choices=SIDES, help="only these")
    parser.add_argument("--verbose", action="store_true", help="show all messages")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        turns.serve(SIDES[arguments.worker], arguments.worker)
        return
    sides = turns.start(
        arguments.side or list(SIDES),
        __file__,
        arguments.python_of,
        verbose=arguments.verbose,
    )
    for case in arguments.case:
        print_case(case, *turns.measure(sides, case, arguments.repeats))
    turns.stop(sides)


if __name__ == "__main__":
    main()
