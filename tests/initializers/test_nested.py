"""Parameters that are random themselves: "pointwise or distributional"."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers.initializers import TrainableDeterministic, TrainableNormal
from bayesian_layers.regularizers import NormalKLDivergence
from tests.initializers.checks import (
    assert_fit_trains_every_number,
    assert_saves_and_loads,
    dense,
    dense_model,
)
from tests.initializers.table import softplus
from tests.layers.weights.table import array
from tests.statistics import assert_mean, assert_variance

STDDEV = softplus(-3.0)
NAMES = ["kernel", "kernel_loc_scale", "kernel_scale", "kernel_scale_scale", "bias"]


def nested():
    return TrainableNormal(
        mean_initializer=TrainableNormal(),
        stddev_initializer=TrainableNormal(),
        mean_regularizer="normal_kl_divergence",
        stddev_regularizer=NormalKLDivergence(mean=-3.0, stddev=0.1),
    )


def test_each_level_has_its_variables_and_starts_where_the_outer_one_would():
    layer = dense(kernel_initializer=nested())
    assert [weight.name for weight in layer.trainable_weights] == NAMES
    assert 0.0 < np.abs(array(layer.kernel)).max() <= np.sqrt(6.0 / 5.0)
    for weight in layer.trainable_weights[1:4]:
        np.testing.assert_array_equal(array(weight), np.full((3, 2), -3.0))


def normal_kl(loc, scale, prior_loc=0.0, prior_scale=1.0):
    ratio = scale / prior_scale
    distance = (loc - prior_loc) / prior_scale
    return 0.5 * (ratio**2 + distance**2 - 1.0) - np.log(ratio)


def test_each_level_has_its_own_divergence():
    layer = dense(kernel_initializer=nested())
    weights = layer.random_weights["kernel"].flatten()
    losses = {weight.name: float(array(weight.kl())) for weight in weights}
    assert list(losses) == ["kernel", "kernel_loc", "kernel_scale"]
    assert len(layer.losses) == 3
    kernel = array(layer.kernel)
    mean = normal_kl(kernel, STDDEV).sum()
    np.testing.assert_allclose(losses["kernel_loc"], mean, rtol=1e-5)
    stddev = 6 * normal_kl(-3.0, STDDEV, -3.0, 0.1)
    np.testing.assert_allclose(losses["kernel_scale"], stddev, rtol=1e-5)
    # The parameters of the weight itself are draws: within 6 standard deviations of
    # their means but for 12 * 2e-9 of all runs.
    widest = softplus(-3.0 + 6 * STDDEV * np.array([-1.0, 1.0]))
    farthest = np.abs(kernel) + 6 * STDDEV
    nearest = np.maximum(np.abs(kernel) - 6 * STDDEV, 0.0)
    low, high = (
        normal_kl(nearest, widest[1]).sum(),
        normal_kl(farthest, widest[0]).sum(),
    )
    assert low < losses["kernel"] < high


def test_the_sum_of_all_levels_is_the_divergence_of_the_model():
    layer = dense(kernel_initializer=nested(), kl_scale=0.5)
    total, half = float(array(bl.total_kl(layer))), float(array(sum(layer.losses)))
    # Both have draws of their own: 6 * 0.0486 is their standard deviation at most.
    assert abs(total - 2.0 * half) < 7 * np.sqrt(5.0) * 6 * STDDEV


def test_gradients_reach_every_level_in_fit():
    assert_fit_trains_every_number(dense_model(kernel_initializer=nested()))


def test_a_file_keeps_every_level(tmp_path):
    model = dense_model(kernel_initializer=nested())
    loaded = assert_saves_and_loads(model, tmp_path / "model.keras")
    posterior = loaded.layers[-1].random_weights["kernel"].initializer
    assert posterior.get_config() == nested().get_config()


def test_a_draw_has_the_variance_of_all_levels():
    """One draw of 40,000 weights: an error of 8% in the variance is seen."""
    constant = keras.initializers.Constant
    posterior = TrainableNormal(
        mean_initializer=TrainableNormal("zeros", constant(-1.0)),
        stddev_initializer=constant(-0.5),
    )
    layer = bl.layers.DenseReparameterization(
        200, use_bias=False, kernel_initializer=posterior, seed=1
    )
    draws = array(layer(np.eye(200, dtype="float32"))).ravel()
    variance = softplus(-1.0) ** 2 + softplus(-0.5) ** 2
    assert_mean(draws, 0.0, detect=0.03)
    assert_variance(draws, variance, detect=0.08 * variance)


def test_handlers_see_the_parameters_by_their_paths():
    layer = dense(kernel_initializer=nested(), name="layer")
    with bl.tape() as tape:
        layer(np.ones((1, 3), "float32"))
    assert list(tape) == ["layer/kernel_loc", "layer/kernel_scale", "layer/kernel"]
    mean = {"layer/kernel_loc": np.full((3, 2), 7.0, "float32")}
    with bl.condition(mean), bl.tape() as tape:
        layer(np.ones((1, 3), "float32"))
    np.testing.assert_array_equal(
        array(tape["layer/kernel"].distribution.loc), np.full((3, 2), 7.0)
    )


@pytest.mark.parametrize("parameter", ["mean", "stddev"])
def test_a_penalty_on_a_point_mass_is_the_log_density_of_its_prior(parameter):
    posterior = TrainableNormal(
        **{
            f"{parameter}_initializer": TrainableDeterministic("ones"),
            f"{parameter}_regularizer": NormalKLDivergence(stddev=2.0),
        }
    )
    layer = dense(kernel_initializer=posterior)
    weight = layer.random_weights["kernel"]
    distribution = weight.posterior
    expected = normal_kl(array(distribution.loc), array(distribution.scale)).sum()
    expected += 6 * (0.5 * np.log(2.0 * np.pi) + np.log(2.0) + 0.125)
    np.testing.assert_allclose(array(sum(layer.losses)), expected, rtol=1e-5)
