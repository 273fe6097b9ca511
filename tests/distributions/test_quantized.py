"""Moments of quantized distributions, which are sums over many values."""

import numpy as np
import pytest
from keras import ops
from scipy import stats

from bayesian_layers import distributions
from tests.differentiation import run, values_and_grad

VALUES = np.linspace(-1.0, 1.0, 256)
LOC = np.array([-0.3, 0.7, 0.0039215, -3.0, 40.0, 0.5], "float32")
SCALE = np.array([0.2, 0.001, 1e-5, 0.5, 0.1, 30.0], "float32")


def quantized(loc, scale):
    return distributions.Quantized(distributions.Logistic(loc, scale), -1.0, 1.0, 256)


def probabilities():
    """P of each value, `[values, batch]`, by SciPy, from the nearer tail."""
    half = 0.5 * (VALUES[1] - VALUES[0])
    edges = np.concatenate([[-np.inf], VALUES[:-1] + half, [np.inf]])[:, None]
    base = stats.logistic(LOC.astype("float64"), SCALE.astype("float64"))
    left = np.diff(base.cdf(edges), axis=0)
    right = -np.diff(base.sf(edges), axis=0)
    return np.where(edges[1:] <= LOC, left, right)


def test_moments_are_those_of_the_sums_over_all_values():
    probs = probabilities()
    mean = VALUES @ probs
    variance = np.sum((VALUES[:, None] - mean) ** 2 * probs, axis=0)
    log_probs = np.log(np.where(probs > 0.0, probs, 1.0))
    found = run(
        lambda loc, scale: {
            name: getattr(quantized(loc, scale), name)()
            for name in ("mean", "variance", "mode", "entropy")
        },
        LOC,
        SCALE,
    )
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["variance"], variance, rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(found["mode"], VALUES[probs.argmax(axis=0)], atol=1e-6)
    np.testing.assert_allclose(
        found["entropy"], -np.sum(probs * log_probs, axis=0), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("moment", ["mean", "variance", "entropy"])
def test_moments_are_differentiable(moment):
    def total(loc, scale):
        return getattr(quantized(loc, scale), moment)()

    loc, scale = np.array([0.2, 0.4], "float32"), np.array([0.1, 0.3], "float32")
    _, slopes = values_and_grad(total, loc, scale)
    step = 1e-2
    for i, slope in enumerate(slopes):
        shift = [step * (i == 0), step * (i == 1)]
        above, below = (
            ops.convert_to_numpy(total(loc + s * shift[0], scale + s * shift[1]))
            for s in (1.0, -1.0)
        )
        np.testing.assert_allclose(
            slope, (above - below) / (2.0 * step), rtol=2e-2, atol=1e-3
        )


@pytest.mark.parametrize("moment", ["mean", "variance", "mode", "entropy"])
def test_few_of_the_values_are_in_memory_at_once(moment):
    sizes = []

    class Watched(distributions.Logistic):
        def _log_survival(self, value):
            sizes.append(int(np.prod(tuple(value.shape))))
            return super()._log_survival(value)

    base = Watched(np.zeros((10, 10), "float32"), 1.0)
    getattr(distributions.Quantized(base, 0.0, 1.0, 256), moment)()
    assert max(sizes) <= 16 * 100


@pytest.mark.parametrize("num_bins", [2, 9, 13])
def test_a_number_of_values_that_is_no_multiple_is_summed_over_once(num_bins):
    base = distributions.Normal(np.array([0.2, 0.9], "float32"), 0.5)
    grid = distributions.Quantized(base, 0.0, 1.0, num_bins)
    values = np.linspace(0.0, 1.0, num_bins).astype("float32")[:, None]
    probs = ops.convert_to_numpy(grid.prob(values)).astype("float64")
    mean = (values * probs).sum(axis=0)
    variance = ((values - mean) ** 2 * probs).sum(axis=0)
    entropy = -(probs * np.log(probs)).sum(axis=0)
    found = [grid.mean(), grid.variance(), grid.entropy()]
    np.testing.assert_allclose(
        [ops.convert_to_numpy(value) for value in found],
        [mean, variance, entropy],
        rtol=1e-4,
    )
