"""What the outputs of members amount to: an equal mixture, or a mean."""

import math

from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    MixtureSameFamily,
    OneHotCategorical,
    Transformed,
)
from bayesian_layers.random_variable import RandomVariable


def mixable(output):
    """An output of one member, as outputs can be stacked: a distribution or a tensor.

    A parameter without batch axes would, stacked over members, broadcast along the
    wrong ones.
    """
    if not isinstance(output, RandomVariable):
        return ops.convert_to_tensor(output)
    distribution = output.distribution.predictive()
    _check_mixable(distribution)
    return distribution._broadcast_batch(distribution._dynamic_batch_shape())


def _check_mixable(distribution):
    if not isinstance(distribution, Distribution):
        return
    if isinstance(distribution, Transformed) and distribution.transform.is_pytree:
        raise ValueError(
            "An ensemble mixes distributions whose parameters are tensors with batch "
            "axes. Here each member has a reversible layer of its own, whose weights "
            "are not: use `ensemble.members` one by one. Received: "
            f"distribution={distribution}"
        )
    for part in distribution._arguments.values():
        _check_mixable(part)


def stack(outputs):
    """Stacks the outputs of members, what `mixable` returned for each."""
    leaves, structures = zip(*map(backend.flatten, outputs), strict=True)
    if any(structure != structures[0] for structure in structures):
        raise ValueError(
            "Expected members whose outputs have one family of distributions. "
            f"Received: {', '.join(type(output).__name__ for output in outputs)}"
        )
    columns = [ops.stack(column) for column in zip(*leaves, strict=True)]
    return backend.unflatten(structures[0], columns)


def mix(stacked):
    """The prediction of all members, from outputs with members on the first axis.

    Returns:
        The equal mixture, where outputs are distributions: for classifiers it is of
        their family, with the mean of the probabilities. Otherwise the mean.
    """
    if not isinstance(stacked, Distribution):
        return ops.mean(stacked, axis=0)
    if isinstance(stacked, Bernoulli):
        success, failure = (_log_mean(stacked.log_prob(value)) for value in (1.0, 0.0))
        return _with_logits(stacked, success - failure)
    if isinstance(stacked, (Categorical, OneHotCategorical)):
        return _with_logits(stacked, _log_mean(stacked._log_probs()))
    last = len(stacked.batch_shape) - 1
    leaves, structure = backend.flatten(stacked)
    leaves = [ops.moveaxis(leaf, 0, last) for leaf in leaves]
    components = backend.unflatten(structure, leaves)
    dtype = components.parameter_dtype
    weights = Categorical(logits=ops.zeros(stacked.batch_shape[:1], dtype))
    return MixtureSameFamily(weights, components)


def _log_mean(log_values):
    return ops.logsumexp(log_values, axis=0) - math.log(log_values.shape[0])


def _with_logits(distribution, logits):
    arguments = {**distribution._arguments, "logits": logits, "probs": None}
    return distribution.rebuild(arguments)
