"""What a row of the table of distributions is, and where its numbers come from."""

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np

from tests.distributions.references_of_vectors import exact_simplex


@dataclasses.dataclass(frozen=True)
class Row:
    """A distribution with parameters whose shapes broadcast, and its reference."""

    name: str
    make: Callable  # from parameters by name to the distribution
    reference: Callable  # from parameters by name to the reference
    parameters: dict  # float64 arrays of float32 numbers
    missing: frozenset  # the methods that raise NotImplementedError
    continuous: bool
    reparameterized: bool
    values: np.ndarray  # of shape [4, *batch, *event], from the reference

    def distribution(self, dtype="float32"):
        return self.make(**{n: v.astype(dtype) for n, v in self.parameters.items()})

    @property
    def family(self):
        """The class of the distribution."""
        return type(self.distribution())

    def oracle(self):
        return self.reference(**self.parameters)

    @property
    def differentiable(self):
        """The names of the parameters that are not whole numbers."""
        return [n for n, v in self.parameters.items() if np.any(v != np.round(v))]

    @property
    def batch_shape(self):
        return np.shape(self.oracle().log_prob(self.values))[1:]

    @property
    def event_shape(self):
        return self.values.shape[1 + len(self.batch_shape) :]


ROWS = {}


def row(
    name,
    make,
    reference,
    *,
    missing="",
    continuous=True,
    reparameterized=None,
    **parameters,
):
    """Adds a row; parameters are functions from a generator to an array."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    parameters = {n: _rounded(draw(rng)) for n, draw in parameters.items()}
    ROWS[name] = Row(
        name=name,
        make=make,
        reference=reference,
        parameters=parameters,
        missing=frozenset(missing.split()),
        continuous=continuous,
        reparameterized=continuous if reparameterized is None else reparameterized,
        values=_rounded(reference(**parameters).draw(rng, 4)),
    )


def _rounded(x):
    """Numbers that are the same in float32: a difference is then one of functions."""
    return np.asarray(x).astype("float32").astype("float64")


def real(*shape):
    return lambda rng: rng.normal(size=shape)


def positive(*shape, low=0.3, high=5.0):
    return lambda rng: np.exp(rng.uniform(np.log(low), np.log(high), size=shape))


def probability(*shape):
    return lambda rng: rng.uniform(0.05, 0.95, size=shape)


def simplex(*shape):
    return lambda rng: exact_simplex(
        rng.dirichlet(np.full(shape[-1], 2.0), size=shape[:-1])
    )


def counts(*shape):
    return lambda rng: rng.integers(1, 12, size=shape)


def lower_triangular(*shape):
    def draw(rng):
        diagonal = np.exp(rng.normal(size=shape[:-1]))[..., None] * np.eye(shape[-1])
        return np.tril(rng.normal(size=shape), -1) + diagonal

    return draw


def covariance(*shape):
    def draw(rng):
        factor = rng.normal(size=shape)
        square = factor @ np.swapaxes(factor, -1, -2)
        return (square + np.eye(shape[-1])).astype("float32")

    return draw


LOCATION_SCALE = {"loc": real(2, 1), "scale": positive(3)}
