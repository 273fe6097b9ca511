"""log_prob under `jax.jit`, against the same formulas written by hand.

Both sides are timed in turns in one run; the ratio of the median times is printed.
Values above 1.1 would mean that the distributions cost something of their own.
"""

import jax
import jax.numpy as jnp
import numpy as np
from timing import median_times

import bayesian_layers as bl

rng = np.random.default_rng(0)


def array(*shape):
    return jnp.asarray(rng.normal(size=shape), "float32")


def normal():
    loc, scale, x = array(2000, 500), jnp.exp(array(2000, 500)), array(2000, 500)

    def ours(loc, scale, x):
        return bl.distributions.Normal(loc, scale).log_prob(x)

    def by_hand(loc, scale, x):
        z = (x - loc) / scale
        return -0.5 * z**2 - 0.5 * jnp.log(2.0 * jnp.pi) - jnp.log(scale)

    return ours, by_hand, (loc, scale, x)


def categorical():
    logits, x = array(20_000, 100), jnp.asarray(rng.integers(0, 100, 20_000))

    def ours(logits, x):
        return bl.distributions.Categorical(logits=logits).log_prob(x)

    def by_hand(logits, x):
        log_probs = jax.nn.log_softmax(logits)
        return jnp.take_along_axis(log_probs, x[:, None], axis=-1)[:, 0]

    return ours, by_hand, (logits, x)


def multivariate_normal_tril():
    size = 100
    tril = jnp.tril(array(size, size), -1) + size * jnp.eye(size)
    loc, x = array(size), array(5000, size)

    def ours(loc, tril, x):
        return bl.distributions.MultivariateNormalTriL(loc, tril).log_prob(x)

    def by_hand(loc, tril, x):
        z = jax.scipy.linalg.solve_triangular(tril, (x - loc).T, lower=True)
        log_det = jnp.sum(jnp.log(jnp.diag(tril)))
        constant = 0.5 * size * jnp.log(2.0 * jnp.pi)
        return -0.5 * jnp.sum(z**2, axis=0) - constant - log_det

    return ours, by_hand, (loc, tril, x)


def compiled(function, arguments):
    """The call of the compiled function, as a function without arguments."""
    function = jax.jit(function)
    return lambda: function(*arguments).block_until_ready()


def main():
    print(f"{'log_prob of':28}{'ours ms':>10}{'by hand ms':>12}{'ratio':>8}")
    for case in (normal, categorical, multivariate_normal_tril):
        ours, by_hand, arguments = case()
        np.testing.assert_allclose(
            ours(*arguments), by_hand(*arguments), rtol=1e-4, atol=1e-4
        )
        first, second = 1e3 * median_times(
            [compiled(function, arguments) for function in (ours, by_hand)]
        )
        print(f"{case.__name__:28}{first:10.3f}{second:12.3f}{first / second:8.2f}")


if __name__ == "__main__":
    main()
