"""The log joint of a program against the density written by hand, under `jax.jit`.

    KERAS_BACKEND=jax python benchmarks/log_joint.py

A logistic regression with a hierarchical scale, 10,000 rows and 20 columns, and eight
schools. Both sides compute the value and its gradient; they are called in turns, and
the last column is the ratio of their medians. The tracing of the program takes place
when it is compiled, so the ratio is one but for what the densities check of supports.
"""

import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from timing import median_times

ROWS, COLUMNS = 10_000, 20


def logistic(x):
    """A logistic regression with an unknown scale of its weights."""
    scale = bl.HalfNormal(1.0, name="scale")
    w = bl.Normal(0.0, scale, sample_shape=COLUMNS, name="w")
    return bl.Bernoulli(logits=keras.ops.matmul(x, w), name="y")


def schools(stddev):
    """Eight schools, not centred."""
    mean = bl.Normal(0.0, 5.0, name="mean")
    spread = bl.HalfCauchy(0.0, 5.0, name="spread")
    effect = bl.Normal(0.0, 1.0, sample_shape=8, name="effect")
    return bl.Normal(mean + spread * effect, stddev, name="y")


def cases():
    """Name, program, data, values, and the log joint by hand."""
    import jax
    import jax.numpy as jnp
    from jax.scipy import stats

    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, COLUMNS)).astype("float32")
    y = (x[:, 0] + rng.logistic(size=ROWS) > 0).astype("int32")
    x, y = jnp.asarray(x), jnp.asarray(y)

    def logistic_by_hand(scale, w):
        logits = x @ w
        log_p = stats.norm.logpdf(scale) + jnp.log(2.0)
        log_p += stats.norm.logpdf(w, 0.0, scale).sum()
        return log_p + (y * logits - jax.nn.softplus(logits)).sum()

    values = {"scale": jnp.float32(0.7), "w": jnp.full(COLUMNS, 0.1, "float32")}
    yield "logistic", logistic, {"x": x, "y": y}, values, logistic_by_hand

    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], "float32")
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], "float32")

    def schools_by_hand(mean, spread, effect):
        log_p = stats.norm.logpdf(mean, 0.0, 5.0)
        log_p += stats.cauchy.logpdf(spread, 0.0, 5.0) + jnp.log(2.0)
        log_p += stats.norm.logpdf(effect).sum()
        return log_p + stats.norm.logpdf(effects, mean + spread * effect, errors).sum()

    values = {
        "mean": jnp.float32(1.0),
        "spread": jnp.float32(2.0),
        "effect": jnp.full(8, 0.1, "float32"),
    }
    data = {"stddev": errors, "y": effects}
    yield "eight schools", schools, data, values, schools_by_hand


def main():
    """Prints a line for each program."""
    if keras.backend.backend() != "jax":
        raise SystemExit("This benchmark compares functions compiled by JAX.")
    import jax

    print(f"{'program':>14} {'by hand, us':>12} {'ours, us':>9} {'ratio':>6}")
    for name, program, data, values, by_hand in cases():
        log_joint = bl.make_log_joint_fn(program, data)
        arguments = list(values.values())

        def ours(*arguments, log_joint=log_joint, names=tuple(values)):
            return log_joint(**dict(zip(names, arguments, strict=True)))

        argnums = tuple(range(len(arguments)))
        sides = [jax.jit(jax.value_and_grad(side, argnums)) for side in (by_hand, ours)]
        first, second = (float(side(*arguments)[0]) for side in sides)
        if not np.isclose(first, second, rtol=1e-4):
            raise SystemExit(f"{name}: {first} by hand, {second} by the program")

        def run(side, arguments=arguments):
            for _ in range(20):
                result = side(*arguments)
            jax.block_until_ready(result)

        times = median_times([lambda side=side: run(side) for side in sides], 200)
        times = 1e6 * times / 20
        print(f"{name:>14} {times[0]:12.1f} {times[1]:9.1f} {times[1] / times[0]:6.2f}")


if __name__ == "__main__":
    main()
