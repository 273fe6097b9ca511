"""Moments of activations: what passes between the layers of moment propagation."""

import math

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import (
    MultivariateNormalFullCovariance,
    Normal,
)
from bayesian_layers.distributions.expectation import gauss_hermite
from bayesian_layers.random_variable import RandomVariable

# Of the series of a covariance through an activation.
NUM_TERMS = 8
NUM_NODES = 32


class MomentVariable(RandomVariable):
    """A random variable of which only mean and covariance are meant.

    It has no value: a layer that does not know of moments would otherwise go on with a
    draw, or with the mean, and nothing would show it. Its distribution is the normal
    one with these moments.

    Args:
        distribution: A `Normal` or a `MultivariateNormalFullCovariance`.
        name: A name for messages.
    """

    def __init__(self, distribution, name=None):
        self._set(distribution, (), name, None)

    @property
    def value(self):
        """Not there."""
        raise ValueError(
            f"{self._name or 'This random variable'} is known by its moments, and has "
            "no value: a layer, operation or loss that needs one cannot follow a layer "
            "of moment propagation. Use `DenseMomentPropagation`, "
            "`Conv2DMomentPropagation` with `activation=...`, "
            "`FlattenMomentPropagation`, `AveragePooling2DMomentPropagation`, "
            "`GlobalAveragePooling2DMomentPropagation` or `DropoutMomentPropagation` "
            "in between, and end the model with a likelihood such as "
            "`bl.layers.GaussianLikelihood`. Within `bl.weights(model, seed=...)` the "
            "network is one function of tensors."
        )

    @property
    def is_drawn(self):
        """Never."""
        return False


backend.register_pytree(
    MomentVariable,
    lambda variable: ((variable.distribution,), variable._name),
    lambda name, leaves: MomentVariable(leaves[0], name),
)


def keras_spec(layer, inputs):
    """The symbolic output of a layer that returns a random variable, as Keras' own."""
    shape = layer.compute_output_shape(tuple(inputs.shape))
    return keras.KerasTensor(shape, dtype=layer.compute_dtype)


def moments_of(inputs, layer):
    """Returns mean and (co)variance: `None`, a variance, or matrices `[n, k, k]`.

    Args:
        inputs: A tensor, which is known, or a random variable with a normal
            distribution.
        layer: Who asks, for the message.
    """
    if not isinstance(inputs, RandomVariable):
        return ops.cast(inputs, "float32"), None
    distribution = inputs.distribution
    if isinstance(distribution, MultivariateNormalFullCovariance):
        return distribution.loc, distribution.covariance_matrix
    if isinstance(distribution, Normal):
        return distribution.mean(), distribution.variance()
    raise ValueError(
        f"Layer {layer.name!r} expects a tensor, or a random variable with a `Normal` "
        "or `MultivariateNormalFullCovariance` distribution. Received: "
        f"{type(distribution).__name__}"
    )


def is_full(mean, covariance):
    """Whether it is a matrix for each example, not a variance for each element."""
    return covariance is not None and len(covariance.shape) > len(mean.shape)


def variance_of(mean, covariance):
    """The variances of each element."""
    if not is_full(mean, covariance):
        return covariance
    return ops.diagonal(covariance, axis1=-2, axis2=-1)


def with_variance(covariance, variance):
    """A covariance with another diagonal."""
    if not is_full(variance, covariance):
        return variance
    identity = ops.eye(ops.shape(covariance)[-1], dtype=covariance.dtype)
    return covariance * (1.0 - identity) + variance[..., None] * identity


def variable(mean, covariance, name):
    """The random variable with these moments."""
    if is_full(mean, covariance):
        arguments = {"loc": mean, "covariance_matrix": covariance}
        return MomentVariable(MultivariateNormalFullCovariance.rebuild(arguments), name)
    # Where nothing is uncertain a square root would have no derivative.
    scale = ops.sqrt(ops.maximum(covariance, 1e-30))
    return MomentVariable(Normal.rebuild({"loc": mean, "scale": scale}), name)


# Through an activation.


def activated(activation, mean, covariance):
    """The moments of an elementwise function of normal variables.

    With x = mean + s z and the numbers c_n = E f(x) He_n(z), where He_n are the
    polynomials of Hermite, the covariance of f(x_i) and f(x_j) at a correlation r is
    the sum over n from 1 of r^n c_n(i) c_n(j) / n! (Mehler). `NUM_TERMS` of them are
    taken; variances are not by the series. Each term is a positive semidefinite matrix,
    and what the series leaves out of the diagonal is positive: so the result is one.

    Args:
        activation: A function of Keras, one of `supported()`.
        mean: `[..., k]`.
        covariance: Variances of that shape, or matrices `[n, k, k]`.
    """
    if activation is keras.activations.linear:
        return mean, covariance
    scale = ops.sqrt(ops.maximum(variance_of(mean, covariance), 1e-30))
    terms = NUM_TERMS if is_full(mean, covariance) else 0
    rule = _RULES[activation]
    new_mean, new_variance, coefficients = rule(mean, scale, terms)
    new_variance = ops.maximum(new_variance, 1e-30)
    if not terms:
        return new_mean, new_variance
    inverse = 1.0 / scale
    correlation = covariance * inverse[..., :, None] * inverse[..., None, :]
    correlation = ops.clip(correlation, -1.0, 1.0)
    total, power = 0.0, 1.0
    for n, coefficient in enumerate(coefficients, start=1):
        power = power * correlation
        outer = coefficient[..., :, None] * coefficient[..., None, :]
        total = total + power * outer / math.factorial(n)
    return new_mean, with_variance(total, new_variance)


def _hermite(x, count):
    """The polynomials He_0, ..., He_(count - 1) of Hermite."""
    values = [ops.ones_like(x), x]
    for n in range(1, count - 1):
        values.append(x * values[-1] - n * values[-2])
    return values[:count]


def _piecewise_linear(slope):
    """The rule of max(x, slope x), which is exact."""

    def rule(mean, scale, terms):
        a = mean / scale
        above = 0.5 * ops.erfc(-a / math.sqrt(2.0))
        density = ops.exp(-0.5 * ops.square(a)) / math.sqrt(2.0 * math.pi)
        # Of the part above zero: its mean, and its second moment.
        part = scale * (a * above + density)
        second = ops.square(scale) * ((1.0 + ops.square(a)) * above + a * density)
        whole = ops.square(mean) + ops.square(scale)
        new_mean = slope * mean + (1.0 - slope) * part
        new_second = slope**2 * whole + (1.0 - slope**2) * second
        coefficients = []
        if terms:
            # E f' and E f'', ... by Stein's lemma; f'' is a point mass at zero.
            coefficients.append(scale * (slope + (1.0 - slope) * above))
            bend = (1.0 - slope) * scale * density
            coefficients += [bend * he for he in _hermite(-a, terms - 1)]
        return new_mean, new_second - ops.square(new_mean), coefficients

    return rule


def _by_nodes(function):
    """The rule of a smooth function: sums over Gauss-Hermite nodes."""

    def rule(mean, scale, terms):
        nodes, log_weights = gauss_hermite(NUM_NODES)
        weights = np.exp(log_weights)
        # On a new last axis.
        z = ops.convert_to_tensor(nodes, mean.dtype)
        values = function(mean[..., None] + scale[..., None] * z)

        def average(factors):
            factors = ops.convert_to_tensor(weights * factors, mean.dtype)
            return ops.sum(values * factors, axis=-1)

        new_mean = average(np.ones_like(nodes))
        deviation = ops.square(values - new_mean[..., None])
        new_variance = ops.sum(
            deviation * ops.convert_to_tensor(weights, mean.dtype), axis=-1
        )
        polynomials = np.polynomial.hermite_e.hermevander(nodes, max(terms, 1))
        coefficients = [average(polynomials[:, n]) for n in range(1, terms + 1)]
        return new_mean, new_variance, coefficients

    return rule


_SMOOTH = ("tanh", "sigmoid", "softplus", "gelu", "silu")
_RULES = {
    keras.activations.linear: None,
    keras.activations.relu: _piecewise_linear(0.0),
    # Keras' default slope.
    keras.activations.leaky_relu: _piecewise_linear(0.2),
    **{
        getattr(keras.activations, name): _by_nodes(getattr(keras.activations, name))
        for name in _SMOOTH
    },
}


def check_posterior(layer, weight):
    """Raises `ValueError` unless the elements of a weight are normal, independent."""
    if not isinstance(weight.posterior, Normal):
        raise ValueError(
            f"{type(layer).__name__} needs weights with independent normal elements."
            f" Received: a posterior of {type(weight.posterior).__name__} for "
            f"{weight.name!r}."
        )


def check_activation(activation, layer_name):
    """Raises `ValueError` for an activation whose moments are not known."""
    if activation not in _RULES:
        known = ["linear", "relu", "leaky_relu", *_SMOOTH]
        raise ValueError(
            f"{layer_name} knows the moments of the activations {known}. "
            f"Received: activation={activation}"
        )
