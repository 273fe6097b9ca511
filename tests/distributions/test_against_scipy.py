"""Densities, distribution functions and moments of every row, against SciPy."""

import numpy as np
import pytest

from bayesian_layers import distributions
from tests.differentiation import has_float64, run
from tests.distributions.normalization import assert_normalized, points
from tests.distributions.table import ROWS

DTYPES = ["float32", *(["float64"] if has_float64() else [])]
TOLERANCE = {
    "float32": {"rtol": 1e-5, "atol": 1e-5},
    "float64": {"rtol": 1e-10, "atol": 1e-10},
}

every_row = pytest.mark.parametrize("name", ROWS)


def arguments(row):
    """The arguments that each method is compared at."""
    # Between whole numbers, and outside of most supports, too.
    values = np.concatenate([row.values, row.values + 0.25, row.values - 20.0])
    uniform = np.random.default_rng(0).uniform(size=(4, *row.batch_shape))
    probabilities = uniform.astype("float32").astype("float64")
    inside = np.clip(row.values, *np.quantile(row.values, [0.1, 0.9]))
    offered = {
        "log_prob": (row.values,),
        "cdf": (values,),
        "log_cdf": (inside,),
        "log_survival": (inside,),
        "quantile": (probabilities,),
        "mean": (),
        "variance": (),
        "entropy": (),
    }
    reference = row.oracle()
    return {
        method: arguments
        for method, arguments in offered.items()
        if hasattr(reference, method) and method not in row.missing
    }


@pytest.mark.parametrize("dtype", DTYPES)
@every_row
def test_all_methods_agree_with_scipy_and_densities_have_integral_one(name, dtype):
    row = ROWS[name]
    calls = arguments(row)

    everywhere = points(row)

    def evaluate():
        distribution = row.distribution(dtype)
        results = {m: getattr(distribution, m)(*a) for m, a in calls.items()}
        return results, distribution.log_prob(everywhere)

    results, log_prob = run(evaluate)
    assert_normalized(log_prob, row)
    for method, call in calls.items():
        expected = getattr(row.oracle(), method)(*call)
        if method in ("mean", "variance"):
            expected = np.broadcast_to(expected, row.batch_shape + row.event_shape)
        assert results[method].dtype == dtype, method
        assert results[method].shape == np.shape(expected), method
        np.testing.assert_allclose(
            results[method], expected, **TOLERANCE[dtype], err_msg=method
        )


@every_row
def test_shapes(name):
    row = ROWS[name]
    distribution = row.distribution()
    assert distribution.batch_shape == row.batch_shape
    assert distribution.event_shape == row.event_shape
    assert distribution.shape((5, 6)) == (5, 6, *row.batch_shape, *row.event_shape)


@every_row
def test_missing_methods_say_so(name):
    row = ROWS[name]
    distribution = row.distribution()
    arguments = {"cdf": (row.values,), "quantile": (0.5,)}
    for method in row.missing:
        # Named is the distribution itself, or that of its parts which lacks it.
        with pytest.raises(NotImplementedError, match=rf"^\w+ has no `{method}`"):
            getattr(distribution, method)(*arguments.get(method, ()))


@pytest.mark.parametrize(
    "name", [n for n, r in ROWS.items() if "mode" not in r.missing]
)
def test_nothing_is_more_probable_than_the_mode(name):
    row = ROWS[name]

    def evaluate():
        distribution = row.distribution()
        mode = distribution.mode()
        return mode, distribution.log_prob(mode), distribution.log_prob(row.values)

    mode, at_mode, elsewhere = run(evaluate)
    assert mode.shape == row.batch_shape + row.event_shape
    # NaN where the density has no maximum.
    event_axes = tuple(range(len(row.batch_shape), mode.ndim))
    exists = ~np.isnan(mode).any(axis=event_axes)
    assert exists.any()
    assert np.all((elsewhere <= at_mode + 1e-5) | ~exists)


def test_every_public_distribution_is_in_the_table():
    rows = {type(row.distribution()) for row in ROWS.values()}
    public = {getattr(distributions, name) for name in distributions.__all__}
    families = {cls for cls in public if isinstance(cls, type)}
    assert rows == families - {distributions.Distribution}
