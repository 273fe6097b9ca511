"""The curvature of the log-likelihood at trained weights."""

import dataclasses

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.conversion.copying import array_of
from bayesian_layers.conversion.curvature_sums import SUMS
from bayesian_layers.distributions import Normal
from bayesian_layers.random_variable import RandomVariable

BATCH_SIZE = 32
LIKELIHOODS = ("bernoulli", "categorical", "normal")


@dataclasses.dataclass
class Curvature:
    """The generalised Gauss-Newton matrix of a data set, in parts.

    H = sum over examples of J^T A J, with J the derivatives of the outputs f (of
    classes the logits) by a weight, and A minus the second derivative of log p(y | f)
    by f, for a noise of standard deviation 1. With A = R R^T it is the sum of
    vec(V) vec(V)^T over the derivatives V of each entry of R^T f by the weight.

    Attributes:
        matrices: By weight, H in the structure that was asked for: `"full"` a matrix
            over all elements, `"diagonal"` a vector, `"kronecker"` a `Kronecker`.
        count: The number of outputs, that of examples times those of each.
        squared_error: The sum of (y - f)**2, of real numbers.
    """

    matrices: list
    count: int
    squared_error: float


def curvature(model, variables, structures, data, likelihood):
    """Returns the curvature at the weights of a model.

    Args:
        model: A model, with one output, `[batch, k]`.
        variables: The weights.
        structures: For each `"full"`, `"diagonal"` or `"kronecker"`.
        data: A tuple of inputs and targets.
        likelihood: One of `LIKELIHOODS`.
    """
    x, y = data
    size = len(y)
    link = _link(model, likelihood)
    others = [v for v in model.variables if not any(v is w for w in variables)]

    def outputs(parameters, batch):
        mapping = [*zip(variables, parameters, strict=True)]
        # What is not differentiated is read as it is, also under transformations.
        mapping += [(v, ops.convert_to_tensor(v)) for v in others]
        with keras.StatelessScope(state_mapping=mapping):
            return link(model(batch, training=False))

    jacobians = backend.example_jacobians(outputs)
    values = [ops.convert_to_tensor(v) for v in variables]
    sums = [SUMS[structure]() for structure in structures]
    squared_error = 0.0
    for start in range(0, size, BATCH_SIZE):
        batch = keras.tree.map_structure(
            lambda column, at=start: ops.convert_to_tensor(
                column[at : at + BATCH_SIZE]
            ),
            x,
        )
        f = array_of(ops.stop_gradient(outputs(values, batch))).astype("float64")
        target = np.asarray(y[start : start + BATCH_SIZE])
        roots = _roots(f, likelihood)
        if likelihood == "normal":
            squared_error += np.sum((target.reshape(f.shape) - f) ** 2)
        for found, jacobian in zip(sums, jacobians(values, batch), strict=True):
            jacobian = array_of(ops.stop_gradient(jacobian)).astype("float64")
            found.add(jacobian, roots)
    totals = [found.total() for found in sums]
    return Curvature(totals, size * f.shape[1], squared_error)


def _roots(f, likelihood):
    """R with R R^T minus the second derivative of log p(y | f), for each example."""
    if likelihood == "normal":
        return np.broadcast_to(np.eye(f.shape[1]), (*f.shape, f.shape[1]))
    if likelihood == "bernoulli":
        p = 1.0 / (1.0 + np.exp(-f))
        return np.sqrt(p * (1.0 - p))[:, :, None] * np.eye(f.shape[1])
    p = np.exp(f - f.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    # diag(p) - p p^T, as p sums to one.
    return np.sqrt(p)[:, None, :] * (np.eye(f.shape[1]) - p[:, :, None])


def _link(model, likelihood):
    """From the outputs of a model to what the likelihood is a function of."""
    activation = _last_activation(model)
    tiny = 1e-30

    def link(outputs):
        if isinstance(outputs, RandomVariable):
            raise ValueError(
                "Laplace's method needs a model whose outputs are numbers. Received: "
                f"{model.name!r}, which returns a random variable. Convert the model "
                "before its head, and put the head behind it."
            )
        if len(outputs.shape) == 1:
            outputs = outputs[:, None]
        if len(outputs.shape) != 2:
            raise ValueError(
                "Laplace's method needs outputs of shape [batch, k]. Received: "
                f"{tuple(outputs.shape)} of {model.name!r}"
            )
        if activation is keras.activations.softmax:
            # Logits up to a constant, which the likelihood does not see.
            return ops.log(ops.maximum(outputs, tiny))
        if activation is keras.activations.sigmoid:
            outputs = ops.clip(outputs, 1e-7, 1.0 - 1e-7)
            return ops.log(outputs) - ops.log1p(-outputs)
        return outputs

    allowed = {
        "categorical": (keras.activations.softmax, keras.activations.linear),
        "bernoulli": (keras.activations.sigmoid, keras.activations.linear),
        "normal": (keras.activations.linear,),
    }[likelihood]
    if activation not in allowed:
        names = [function.__name__ for function in allowed]
        raise ValueError(
            f"With likelihood={likelihood!r} the last layer should have one of the "
            f"activations {names}. Received: {activation.__name__}"
        )
    return link


def _last_activation(model):
    """The activation of the last layer; of a layer without one the identity."""
    while isinstance(model, keras.Model) and model.layers:
        model = model.layers[-1]
    if isinstance(model, keras.layers.Softmax):
        return keras.activations.softmax
    return getattr(model, "activation", None) or keras.activations.linear


def check_likelihood(likelihood):
    """Returns the name of a likelihood, and its standard deviation if it is given."""
    if isinstance(likelihood, Normal):
        return "normal", float(np.asarray(array_of(likelihood.scale)).reshape(()))
    if likelihood in LIKELIHOODS:
        return likelihood, None
    raise ValueError(
        f"`likelihood` should be one of {LIKELIHOODS}, or the noise of real numbers, "
        f"`bl.distributions.Normal(0.0, stddev)`. Received: likelihood={likelihood!r}"
    )
