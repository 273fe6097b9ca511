"""Points at which a density, or probabilities, must add up to one."""

import itertools

import numpy as np
from scipy import special

from tests.statistics import assert_mean

COUNT = 4_000


def points(row):
    """Values all over the support, of shape `[n, *batch, *event]`, in float32."""
    if row.name == "Deterministic":
        values = row.oracle().loc[None]
    elif row.event_shape:
        values = _draws(row) if row.continuous else _vectors(row)
    else:
        values = _grid(row) if row.continuous else np.arange(-10.0, 150.0)
    shape = (*row.batch_shape, *row.event_shape)
    missing = len(shape) + 1 - np.ndim(values)
    values = np.reshape(values, (len(values), *[1] * missing, *np.shape(values)[1:]))
    return np.broadcast_to(values, (len(values), *shape)).astype("float32")


def assert_normalized(log_prob, row):
    """The log-densities at `points(row)` are those of a probability measure."""
    x, prob = points(row).astype("float64"), np.exp(log_prob.astype("float64"))
    if not row.continuous:
        np.testing.assert_allclose(prob.sum(axis=0), 1.0, atol=1e-4)
    elif row.event_shape:
        proposal = np.exp(_wider(row).log_prob(x))
        assert_mean(prob / proposal, 1.0, detect=0.5)
    else:
        np.testing.assert_allclose(np.trapezoid(prob, x, axis=0), 1.0, atol=3e-3)


def _grid(row):
    """Dense where the distribution is, and as far as it reaches."""
    logits = np.linspace(-14.0, 14.0, 2001).reshape(-1, *[1] * len(row.batch_shape))
    reference = row.oracle()
    if hasattr(reference, "quantile"):
        return reference.quantile(special.expit(logits))
    return reference.mean() + logits * np.sqrt(reference.variance())


def _vectors(row):
    """All vectors of small whole numbers."""
    values = itertools.product(range(12), repeat=row.event_shape[0])
    return np.array([value for value in values if sum(value) < 12], "float64")


def _wider(row):
    """The reference at parameters with which it covers more."""
    factors = {"loc": 1.0, "logits": 1.0, "concentration": 0.7, "column_tril": 1.0}
    return row.reference(
        **{name: factors.get(name, 1.5) * x for name, x in row.parameters.items()}
    )


def _draws(row):
    return _wider(row).draw(np.random.default_rng(0), COUNT)
