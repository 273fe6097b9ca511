"""Quantiles of a mixture of equally probable distributions."""

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import Deterministic, MixtureSameFamily

# The most there are: fewer if the numbers next to each other are reached before.
STEPS = 60


def mixture_quantile(distribution, q, samples):
    """Returns the q-quantile of a mixture, elementwise.

    The distribution function of the mixture, the mean of those of its parts, is
    inverted by bisection. Discrete parts, and those without such a function, are left
    to the samples.

    Args:
        distribution: A distribution with batch axes `[parts, ...]`.
        q: A number between 0 and 1.
        samples: A function that returns one draw from each part.

    Returns:
        An array of the shape of one part.
    """
    if isinstance(distribution, Deterministic):
        return np.quantile(samples(), q, axis=0)
    if not is_continuous(distribution) or distribution.event_shape:
        return np.quantile(samples(), q, axis=0, method="inverted_cdf")
    if q in (0.0, 1.0):
        raise ValueError(
            "The quantiles 0 and 1 of a continuous distribution are the ends of its "
            f"support. Ask for numbers between them. Received: q={q}"
        )
    try:
        return _bisect(distribution, q)
    except NotImplementedError:
        return np.quantile(samples(), q, axis=0)


def is_continuous(distribution):
    """Whether it has a density: so have all that can be reparameterized, and mixtures.

    Of a mixture the sample cannot, for the choice that it makes.
    """
    while isinstance(distribution, MixtureSameFamily):
        distribution = distribution.components_distribution
    return distribution.reparameterized


def _bisect(distribution, q):
    def below(x):
        return ops.mean(distribution.cdf(ops.expand_dims(x, axis=0)), axis=0) < q

    try:
        low, high = _ends(distribution, q)
        low, high = ops.min(low, axis=0), ops.max(high, axis=0)
    except NotImplementedError:
        low, high = _bracket(distribution, below)
    precision = np.finfo(keras.backend.standardize_dtype(low.dtype)).eps
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        is_below = below(middle)
        low, high = ops.where(is_below, middle, low), ops.where(is_below, high, middle)
        size = ops.maximum(ops.abs(low), ops.abs(high))
        if bool(ops.all(high - low <= 2.0 * precision * size)):
            break
    return ops.convert_to_numpy(0.5 * (low + high))


def _ends(distribution, q):
    """Numbers below and above the quantile: the least and largest of the components.

    No mixture has its quantile outside of those of its components.
    """
    if not isinstance(distribution, MixtureSameFamily):
        quantile = distribution.quantile(q)
        return quantile, quantile
    low, high = _ends(distribution.components_distribution, q)
    return ops.min(low, axis=-1), ops.max(high, axis=-1)


def _bracket(distribution, below):
    """Numbers below and above the quantile, of parts whose own are not known."""
    mean, stddev = distribution.mean(), distribution.stddev()
    low, high = ops.min(mean - stddev, axis=0), ops.max(mean + stddev, axis=0)
    width = high - low
    # They double until they hold: heavy tails need more than Gaussian ones.
    for _ in range(STEPS):
        low_misses, high_misses = ops.logical_not(below(low)), below(high)
        if not bool(ops.any(ops.logical_or(low_misses, high_misses))):
            break
        low = ops.where(low_misses, low - width, low)
        high = ops.where(high_misses, high + width, high)
        width = 2.0 * width
    return low, high
