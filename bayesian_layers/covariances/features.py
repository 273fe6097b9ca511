"""What random features are made of."""

import math

import keras
from keras import ops

from bayesian_layers import seeds
from bayesian_layers.distributions import noise


def random_waves(scales, num_coordinates, dtype, seed):
    """Returns a function u -> sqrt(2) cos(frequency u + phase), of random ones of both.

    Args:
        scales: The standard deviations of the frequencies, `[*batch, num_features]`.
        num_coordinates: The size of the last axis of u.
        dtype: The dtype of u.
        seed: As in `keras.random`.

    Returns:
        A function from `[..., n, num_coordinates]` to `[*batch, n, num_features]`.

    Reference: Rahimi and Recht (2007), Random features for large-scale kernel machines.
    """
    frequency_seed, phase_seed = seeds.split(seed, 2)
    *batch, num_features = ops.shape(scales)
    shape = (*batch, num_coordinates, num_features)
    frequencies = scales[..., None, :] * noise.normal(shape, dtype, frequency_seed)
    phases = random_phases((*batch, 1, num_features), dtype, phase_seed)
    return lambda u: wave(ops.matmul(u, frequencies) + phases)


def random_phases(shape, dtype, seed):
    """Uniform noise between 0 and 2 pi."""
    return 2.0 * math.pi * noise.uniform(shape, dtype, seed)


def wave(angle):
    """Returns sqrt(2) cos(angle): its mean square over all phases is one."""
    return math.sqrt(2.0) * ops.cos(angle)


def random_signs(shape, dtype, seed):
    """Returns -1 and 1, each half of the time."""
    coins = keras.random.randint(shape, 0, 2, dtype="int32", seed=seed)
    return ops.cast(2 * coins - 1, dtype)
