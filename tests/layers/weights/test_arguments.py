"""Arguments of the Keras layers mean here what they mean there."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.table import array, keras_layer

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
no_channels_first = pytest.mark.skipif(
    ON_TENSORFLOW, reason="TensorFlow has no channels_first and no groups on the CPU."
)

EQUATIONS = {
    "...x,xy->...y": 4,
    "abc,cde->abde": (5, 2, 3),
    "abc,cd->adb": (4, 5),
}
VARIANTS = {
    "strides": ({"strides": 2}, (6, 6, 2)),
    "dilation": ({"dilation_rate": 2, "padding": "same"}, (6, 6, 2)),
    "channels first": ({"data_format": "channels_first"}, (2, 6, 6)),
    "groups": ({"groups": 2, "use_bias": False}, (6, 6, 2)),
}


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(name, marks=no_channels_first)
        if name in ("channels first", "groups")
        else name
        for name in VARIANTS
    ],
)
@pytest.mark.parametrize(
    "estimator", ["Reparameterization", "Flipout", "LocalReparameterization"]
)
def test_arguments_of_a_convolution_mean_what_they_mean_in_keras(estimator, variant):
    arguments, shape = VARIANTS[variant]
    layer = getattr(bl.layers, f"Conv2D{estimator}")(
        4, 2, activation="tanh", bias_initializer="random_normal", **arguments
    )
    assert_keras_at_the_mean(layer, shape)


def assert_keras_at_the_mean(layer, shape):
    """Without noise the estimator's own path gives the outputs of the Keras layer."""
    x = np.random.default_rng(0).normal(size=(3, *shape)).astype("float32")
    layer.build((None, *shape))
    scale = layer.random_weights["kernel"].variables["scale"]
    scale.assign(ops.full(scale.shape, -100.0))
    reference = keras_layer(layer)
    reference.build((None, *shape))
    values = {w.name: array(w) for w in layer.weights}
    reference.set_weights([values[w.name] for w in reference.weights])
    np.testing.assert_allclose(array(layer(x)), array(reference(x)), atol=1e-5)


@pytest.mark.parametrize("estimator", ["Reparameterization", "Flipout"])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_equations_mean_what_they_mean_in_keras(estimator, equation):
    cls = getattr(bl.layers, f"EinsumDense{estimator}")
    assert_keras_at_the_mean(cls(equation, EQUATIONS[equation]), (5, 3))


@pytest.mark.parametrize("name", ["DenseReparameterization", "DenseFlipout"])
def test_masks_pass_through(name):
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            bl.layers.EmbeddingReparameterization(5, 3, mask_zero=True),
            getattr(bl.layers, name)(2),
            keras.layers.GlobalAveragePooling1D(),
        ]
    )
    tokens = np.array([[1, 2, 0, 0], [3, 3, 4, 0]])
    with bl.tape() as tape:
        outputs = array(model(tokens))
    table, kernel = (array(value) for value in tape.values())
    for row, output in zip(tokens, outputs, strict=True):
        expected = (table[row[row > 0]] @ kernel).mean(axis=0)
        np.testing.assert_allclose(output, expected, atol=1e-5)


def test_activity_regularizers_and_constraints_work_as_in_keras():
    layer = bl.layers.DenseFlipout(
        2, activity_regularizer="l2", kernel_constraint="non_neg", kl_scale=1.0
    )
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(np.ones((4, 3)), -10 * np.ones((4, 2)), verbose=0)
    assert array(layer.kernel).min() >= 0.0
    model(np.ones((4, 3)))
    assert len(model.losses) == 2
