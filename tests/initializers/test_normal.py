import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers import initializers
from tests.initializers.checks import dense, dense_model, gradients
from tests.layers.weights.table import array


def kernel_distribution(posterior):
    return dense(kernel_initializer=posterior).random_weights["kernel"].posterior


def test_the_standard_deviation_starts_at_softplus_of_minus_three():
    distribution = kernel_distribution("trainable_normal")
    np.testing.assert_allclose(array(distribution.scale), 0.0486, atol=5e-5)


def test_the_divergence_from_a_standard_normal_starts_as_designed():
    """2.5256 per weight, plus half the square of its mean."""
    layer = dense(kernel_initializer="trainable_normal")
    expected = 6 * 2.5256 + np.sum(np.square(array(layer.kernel))) / 2.0
    np.testing.assert_allclose(array(bl.total_kl(layer)), expected, atol=6 * 5e-5)
    np.testing.assert_allclose(array(layer.losses[0]), expected, atol=6 * 5e-5)


def test_the_initializer_of_the_standard_deviation_is_of_the_untransformed_value():
    posterior = initializers.TrainableNormal(
        stddev_initializer=keras.initializers.Constant(-1.0), stddev_constraint="exp"
    )
    distribution = kernel_distribution(posterior)
    np.testing.assert_allclose(array(distribution.scale), np.exp(-1.0), rtol=1e-6)


def test_a_fixed_standard_deviation_is_no_variable_and_stays():
    posterior = initializers.TrainableNormalFixedStddev(stddev=0.25)
    layer = dense(kernel_initializer=posterior)
    layer.kernel.assign(np.ones((3, 2)))
    distribution = layer.random_weights["kernel"].posterior
    np.testing.assert_array_equal(array(distribution.scale), np.full((3, 2), 0.25))
    np.testing.assert_array_equal(array(distribution.loc), np.ones((3, 2)))


@pytest.mark.parametrize("stddev", [0.0, -1.0, float("nan")])
def test_a_fixed_standard_deviation_has_to_be_positive(stddev):
    with pytest.raises(ValueError, match=f"positive. Received: stddev={stddev}"):
        initializers.TrainableNormalFixedStddev(stddev)


@pytest.mark.parametrize("rank", [0, -1, 1.5, "2"])
def test_a_rank_has_to_be_a_positive_integer(rank):
    with pytest.raises(ValueError, match=f"positive integer. Received: {rank}"):
        initializers.TrainableLowRankNormal(rank)


@pytest.mark.parametrize("field", ["regularizer", "initializer", "constraint"])
def test_an_unknown_name_for_a_parameter_is_an_error(field):
    with pytest.raises(ValueError, match=f"Unknown {field} 'nothing'"):
        initializers.TrainableNormal(**{f"stddev_{field}": "nothing"})


def test_a_penalty_on_a_parameter_is_added_to_that_on_the_weight():
    posterior = initializers.TrainableNormal(
        mean_regularizer="l2", stddev_regularizer="l1"
    )
    layer = dense(kernel_initializer=posterior)
    # The defaults of Keras: 0.01 for both; the untransformed scales start at -3.
    expected = (
        array(bl.total_kl(layer))
        + 0.01 * np.square(array(layer.kernel)).sum()
        + 0.01 * 3.0 * 6
    )
    np.testing.assert_allclose(array(sum(layer.losses)), expected, rtol=1e-5)


def test_dropout_noise_is_clipped():
    """log(alpha) is at most 8: a standard deviation of exp(4) = 54.6 means."""
    posterior = initializers.TrainableDropoutNormal(
        mean_initializer=keras.initializers.Constant(1e-3),
        stddev_initializer=keras.initializers.Constant(3.0),
    )
    distribution = kernel_distribution(posterior)
    np.testing.assert_allclose(array(distribution.scale), 1e-3 * np.exp(4.0), rtol=1e-5)


def test_a_mean_of_zero_trains_in_spite_of_clipped_dropout_noise():
    posterior = initializers.TrainableDropoutNormal(mean_initializer="zeros")
    gradient = gradients(dense_model(kernel_initializer=posterior))
    assert all(np.all(np.isfinite(value)) for value in gradient.values())
    assert np.all(gradient["kernel"] != 0.0)
