"""Seeds for samplers that are called on the backend's own library."""

import keras


def key_data(seed):
    """Two random integers, as a tensor, from anything Keras takes for a seed.

    `keras.random.randint` advances a `SeedGenerator`, refuses `seed=None` under
    `jax.jit`, and gives the same numbers for the same integer: exactly what a sampler
    that Keras does not have should do too.
    """
    return keras.random.randint((2,), 0, 2**31 - 1, dtype="int32", seed=seed)
