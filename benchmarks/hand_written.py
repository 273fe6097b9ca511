"""What the hand-written twins of the benchmarks share, in plain JAX."""

import functools

import jax
import jax.numpy as jnp


def normal_kl(mean, scale):
    """KL(Normal(mean, scale) || Normal(0, 1)), summed."""
    return jnp.sum(0.5 * (mean**2 + scale**2 - 1.0) - jnp.log(scale))


def adam_steps(loss, parameters, rate):
    """A function that makes one step of Adam on `loss(parameters, key)` per call."""
    parameters = jax.tree.map(lambda p: jnp.asarray(p, "float32"), parameters)
    zeros = jax.tree.map(jnp.zeros_like, parameters)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state):
        parameters, first, second, count, key = state
        key, now = jax.random.split(key)
        value, gradient = jax.value_and_grad(loss)(parameters, now)
        count += 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradient)
        size = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        parameters = jax.tree.map(
            lambda p, m, v: p - size * m / (jnp.sqrt(v) + 1e-7),
            parameters,
            first,
            second,
        )
        return (parameters, first, second, count, key), value

    state = [(parameters, zeros, jax.tree.map(jnp.copy, zeros), 0.0, jax.random.key(0))]

    def run():
        state[0], value = step(state[0])
        return float(value)

    return run
