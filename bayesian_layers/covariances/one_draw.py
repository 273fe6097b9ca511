"""Random hyperparameters with one value over several calls."""

import contextlib

import keras

from bayesian_layers.handlers import hand_on, handle
from bayesian_layers.random_weights.kl import random_weights


def one_draw(covariance: keras.Layer) -> contextlib.AbstractContextManager[None]:
    """Within the block, random hyperparameters of a covariance have one value.

    The matrices and diagonals that are computed in it are those of one covariance
    function. The weights of a random network in a `bl.covariances.DeepKernel` are held
    as well. Nothing happens if nothing is random. Handlers outside of the block see
    each hyperparameter once.

    Args:
        covariance: A covariance, or any layer with random weights.

    Example:
    >>> cov = bl.covariances.ExponentiatedQuadratic("trainable_log_normal", seed=1)
    >>> x = np.zeros((1, 2))
    >>> with bl.covariances.one_draw(cov):
    ...     bool(cov(x)[0, 0] == cov.diagonal(x)[0])
    True
    >>> bool(cov(x)[0, 0] == cov.diagonal(x)[0])
    False
    """
    if not random_weights(covariance) and covariance.built:
        return contextlib.nullcontext()
    sources, values = set(), {}

    def is_held(name, source):
        if source is not None and source not in sources:
            # It may have been built meanwhile.
            sources.update(random_weights(covariance))
        return source in sources

    def handler(site):
        source = site["source"]
        if not is_held(site["name"], source):
            return hand_on(site)
        if source not in values:
            values[source] = hand_on(site)
        return values[source]

    return handle(handler, is_held)
