"""Means of functions of a normal variable: by Gauss-Hermite nodes, or by draws."""

import functools
import math

import numpy as np
from keras import ops

from bayesian_layers.distributions.functions import HALF_LOG_2_PI, log_sum_exp

# NumPy's rule is known to be right up to here.
MOST_NODES = 100


@functools.cache
def gauss_hermite(count):
    """Nodes of a standard normal variable, and the logarithms of their weights."""
    if not (isinstance(count, int) and 0 < count <= MOST_NODES):
        raise ValueError(
            f"The number of nodes should be an integer from 1 to {MOST_NODES}. "
            f"Received: num_nodes={count}"
        )
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    # Those far out add nothing, and 0 times an infinite logarithm would be NaN.
    told = weights > 1e-25
    return nodes[told], np.log(weights[told]) - HALF_LOG_2_PI


def tensor_grid(count, dimension):
    """The grid of `count` Gauss-Hermite nodes along each of several normal variables.

    Returns:
        Nodes `[n, dimension]`, and the logarithms of their weights.
    """
    nodes, log_weights = gauss_hermite(count)
    points = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), axis=-1)
    logs = np.stack(np.meshgrid(*[log_weights] * dimension, indexing="ij"), axis=-1)
    return points.reshape(-1, dimension), logs.sum(axis=-1).reshape(-1)


def unscented(dimension):
    """Two nodes on each axis of standard normal variables, with equal weights.

    Exact for polynomials of degree three. Returns as `tensor_grid`.
    """
    axes = np.sqrt(dimension) * np.eye(dimension)
    count = 2 * dimension
    return np.concatenate([axes, -axes]), np.full(count, -math.log(count))


def spread(normal, num_nodes, rank=None):
    """Values of each normal variable on a new first axis.

    Args:
        normal: A `Normal`.
        num_nodes: The number of nodes of the rule; those without weight are left out.
        rank: How many axes they are to have after the first, at least those of the
            batch. Defaults to these.

    Returns:
        The values, and the logarithms of their weights, a NumPy array.
    """
    nodes, log_weights = gauss_hermite(num_nodes)
    rank = len(normal.batch_shape) if rank is None else rank
    nodes = ops.convert_to_tensor(nodes, normal.parameter_dtype)
    nodes = ops.reshape(nodes, (-1, *[1] * rank))
    return normal.loc + normal.scale * nodes, log_weights


def scatter(normal, nodes, rank):
    """As `spread`, at draws `[..., n]` of standard normal variables."""
    *batch, count = ops.shape(nodes)
    nodes = ops.moveaxis(nodes, -1, 0)
    nodes = ops.reshape(nodes, (count, *[1] * (rank - len(batch)), *batch))
    return normal.loc + normal.scale * nodes, np.full(count, -math.log(count))


def average(values, log_weights):
    """The weighted mean over the first axis."""
    return ops.sum(_along_first(np.exp(log_weights), values) * values, axis=0)


def log_average(log_values, log_weights):
    """The logarithm of the weighted mean of what has these logarithms."""
    return log_sum_exp(_along_first(log_weights, log_values) + log_values, axis=0)


def _along_first(weights, values):
    weights = ops.convert_to_tensor(weights, values.dtype)
    return ops.reshape(weights, (-1, *[1] * (len(values.shape) - 1)))
