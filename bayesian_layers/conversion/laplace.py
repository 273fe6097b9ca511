"""Laplace's method: posteriors from the curvature at trained weights."""

import math

import keras
import numpy as np

from bayesian_layers import keras_contact
from bayesian_layers.conversion.copying import array_of
from bayesian_layers.conversion.curvature import check_likelihood, curvature
from bayesian_layers.conversion.kronecker import Kronecker
from bayesian_layers.conversion.twin_layers import make_twin, set_scale
from bayesian_layers.initializers import (
    TrainableKroneckerNormal,
    TrainableMultivariateNormal,
    TrainableNormal,
)
from bayesian_layers.layers.weights.composite import Composite
from bayesian_layers.layers.weights.twins import random_argument
from bayesian_layers.regularizers import NormalKLDivergence

# Elements with a full covariance, which has as many squared.
LARGEST = 5000

POSTERIORS = {
    "full": TrainableMultivariateNormal,
    "kronecker": TrainableKroneckerNormal,
    "diagonal": TrainableNormal,
}


class Laplace:
    """Normal posteriors of kernels, N(trained weight, (H + precision * I)^-1).

    H is the generalised Gauss-Newton matrix of the log-likelihood (see `Curvature`):
    of the last layer all of it, of the others a Kronecker product (see `Kronecker`) or
    its diagonal. The precision of the prior is that with the largest marginal
    likelihood in Laplace's approximation, for each kernel on its own, and so is the
    noise of real numbers if it is not given.

    Args:
        model: The trained model.
        choice: The layers to convert.
        data: A tuple of inputs and targets.
        likelihood: As in `bl.to_bayesian`.
        prior: A `NormalKLDivergence` around zero, or `None`.
        structure: Of the layers that are not the last, `"kronecker"` or `"diagonal"`.
    """

    def __init__(self, model, choice, data, likelihood, prior, structure):
        likelihood, self.noise_stddev = check_likelihood(likelihood)
        if not (isinstance(data, (tuple, list)) and len(data) == 2):
            raise ValueError(
                "Laplace's method needs the training data, `data=(x, y)`. "
                f"Received: data of type {type(data).__name__}"
            )
        self._prefixes = {}  # The names of arguments, by variable.
        self._kernels = {
            id(layer): self._names(layer, choice.twin_of(layer))
            for layer in choice.layers
        }
        variables = [v for found in self._kernels.values() for v in found.values()]
        self._structures = {}  # By variable.
        for layer in choice.layers:
            is_last = layer is choice.layers[-1]
            of_layer = "full" if is_last else _structure(layer, structure)
            for variable in self._kernels[id(layer)].values():
                _check_size(layer, variable, of_layer)
                self._structures[id(variable)] = of_layer
        structures = [self._structures[id(v)] for v in variables]
        found = curvature(model, variables, structures, data, likelihood)
        weights = [array_of(v).astype("float64").reshape(-1) for v in variables]
        self._fit(found, weights, prior, likelihood)
        self._matrices = dict(zip(map(id, variables), found.matrices, strict=True))
        self._precisions = dict(
            zip(map(id, variables), self._precision_list, strict=True)
        )

    def _names(self, layer, twin):
        if issubclass(twin, Composite) or not layer.built:
            raise ValueError(
                "Laplace's method is there for layers with weights of their own, such "
                f"as Dense, Conv and Embedding. Received: {layer.name!r}, a "
                f"{type(layer).__name__}. `exclude` it."
            )
        prefixes = [
            name.removesuffix("_initializer")
            for name in layer.get_config()
            if random_argument(twin, name) == "initializer"
        ]
        # Names of weights are not always those of arguments: a trial tells.
        marks = {prefix: NormalKLDivergence() for prefix in prefixes}
        trial = make_twin(
            layer, twin, arguments={f"{p}_regularizer": m for p, m in marks.items()}
        )
        variables = {v.name: v for v in keras_contact.own_variables(layer)}
        for name, weight in trial.random_weights.items():
            (prefix,) = [p for p, mark in marks.items() if weight.regularizer is mark]
            self._prefixes[id(variables[name])] = prefix
        return {name: variables[name] for name in trial.random_weights}

    def _fit(self, found, weights, prior, likelihood):
        """Sets the precisions of the priors, and the noise, by marginal likelihood."""
        spectra = [_eigenvalues(m) for m in found.matrices]
        fixed = _given_precision(prior)
        precisions = [fixed or 1.0] * len(weights)
        noise = 1.0
        is_normal = likelihood == "normal"
        if is_normal:
            noise = self.noise_stddev or math.sqrt(found.squared_error / found.count)
            if not noise > 0.0:
                raise ValueError(
                    "The model fits its data without error: their noise cannot be "
                    "estimated. Give it: `likelihood=bl.distributions.Normal(0.0, s)`."
                )
        for _ in range(1000):
            before = [*precisions, noise]
            # How many elements the data determine, of each weight (MacKay, 1992).
            known = [
                np.sum(s / (s + noise**2 * precision))
                for s, precision in zip(spectra, precisions, strict=True)
            ]
            if fixed is None:
                precisions = [
                    k / max(np.sum(w**2), 1e-12)
                    for k, w in zip(known, weights, strict=True)
                ]
                precisions = [max(precision, 1e-8) for precision in precisions]
            if is_normal and self.noise_stddev is None:
                free = max(found.count - sum(known), 1.0)
                noise = math.sqrt(found.squared_error / free)
            if np.allclose([*precisions, noise], before, rtol=1e-8, atol=0.0):
                break
        if is_normal:
            self.noise_stddev = noise
            found.matrices[:] = [m / noise**2 for m in found.matrices]
        self._precision_list = precisions

    def arguments(self, layer):
        """Returns the arguments of a layer's twin that give its distributions."""
        arguments = {}
        for variable in self._kernels[id(layer)].values():
            prefix = self._prefixes[id(variable)]
            posterior = POSTERIORS[self._structures[id(variable)]]
            stddev = self._precisions[id(variable)] ** -0.5
            arguments[f"{prefix}_initializer"] = posterior()
            arguments[f"{prefix}_regularizer"] = NormalKLDivergence(
                stddev=float(stddev)
            )
        return arguments

    def set_posteriors(self, layer, twin):
        """Sets the covariances of the random weights of a twin."""
        for name, variable in self._kernels[id(layer)].items():
            weight = twin.random_weights[name]
            matrix = self._matrices[id(variable)]
            precision = self._precisions[id(variable)]
            structure = self._structures[id(variable)]
            if structure == "diagonal":
                scale = (matrix + precision) ** -0.5
                set_scale(weight, scale.reshape(variable.shape))
            elif structure == "kronecker":
                rows, columns = matrix.covariance_factors(precision)
                _set_factor(weight.variables["row_tril"], rows)
                _set_factor(weight.variables["column_tril"], columns)
            else:
                covariance = np.linalg.inv(matrix + precision * np.eye(len(matrix)))
                factor = np.linalg.cholesky(0.5 * (covariance + covariance.T))
                _set_factor(weight.variables["tril"], factor)


def _structure(layer, structure):
    """That of a layer that is not the last."""
    kinds = (
        keras.layers.Dense,
        keras.layers.Conv1D,
        keras.layers.Conv2D,
        keras.layers.Conv3D,
    )
    # In groups an output does not see all inputs.
    fits = isinstance(layer, kinds) and getattr(layer, "groups", 1) == 1
    return structure if fits else "diagonal"


def _check_size(layer, variable, structure):
    shape = tuple(variable.shape)
    sizes = {
        "full": (math.prod(shape), "Put a smaller layer last."),
        "kronecker": (
            max(math.prod(shape[:-1]), shape[-1]),
            'Give `structure="diagonal"`, or `exclude` the layer.',
        ),
        "diagonal": (0, ""),
    }
    size, advice = sizes[structure]
    if size > LARGEST:
        raise ValueError(
            f"A covariance of {size} elements of {layer.name!r}'s {variable.name!r}, "
            f"of shape {shape}, would have {size**2:,} numbers; at most {LARGEST} "
            f"elements have a full one. {advice}"
        )


def _eigenvalues(matrix):
    if isinstance(matrix, Kronecker):
        return matrix.eigenvalues()
    return np.maximum(np.linalg.eigvalsh(matrix) if matrix.ndim == 2 else matrix, 0.0)


def _set_factor(variable, factor):
    """Sets a lower triangular factor, whose diagonal is read through softplus."""
    diagonal = np.diag(factor)
    factor = np.tril(factor, -1) + np.diag(diagonal + np.log(-np.expm1(-diagonal)))
    variable.assign(factor)


def _given_precision(prior):
    if prior is None:
        return None
    if isinstance(prior, NormalKLDivergence) and prior.mean == 0.0:
        return float(prior.stddev) ** -2
    raise ValueError(
        "The prior of Laplace's method is normal, around zero: "
        "`bl.regularizers.NormalKLDivergence(stddev=s)`, or `None`: the best one by "
        f"marginal likelihood. Received: prior={prior!r}"
    )
