"""Covariances made of covariances."""

import numbers

import keras
import numpy as np
from keras import ops

from bayesian_layers import seeds
from bayesian_layers.covariances.covariance import Covariance, register
from bayesian_layers.covariances.features import random_signs
from bayesian_layers.covariances.identifiers import get
from bayesian_layers.covariances.simple import Constant
from bayesian_layers.distributions import shapes


class Composition(Covariance):
    """Base of covariances made of others, its parts.

    Args:
        covariances: The parts, each as `bl.covariances.get` takes it.
        **kwargs: As in `bl.covariances.Covariance`.
    """

    def __init__(self, covariances, **kwargs):
        parts = [get(covariance) for covariance in covariances]
        if not parts:
            raise ValueError(
                f"{type(self).__name__} expects at least one covariance. Received: []"
            )
        super().__init__(batch_shape=self._batch_shape_of(parts), fixed=(), **kwargs)
        self.covariances = parts

    @staticmethod
    def _batch_shape_of(parts):
        return shapes.broadcast(*(part.batch_shape for part in parts))

    def build(self, input_shape):
        """Builds the parts."""
        super().build(input_shape)
        for part in self.covariances:
            if not part.built:
                part.build((*input_shape[:-1], self.num_dims))

    def hyperparameters(self):
        """Returns those of the parts, by `"<index of the part>/<name>"`."""
        with self._scope():
            return {
                f"{index}/{name}": value
                for index, part in enumerate(self.covariances)
                for name, value in part.hyperparameters().items()
            }

    @property
    def has_random_features(self):
        """Whether all parts have them."""
        return all(part.has_random_features for part in self.covariances)

    def _features_of_parts(self, num_features, seed):
        seeds_of_parts = seeds.split(seed, len(self.covariances))
        return [
            part.random_features(num_features, seed)
            for part, seed in zip(self.covariances, seeds_of_parts, strict=True)
        ]

    def get_config(self):
        """Returns the constructor's arguments."""
        config = super().get_config()
        del config["batch_shape"], config["fixed"]
        parts = [keras.saving.serialize_keras_object(c) for c in self.covariances]
        return {**config, "covariances": parts}

    def __repr__(self):
        return f"{type(self).__name__}({list(self.covariances)!r})"


@register
class Sum(Composition):
    """A sum of independent functions: the covariances of its parts, added.

    `a + b` makes one.

    Args:
        covariances: The parts, each as `bl.covariances.get` takes it.
        **kwargs: `active_dims`, and all else of `bl.covariances.Covariance` but
            `batch_shape` and `fixed`, which belong to the parts.

    Example:
    >>> smooth = bl.covariances.ExponentiatedQuadratic()
    >>> cov = smooth + bl.covariances.Constant(2.0)
    >>> ops.convert_to_numpy(cov(np.array([[0.0]]))).tolist()
    [[5.0]]
    >>> cov
    Sum([ExponentiatedQuadratic(amplitude=1., lengthscale=1.), Constant(amplitude=2.)])
    """

    def matrix(self, x, z):
        """Returns the sum of the matrices of the parts."""
        return sum(part(x, z) for part in self.covariances)

    def variances(self, x):
        """Returns the sum of the diagonals of the parts."""
        return sum(part.diagonal(x) for part in self.covariances)

    def features(self, num_features, seed):
        """Returns the sum of the features of the parts, with random signs."""
        seed, sign_seed = seeds.split(seed, 2)
        parts = self._features_of_parts(num_features, seed)
        # Signs make the expectation of products between different parts zero.
        signs = random_signs((len(parts), num_features), self.precision, sign_seed)

        def phi(x):
            return sum(signs[i] * part(x) for i, part in enumerate(parts))

        return phi


@register
class Product(Composition):
    """A product of covariances.

    `a * b` makes one, and so does `2.0 * a`, with a `Constant` that does not train.

    Args:
        covariances: The parts, each as `bl.covariances.get` takes it.
        **kwargs: `active_dims`, and all else of `bl.covariances.Covariance` but
            `batch_shape` and `fixed`, which belong to the parts.

    Example:
    >>> cov = 3.0 * bl.covariances.ExponentiatedQuadratic()
    >>> ops.convert_to_numpy(cov(np.array([[0.0]]))).round(4).tolist()
    [[3.0]]
    """

    def matrix(self, x, z):
        """Returns the product of the matrices of the parts, elementwise."""
        return _product(part(x, z) for part in self.covariances)

    def variances(self, x):
        """Returns the product of the diagonals of the parts."""
        return _product(part.diagonal(x) for part in self.covariances)

    def features(self, num_features, seed):
        """Returns the product of independent features of the parts."""
        parts = self._features_of_parts(num_features, seed)
        return lambda x: _product(part(x) for part in parts)


@register
class Stacked(Composition):
    """One covariance for each of several functions, along a first axis of results.

    `[..., units, n, m]`, where the i-th matrix is that of the i-th part. Inputs are
    shared, `[n, D]`, or one for each part, `[..., units, n, D]`. By
    `bl.covariances.get`: a list.

    Args:
        covariances: The parts, each as `bl.covariances.get` takes it, without batch
            shapes of their own.
        **kwargs: `active_dims`, and all else of `bl.covariances.Covariance` but
            `batch_shape` and `fixed`, which belong to the parts.

    Example:
    >>> cov = bl.covariances.Stacked(["matern12", "matern52", "constant"])
    >>> ops.shape(cov(np.ones((4, 2)), np.ones((5, 2))))
    (3, 4, 5)
    """

    @staticmethod
    def _batch_shape_of(parts):
        if any(part.batch_shape for part in parts):
            raise ValueError(
                "Stacked expects covariances without batch shapes: it makes one of "
                "them. Received: covariances with batch shapes "
                f"{[part.batch_shape for part in parts]}"
            )
        return (len(parts),)

    def _inputs_of(self, x, index):
        """The inputs of one part."""
        if x is None or len(x.shape) == 2:
            return x
        if x.shape[-3] not in (1, len(self.covariances)):
            raise ValueError(
                f"Stacked expects inputs of shape [n, D] or [..., units, n, D], with "
                f"{len(self.covariances)} units. Received: shape {shapes.static(x)}"
            )
        return x[..., index if x.shape[-3] > 1 else 0, :, :]

    def matrix(self, x, z):
        """Returns the matrices of the parts, stacked."""
        matrices = [
            part(self._inputs_of(x, index), self._inputs_of(z, index))
            for index, part in enumerate(self.covariances)
        ]
        return _stacked(matrices, 2)

    def variances(self, x):
        """Returns the diagonals of the parts, stacked."""
        diagonals = [
            part.diagonal(self._inputs_of(x, index))
            for index, part in enumerate(self.covariances)
        ]
        return _stacked(diagonals, 1)

    def features(self, num_features, seed):
        """Returns the features of the parts, stacked."""
        parts = self._features_of_parts(num_features, seed)

        def phi(x):
            features = [
                part(self._inputs_of(x, index)) for index, part in enumerate(parts)
            ]
            return _stacked(features, 2)

        return phi


def _stacked(values, rank):
    """The values along an axis before the last `rank`."""
    batch = shapes.broadcast(*(ops.shape(value)[:-rank] for value in values))
    full = [ops.broadcast_to(v, (*batch, *ops.shape(v)[-rank:])) for v in values]
    return ops.stack(full, axis=-rank - 1)


def _product(values):
    first, *others = values
    for value in others:
        first = first * value
    return first


_KINDS = {"Sum": Sum, "Product": Product}


def compose(kind, operands):
    """Returns the sum or product of two operands of Python's `+` or `*`."""
    kind, parts = _KINDS[kind], []
    for operand in operands:
        if _is_number(operand):
            if kind is not Product or not float(operand) > 0.0:
                return NotImplemented
            operand = Constant(float(operand) ** 0.5, fixed=("amplitude",))
        elif not callable(operand):
            return NotImplemented
        operand = get(operand)
        # Longer sums and products are one, unless they were given settings.
        plain = type(operand) is kind and operand.active_dims.given is None
        parts.extend(operand.covariances if plain else [operand])
    return kind(parts)


def _is_number(value):
    return isinstance(value, (numbers.Real, np.number)) and not isinstance(value, bool)
