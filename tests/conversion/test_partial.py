"""Networks of which only a part is Bayesian: the last layer, frozen layers, LoRA."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.conversion.models import X, Z, sequential
from tests.layers.weights.table import array


def normal_kl(mean, stddev):
    """KL(N(mean, stddev) || N(0, 1)), summed, by NumPy."""
    return np.sum(0.5 * (stddev**2 + mean**2 - 1.0) - np.log(stddev))


def trained_parts(model):
    """The names of the variables that `fit` moves."""
    before = {v.path: array(v) for v in model.trainable_variables}
    others = {v.path: array(v) for v in model.non_trainable_variables}
    model.compile("adam", "mse")
    model.fit(X, Z, epochs=2, verbose=0)
    moved = {v.path: array(v) for v in model.variables if v.path in before | others}
    assert all(np.any(moved[path] != before[path]) for path in before)
    return before, others, moved


def test_of_the_last_layer_only_there_is_one_divergence():
    model = bl.to_bayesian(sequential(), include="last", dataset_size=6)
    (weight,) = model.layers[-1].random_weights.values()
    expected = normal_kl(array(weight.location), array(weight.posterior.stddev()))
    # The first layer has its L2 penalty still.
    penalty = 0.01 * np.sum(array(model.layers[0].kernel) ** 2)
    total = float(array(sum(model.losses)))
    assert total == pytest.approx(expected / 6 + penalty, rel=1e-4)


def test_the_layers_before_it_may_be_frozen():
    net = sequential()
    for layer in net.layers[:-1]:
        layer.trainable = False
    model = bl.to_bayesian(net, include="last", dataset_size=6)
    assert [v.name for v in model.trainable_variables] == [
        "kernel",
        "kernel_scale",
        "bias",
    ]
    _, others, moved = trained_parts(model)
    frozen = model.layers[0].kernel.path
    np.testing.assert_array_equal(moved[frozen], others[frozen])


@pytest.fixture
def with_lora():
    """The last layer Bayesian, its mean frozen but for matrices of rank 1."""
    model = bl.to_bayesian(sequential(), include="last", dataset_size=6)
    layer = model.layers[-1]
    layer.enable_lora(1)
    layer.lora_kernel_b.assign(np.full((1, 2), 0.3, dtype="float32"))
    return model


def test_the_divergence_with_lora_is_that_of_the_whole_mean(with_lora):
    layer = with_lora.layers[-1]
    a, b = array(layer.lora_kernel_a), array(layer.lora_kernel_b)
    weight = layer.random_weights["kernel"]
    mean = array(weight.location) + a @ b
    stddev = array(weight.posterior.stddev())
    np.testing.assert_allclose(array(weight.posterior.mean()), mean, atol=1e-6)
    expected = normal_kl(mean, stddev)
    assert float(array(weight.kl())) == pytest.approx(expected, rel=1e-5)
    (loss,) = layer.losses
    assert float(array(loss)) == pytest.approx(expected / 6, rel=1e-5)


def test_with_lora_matrices_and_scales_train_and_the_mean_does_not(with_lora):
    layer = with_lora.layers[-1]
    mean = array(layer.random_weights["kernel"].location)
    before, _, _ = trained_parts(with_lora)
    names = {path.rpartition("/")[2] for path in before}
    assert {"kernel_scale", "lora_kernel_a", "lora_kernel_b"} <= names
    assert layer.random_weights["kernel"].location.path not in before
    np.testing.assert_array_equal(array(layer.random_weights["kernel"].location), mean)


def test_the_draws_with_lora_are_around_the_whole_mean(with_lora):
    with bl.weights(with_lora, "mean"):
        outputs = array(with_lora(X))
    plain = bl.to_deterministic(with_lora)
    np.testing.assert_allclose(array(plain(X)), outputs, atol=1e-5)
    prediction = bl.predict(with_lora, X, num_samples=400, seed=1)
    # Standard errors are below 0.05 of the outputs' standard deviations; 6 of them.
    error = np.abs(prediction.mean - outputs) / prediction.stddev
    assert np.max(error) < 6.0 / np.sqrt(400)


def test_a_mean_that_is_frozen_for_lora_is_not_without_its_divergence(with_lora):
    layer = with_lora.layers[-1]
    layer.random_weights["kernel"].variables["scale"].trainable = False
    assert len(layer.losses) == 1
    layer.trainable = False
    assert layer.losses == []
    assert isinstance(layer, keras.layers.Dense)
