"""Sources of randomness: what `keras.random` gives, made safe to transform."""

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.seeds import split


def normal(shape, dtype, seed):
    """Standard normal noise."""
    return keras.random.normal(shape, dtype=dtype, seed=seed)


def uniform(shape, dtype, seed):
    """Uniform noise strictly between 0 and 1, by half a step of its resolution."""
    step = float(np.finfo(dtype).epsneg)
    noise = keras.random.uniform(shape, dtype=dtype, seed=seed)
    return ops.clip(noise + step, step, 1.0 - step)


def poisson(shape, rate, dtype, seed):
    """Poisson counts: finite whole numbers for any rate, NaN where the rate is.

    The samplers of the backends overflow, or never return, for large or missing rates.
    Above 1e5 the counts are made of normal noise, with the first correction for
    skewness.
    """
    poisson_seed, normal_seed = split(seed, 2)
    rate = ops.broadcast_to(rate, shape)
    missing, large = ops.isnan(rate), rate > 1e5
    usual = ops.where(ops.logical_or(missing, large), 1.0, rate)
    drawn = backend.random_poisson(shape, usual, dtype, poisson_seed)
    # The largest number is far above what it deviates by.
    rate = ops.minimum(rate, 0.5 * float(np.finfo(dtype).max))
    z = normal(shape, dtype, normal_seed)
    skewness = (ops.square(z) - 1.0) / 6.0
    approximate = ops.round(rate + ops.sqrt(ops.maximum(rate, 1.0)) * z + skewness)
    drawn = ops.where(large, approximate, drawn)
    return ops.where(missing, np.nan, drawn)


def binomial(shape, count, probs, dtype, seed):
    """Numbers of successes in `count` trials, NaN where an argument is."""
    count, probs = ops.broadcast_to(count, shape), ops.broadcast_to(probs, shape)
    # TensorFlow's sampler does not return from NaN, and PyTorch's refuses it.
    missing = ops.isnan(count + probs)
    count, probs = ops.where(missing, 1.0, count), ops.where(missing, 0.5, probs)
    # Samplers are poor at p near 1: failures are drawn there instead.
    flip = probs > 0.5
    rarer = ops.where(flip, 1.0 - probs, probs)
    drawn = keras.random.binomial(shape, count, rarer, dtype=dtype, seed=seed)
    return ops.where(missing, np.nan, ops.where(flip, count - drawn, drawn))


def log_gamma(shape, concentration, dtype, seed):
    """The logarithm of standard gamma noise, differentiable in the concentration.

    For small concentrations the noise itself underflows. Its logarithm does not:
    if g ~ Gamma(a + 1) and u ~ Uniform(0, 1), then g * u**(1 / a) ~ Gamma(a).
    """
    gamma_seed, uniform_seed = split(seed, 2)
    concentration = ops.broadcast_to(concentration, shape)
    boosted = backend.random_gamma(shape, concentration + 1.0, dtype, gamma_seed)
    return (
        ops.log(boosted) + ops.log(uniform(shape, dtype, uniform_seed)) / concentration
    )
