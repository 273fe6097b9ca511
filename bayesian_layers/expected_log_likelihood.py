"""The data term of the evidence bound of a function."""

from collections.abc import Callable

import keras
from keras import ops

from bayesian_layers.distributions import Distribution, Normal, shapes
from bayesian_layers.distributions.compound import NUM_NODES
from bayesian_layers.distributions.expectation import average, spread
from bayesian_layers.distributions.over_nodes import OverNodes
from bayesian_layers.distributions.types import Seed, Tensor, TensorLike
from bayesian_layers.random_variable import RandomVariable


def expected_log_likelihood(
    latent: Distribution,
    likelihood: Callable,
    y: TensorLike,
    num_nodes: int | None = None,
    num_samples: int | None = None,
    seed: Seed = None,
) -> Tensor:
    """E_{f ~ latent} log p(y | f): the expected log-likelihood of observations.

    For `bl.layers.GaussianLikelihood`, and `PoissonLikelihood` with exp, it is in
    closed form. Other likelihoods take the mean over Gauss-Hermite nodes, which is
    precise where each observation depends on one value of f, or over draws of f.

    Args:
        latent: The distribution of f, or a random variable: a `Normal` where nodes are
            used, or what `bl.layers.DenseQuadrature` returns, which has nodes of its
            own; anything that can be sampled where draws are.
        likelihood: A layer such as `bl.layers.BernoulliLikelihood`, or a function from
            values of f, with one axis more at the front, to a distribution of y.
        y: The observations.
        num_nodes: The number of nodes, for a function. Defaults to 20.
        num_samples: The number of draws that are taken instead of nodes, for a
            function. Needed where an observation depends on several values of f, such
            as the logits of a `Categorical`.
        seed: The seed of the draws, as in `keras.random`.

    Returns:
        A tensor of the shape of log p(y | f).

    Example:
    >>> f = bl.distributions.Normal(loc=0.5, scale=2.0)
    >>> term = bl.expected_log_likelihood(
    ...     f, lambda f: bl.distributions.Bernoulli(logits=f), 1
    ... )
    >>> round(float(term), 4)
    -0.8366
    """
    if isinstance(latent, RandomVariable):
        latent = latent.distribution
    if isinstance(likelihood, keras.Layer):
        if not (num_nodes is None and num_samples is None and seed is None):
            raise ValueError(
                "A likelihood layer has its own number of nodes or draws, and its own "
                f"seed. Received: num_nodes={num_nodes}, num_samples={num_samples}, "
                f"seed={seed}"
            )
        return likelihood(RandomVariable(latent)).expected_log_prob(y)
    if isinstance(latent, OverNodes) and num_samples is None:
        if num_nodes is not None:
            raise ValueError(
                "`latent` has nodes of its own. Received: "
                f"num_nodes={num_nodes}, latent={latent}"
            )
        return latent.expect(lambda f: likelihood(f).log_prob(y))
    if num_samples is not None:
        if num_nodes is not None:
            raise ValueError(
                "Expected either nodes or draws. Received: "
                f"num_nodes={num_nodes}, num_samples={num_samples}"
            )
        f = latent.sample((num_samples,), seed=seed)
        return ops.mean(likelihood(f).log_prob(y), axis=0)
    if not isinstance(latent, Normal):
        raise ValueError(
            "Gauss-Hermite nodes are those of a Normal. Give `num_samples`, to take "
            f"draws instead. Received: latent={latent}"
        )
    f, log_weights = spread(latent, NUM_NODES if num_nodes is None else num_nodes)
    log_probs = likelihood(f).log_prob(y)
    if len(log_probs.shape) <= len(latent.batch_shape):
        raise ValueError(
            "An observation depends on several values of f, over which there is no "
            "quadrature. Give `num_samples`, to take draws instead. Received: "
            f"log-likelihoods of shape {shapes.static(log_probs)} for values of f of "
            f"shape {shapes.static(f)}"
        )
    return average(log_probs, log_weights)
