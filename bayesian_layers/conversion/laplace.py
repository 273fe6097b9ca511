"""Laplace's method: posteriors from the curvature at trained weights."""

import math

import numpy as np

from bayesian_layers import keras_contact
from bayesian_layers.conversion.copying import array_of
from bayesian_layers.conversion.curvature import check_likelihood, curvature
from bayesian_layers.conversion.twin_layers import make_twin, set_scale
from bayesian_layers.initializers import TrainableMultivariateNormal, TrainableNormal
from bayesian_layers.layers.weights.composite import Composite
from bayesian_layers.layers.weights.twins import random_argument
from bayesian_layers.regularizers import NormalKLDivergence

# Elements of a kernel with a full covariance, which has as many squared.
LARGEST = 5000


class Laplace:
    """Normal posteriors of kernels, N(trained weight, (H + precision * I)^-1).

    H is the generalised Gauss-Newton matrix of the log-likelihood (see `Curvature`):
    of the last layer all of it, of the others its diagonal. The precision of the prior
    is that with the largest marginal likelihood in Laplace's approximation, for each
    kernel on its own, and so is the noise of real numbers if it is not given.

    Args:
        model: The trained model.
        choice: The layers to convert.
        data: A tuple of inputs and targets.
        likelihood: As in `bl.to_bayesian`.
        prior: A `NormalKLDivergence` around zero, or `None`.
    """

    def __init__(self, model, choice, data, likelihood, prior):
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
        last = choice.layers[-1]
        self._full = {id(v) for v in self._kernels[id(last)].values()}
        self._check_size(last)
        are_full = [id(v) in self._full for v in variables]
        found = curvature(model, variables, are_full, data, likelihood)
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

    def _check_size(self, layer):
        for variable in self._kernels[id(layer)].values():
            size = math.prod(variable.shape)
            if size > LARGEST:
                raise ValueError(
                    f"The covariance of the {size} elements of {layer.name!r}'s "
                    f"{variable.name!r} would have {size**2:,} numbers; at most "
                    f"{LARGEST} elements have a full one. Put a smaller layer last."
                )

    def _fit(self, found, weights, prior, likelihood):
        """Sets the precisions of the priors, and the noise, by marginal likelihood."""
        spectra = [np.linalg.eigvalsh(m) if m.ndim == 2 else m for m in found.matrices]
        spectra = [np.maximum(s, 0.0) for s in spectra]
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
            full = id(variable) in self._full
            posterior = TrainableMultivariateNormal if full else TrainableNormal
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
            if id(variable) not in self._full:
                scale = (matrix + precision) ** -0.5
                set_scale(weight, scale.reshape(variable.shape))
                continue
            covariance = np.linalg.inv(matrix + precision * np.eye(len(matrix)))
            factor = np.linalg.cholesky(0.5 * (covariance + covariance.T))
            diagonal = np.diag(factor)
            # The diagonal is read through softplus.
            untransformed = diagonal + np.log(-np.expm1(-diagonal))
            np.fill_diagonal(factor, untransformed)
            weight.variables["tril"].assign(factor)


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
