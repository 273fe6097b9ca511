"""The divergence in Keras' place: once per weight, scaled once, without retracing."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.differentiation import value_and_grad
from tests.layers.weights.table import array

# KL(Normal(m, 0.0486) || Normal(0, 1)) = 2.5256 + m**2 / 2 for each weight.
START = 2.5256


def expected_kl(*layers):
    return sum(
        START * layer.kernel.shape[0] * layer.kernel.shape[1]
        + 0.5 * np.sum(array(layer.kernel) ** 2)
        for layer in layers
    )


def model_of(*layers):
    return keras.Sequential([keras.Input((3,)), *layers])


def dense(units=3, **kwargs):
    kwargs = {"kernel_initializer": "trainable_normal", **kwargs}
    return bl.layers.DenseReparameterization(units, **kwargs)


def test_each_weight_counts_once_before_and_after_fit():
    model = model_of(dense(4, kl_scale=1.0), dense(1, kl_scale=1.0))
    for _ in range(2):
        assert len(model.losses) == 2
        np.testing.assert_allclose(
            array(sum(model.losses)), array(bl.total_kl(model)), rtol=1e-6
        )
        model.compile(keras.optimizers.SGD(0.0), "mse")
        model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
    np.testing.assert_allclose(
        array(bl.total_kl(model)), expected_kl(*model.layers), rtol=1e-4
    )


def test_a_shared_layer_counts_once_and_a_nested_model_counts():
    shared = dense(3)
    model = model_of(shared, shared, model_of(shared, dense(2)))
    assert len(model.losses) == 2
    last = model.layers[-1].layers[-1]
    np.testing.assert_allclose(
        array(sum(model.losses)), expected_kl(shared, last), rtol=1e-4
    )


def test_a_frozen_layer_leaves_the_losses_but_not_the_total():
    model = model_of(dense(3), dense(2))
    total = array(bl.total_kl(model))
    model.layers[0].trainable = False
    assert len(model.losses) == 1
    np.testing.assert_allclose(
        array(sum(model.losses)), expected_kl(model.layers[1]), rtol=1e-4
    )
    np.testing.assert_allclose(array(bl.total_kl(model)), total, rtol=1e-6)


def test_scale_kl_sets_every_layer_once_whether_built_or_not():
    unbuilt = keras.Sequential([dense(3), keras.Sequential([dense(2)])])
    bl.scale_kl(unbuilt, dataset_size=50)
    unbuilt.build((None, 3))
    built = model_of(dense(3), model_of(dense(2)))
    bl.scale_kl(built, dataset_size=50)
    for model in (unbuilt, built):
        np.testing.assert_allclose(
            50 * array(sum(model.losses)), array(bl.total_kl(model)), rtol=1e-5
        )


def test_the_scale_is_in_the_config_and_not_in_the_weights(tmp_path):
    model = model_of(dense(3))
    model.save_weights(tmp_path / "model.weights.h5")
    weights = model.get_weights()
    bl.scale_kl(model, dataset_size=8)
    model.load_weights(tmp_path / "model.weights.h5")
    model.set_weights(weights)
    scaled = array(bl.total_kl(model)) / 8
    np.testing.assert_allclose(array(sum(model.losses)), scaled, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    json = keras.models.model_from_json(loaded.to_json())
    for copy in (model, loaded, json, keras.models.clone_model(loaded)):
        assert copy.layers[0].kl_scale == 0.125
        assert [w.name for w in copy.weights] == ["kernel", "kernel_scale", "bias"]
    # No warning follows either: it would fail the test.
    loaded.compile("sgd", "mse")
    loaded.fit(np.ones((4, 3)), np.ones((4, 3)), verbose=0)


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="Keras runs torch without tracing."
)
def test_scale_kl_works_without_tracing_anew():
    class Count(keras.Layer):
        traces = 0

        def call(self, inputs):
            Count.traces += 1
            return inputs

    model = model_of(Count(), dense(1))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    x, y = np.zeros((4, 3)), np.zeros((4, 1))
    losses, traces = [], []
    for size in (1, 100):
        bl.scale_kl(model, dataset_size=size)
        losses.append(model.fit(x, y, verbose=0).history["loss"][0])
        traces.append(Count.traces)
    assert traces[0] == traces[1]
    np.testing.assert_allclose(losses[0], 100 * losses[1], rtol=1e-4)


def test_gradients_of_the_divergence_are_those_of_the_closed_form():
    layer = dense(1, use_bias=False, kl_scale=1.0)
    layer.build((None, 1))
    layer.kernel.assign([[0.5]])
    scale = layer.random_weights["kernel"].variables["scale"]

    def closed_form(mean, untransformed):
        stddev = ops.softplus(untransformed)
        return ops.sum(
            0.5 * (ops.square(mean) + ops.square(stddev) - 1.0) - ops.log(stddev)
        )

    value, (by_mean, by_scale) = value_and_grad(closed_form, [[0.5]], [[-3.0]])
    np.testing.assert_allclose(array(layer.losses[0]), value, rtol=1e-5)
    model = model_of_one_input(layer)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(np.zeros((1, 1)), np.zeros((1, 1)), verbose=0)
    np.testing.assert_allclose(array(layer.kernel), 0.5 - by_mean, rtol=1e-4)
    np.testing.assert_allclose(array(scale), -3.0 - by_scale, rtol=1e-4)


def model_of_one_input(layer):
    return keras.Sequential([keras.Input((1,)), layer])


def test_errors_name_what_is_missing():
    with pytest.raises(ValueError, match="distributions over their weights"):
        bl.scale_kl(keras.Sequential([keras.layers.Dense(1)]), dataset_size=3)
    with pytest.raises(ValueError, match="dataset_size=0"):
        bl.scale_kl(model_of(dense()), dataset_size=0)
    with pytest.raises(ValueError, match="dataset_size=None"):
        bl.scale_kl(model_of(dense()), dataset_size=None)
    with pytest.raises(ValueError, match="not built"):
        bl.total_kl(keras.Sequential([dense(3)]))


def test_the_divergence_is_there_while_its_prior_is_trained():
    layer = dense(kernel_regularizer="trainable_normal_kl_divergence_stddev")
    layer.build((None, 3))
    weight = layer.random_weights["kernel"]
    for variable in weight.variables.values():
        variable.trainable = False
    assert len(layer.losses) == 1
    for variable in weight.prior_variables:
        variable.trainable = False
    assert layer.losses == []
