"""Simulation-based calibration: ranks of true values among posterior draws.

Parameters are drawn from the prior, data given them, and a posterior is found for each
data set. If it is right, the rank of a parameter among draws from its posterior is
uniform (Talts et al., 2018). Uniformity is tested by a chi-square test at a level of
1e-4; the same test refuses draws of half the spread.
"""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl

DRAWS, BINS = 99, 5


def p_value(truth, draws):
    """Of the ranks of `truth`, `[n]`, among `draws`, `[DRAWS, n]`, in equal bins."""
    ranks = np.sum(draws < truth, axis=0)
    counts = np.bincount(ranks * BINS // (DRAWS + 1), minlength=BINS)
    return stats.chisquare(counts).pvalue


def assert_calibrated(truth, draws):
    assert p_value(truth, draws) > 1e-4
    centre = draws.mean(axis=0)
    assert p_value(truth, centre + 0.5 * (draws - centre)) < 1e-4


@pytest.mark.slow
def test_the_full_rank_guide_is_calibrated():
    """100 regressions at once, each with an intercept and a slope that correlate."""
    count, size = 100, 5
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, count))
    x = np.linspace(0.0, 2.0, size)[:, None]
    y = (a + b * x + 0.7 * rng.normal(size=(size, count))).astype("float32")

    def program(x):
        a = bl.Normal(0.0, 1.0, sample_shape=count, name="a")
        b = bl.Normal(0.0, 1.0, sample_shape=count, name="b")
        return bl.Normal(a + b * x, 0.7, name="y")

    data = {"x": x, "y": y}
    guide = bl.FullRankGuide(program, data, init_scale=0.3)
    inference = bl.VariationalInference(program, guide, data, num_particles=4, seed=1)
    steps = 1500
    schedule = keras.optimizers.schedules.CosineDecay(0.03, steps, alpha=0.01)
    inference.compile(keras.optimizers.Adam(schedule))
    inference.fit(epochs=1, steps_per_epoch=steps, verbose=0)
    draws = guide.sample(DRAWS, seed=2)
    draws = {name: ops.convert_to_numpy(value) for name, value in draws.items()}
    assert_calibrated(a, draws["a"])
    assert_calibrated(b, draws["b"])
    # What a guide of independent variables would get wrong.
    assert_calibrated(a + b, draws["a"] + draws["b"])


def test_the_exact_process_is_calibrated():
    """200 functions at 6 points, and what the process says of a seventh."""
    count, noise = 200, 0.2
    rng = np.random.default_rng(3)
    x = np.linspace(-2.0, 2.0, 7)[:, None]
    tril = np.linalg.cholesky(np.exp(-0.5 * (x - x.T) ** 2) + 1e-9 * np.eye(7))
    f = tril @ rng.normal(size=(7, count))
    y = f + noise * rng.normal(size=f.shape)
    seen, asked = [0, 1, 2, 4, 5, 6], [3]
    # One unit for each function: they have the covariance function in common.
    process = bl.layers.GaussianProcess(
        count,
        conditional_inputs=x[seen].astype("float32"),
        conditional_outputs=y[seen].astype("float32"),
        noise_variance=noise**2,
        with_noise=False,
    )
    posterior = process(x[asked].astype("float32")).distribution
    draws = ops.convert_to_numpy(posterior.sample(DRAWS, seed=5))
    assert_calibrated(f[asked[0]], draws[:, 0])
