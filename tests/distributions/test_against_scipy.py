"""Densities, distribution functions and moments of every row, against SciPy."""

import numpy as np
import pytest

from bayesian_layers import distributions
from bayesian_layers.distributions import Distribution
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
    """The arguments that each method is compared at, for methods that there are."""
    # Between whole numbers, and outside of most supports, too.
    values = np.concatenate([row.values, row.values + 0.25, row.values - 20.0])
    inside = np.clip(row.values, *np.quantile(row.values, [0.1, 0.9]))
    uniform = np.random.default_rng(0).uniform(size=(4, *row.batch_shape))
    offered = {
        "log_prob": (row.values,),
        "cdf": (values,),
        "log_cdf": (inside,),
        "log_survival": (inside,),
        "quantile": (uniform.astype("float32").astype("float64"),),
        "mean": (),
        "variance": (),
        "entropy": (),
    }
    reference, family = row.oracle(), row.family
    # As functions of `cdf` they need no test.
    inherited = {
        method
        for method in ("log_cdf", "log_survival")
        if getattr(family, f"_{method}") is getattr(Distribution, f"_{method}")
    }
    return {
        method: arguments
        for method, arguments in offered.items()
        if hasattr(reference, method) and method not in row.missing | inherited
    }


@pytest.mark.parametrize("dtype", DTYPES)
@every_row
def test_methods_agree_with_scipy_and_densities_have_integral_one(name, dtype):
    row = ROWS[name]
    calls, everywhere = arguments(row), points(row)

    def evaluate(*parameters):
        distribution = row.make(**dict(zip(row.parameters, parameters, strict=True)))
        results = {m: getattr(distribution, m)(*a) for m, a in calls.items()}
        if "mode" not in row.missing:
            results["mode"] = mode = distribution.mode()
            results["log_prob of mode"] = distribution.log_prob(mode)
        return results, distribution.log_prob(everywhere)

    # In one call, because each takes JAX a compilation.
    parameters = [x.astype(dtype) for x in row.parameters.values()]
    results, log_prob_everywhere = run(evaluate, *parameters)
    assert_normalized(log_prob_everywhere, row)
    if "mode" not in row.missing:
        assert_mode(results.pop("mode"), results.pop("log_prob of mode"), row)
    for method, actual in results.items():
        expected = getattr(row.oracle(), method)(*calls[method])
        if method in ("mean", "variance"):
            expected = np.broadcast_to(expected, row.batch_shape + row.event_shape)
        assert actual.dtype == dtype, method
        assert actual.shape == np.shape(expected), method
        np.testing.assert_allclose(actual, expected, **TOLERANCE[dtype], err_msg=method)


def assert_mode(mode, log_prob, row):
    """Nothing is more probable; NaN where the density has no maximum."""
    assert mode.shape == row.batch_shape + row.event_shape
    event_axes = tuple(range(len(row.batch_shape), mode.ndim))
    exists = ~np.isnan(mode).any(axis=event_axes)
    assert exists.any()
    elsewhere = row.oracle().log_prob(row.values)
    assert np.all((elsewhere <= log_prob + 1e-5) | ~exists)


@every_row
def test_missing_methods_say_so(name):
    row = ROWS[name]
    distribution = row.distribution()
    arguments = {"cdf": (row.values,), "quantile": (0.5,)}
    for method in row.missing:
        # Named is the distribution itself, or that of its parts which lacks it.
        with pytest.raises(NotImplementedError, match=rf"^\w+ has no `{method}`"):
            getattr(distribution, method)(*arguments.get(method, ()))


def test_every_public_distribution_is_in_the_table():
    rows = {row.family for row in ROWS.values()}
    public = {getattr(distributions, name) for name in distributions.__all__}
    families = {cls for cls in public if isinstance(cls, type)}
    assert rows == families - {Distribution}
