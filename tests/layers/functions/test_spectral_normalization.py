"""The norm of a layer's linear map is bounded: against the singular values of its
matrix, found by applying the layer of Keras to all unit vectors."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers.layers.functions.linear_operators import LAYERS
from tests.differentiation import grad

layers = keras.layers
LARGE = {"kernel_initializer": keras.initializers.RandomNormal(stddev=1.0, seed=3)}
DEPTHWISE = {"depthwise_initializer": LARGE["kernel_initializer"]}

# The layer, and the shape of one input.
ROWS = {
    "Dense": (lambda: layers.Dense(5, **LARGE), (3,)),
    "EinsumDense": (lambda: layers.EinsumDense("ab,bcd->acd", (2, 4), **LARGE), (3,)),
    "EinsumDense with batch axes in the kernel": (
        lambda: layers.EinsumDense("abc,bcd->abd", (2, 4), **LARGE),
        (2, 3),
    ),
    "EinsumDense with an ellipsis": (
        lambda: layers.EinsumDense("...b,bc->...c", (2, 4), **LARGE),
        (2, 3),
    ),
    "Conv1D": (lambda: layers.Conv1D(4, 3, **LARGE), (7, 2)),
    "Conv1D, causal and dilated": (
        lambda: layers.Conv1D(
            4,
            3,
            padding="causal",
            dilation_rate=2,
            data_format="channels_last",
            **LARGE,
        ),
        (7, 2),
    ),
    "Conv2D": (lambda: layers.Conv2D(3, 3, padding="same", **LARGE), (5, 4, 2)),
    "Conv2D with strides": (
        lambda: layers.Conv2D(3, (3, 2), strides=(2, 3), padding="same", **LARGE),
        (6, 5, 2),
    ),
    "Conv2D, valid, with strides and a rest": (
        lambda: layers.Conv2D(3, 2, strides=3, **LARGE),
        (7, 6, 2),
    ),
    "Conv2D in groups": (
        lambda: layers.Conv2D(4, 3, groups=2, padding="same", **LARGE),
        (4, 4, 6),
    ),
    "Conv3D": (lambda: layers.Conv3D(2, 2, strides=2, **LARGE), (4, 3, 4, 2)),
    "DepthwiseConv1D": (lambda: layers.DepthwiseConv1D(3, **DEPTHWISE), (6, 3)),
    "DepthwiseConv2D": (
        lambda: layers.DepthwiseConv2D(
            3, strides=2, depth_multiplier=2, padding="same", **DEPTHWISE
        ),
        (5, 6, 3),
    ),
}


def matrix_of(layer, shape):
    """The linear map of a layer as a matrix, row by row."""
    units = np.eye(int(np.prod(shape)), dtype="float32").reshape(-1, *shape)
    zero = ops.convert_to_numpy(layer(np.zeros((1, *shape), "float32")))
    return (ops.convert_to_numpy(layer(units)) - zero).reshape(len(units), -1)


def norm_of(layer):
    return float(ops.convert_to_numpy(layer.spectral_norm()))


def test_every_kind_of_layer_has_a_row():
    assert {type(make()) for make, _ in ROWS.values()} == set(LAYERS)


@pytest.mark.parametrize("name", ROWS)
def test_the_norm_is_that_of_the_map_and_is_bounded(name):
    keras.utils.set_random_seed(1)
    make, shape = ROWS[name]
    wrapped = make()
    layer = bl.layers.SpectralNormalization(wrapped, norm_bound=0.7)
    layer.build((None, *shape))
    layer.iterate(150)
    norm = np.linalg.norm(matrix_of(wrapped, shape), 2)
    assert norm > 0.8  # There is something to bound.
    assert norm_of(layer) == pytest.approx(norm, rel=1e-3)
    bounded = np.linalg.norm(matrix_of(layer, shape), 2)
    assert bounded == pytest.approx(0.7, rel=1e-3)


def test_channels_first():
    if keras.backend.backend() == "tensorflow":
        pytest.skip("TensorFlow has no such convolution on a CPU.")
    wrapped = layers.Conv2D(
        3, 3, strides=2, padding="same", data_format="channels_first", **LARGE
    )
    layer = bl.layers.SpectralNormalization(wrapped)
    layer.build((None, 2, 6, 5))
    layer.iterate(150)
    norm = np.linalg.norm(matrix_of(wrapped, (2, 6, 5)), 2)
    assert norm_of(layer) == pytest.approx(norm, rel=1e-3)


def test_a_map_below_the_bound_is_left_as_it_is():
    wrapped = layers.Dense(3, kernel_initializer="identity", activation="tanh")
    layer = bl.layers.SpectralNormalization(wrapped, norm_bound=1.5)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    layer.build(x.shape)
    layer.iterate()
    np.testing.assert_array_equal(
        ops.convert_to_numpy(layer(x)), ops.convert_to_numpy(wrapped(x))
    )


def test_a_kernel_of_zeros_stays_finite_and_trains():
    layer = bl.layers.SpectralNormalization(
        layers.Dense(2, kernel_initializer="zeros"), norm_bound=0.5
    )
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
    model.fit(x, 9.0 * x[:, :2], epochs=10, batch_size=32, verbose=0)
    layer.iterate(150)
    assert norm_of(layer) > 0.6
    bounded = np.linalg.norm(matrix_of(layer, (3,)), 2)
    assert bounded == pytest.approx(0.5, rel=1e-3)


def test_only_training_moves_the_vector():
    layer = bl.layers.SpectralNormalization(layers.Dense(3))
    x = np.ones((2, 4), "float32")
    layer(x)
    before = ops.convert_to_numpy(layer.singular_vector)
    layer(x)
    np.testing.assert_array_equal(before, ops.convert_to_numpy(layer.singular_vector))
    layer(x, training=True)
    after = ops.convert_to_numpy(layer.singular_vector)
    kernel = ops.convert_to_numpy(layer.layer.kernel)
    expected = kernel @ (kernel.T @ before)
    np.testing.assert_allclose(after, expected / np.linalg.norm(expected), rtol=1e-4)
    assert [v.name for v in layer.non_trainable_variables] == ["singular_vector"]


def test_gradients_flow_through_the_norm_and_not_through_its_vectors():
    layer = bl.layers.SpectralNormalization(
        layers.Dense(3, use_bias=False, **LARGE), norm_bound=0.5
    )
    layer.build((None, 4))
    layer.iterate(150)
    weights = np.random.default_rng(1).normal(size=(4, 3)).astype("float32")
    variable = layer.layer._kernel
    kernel = ops.convert_to_numpy(variable)

    def loss(value):
        with keras.StatelessScope([(variable, value)]):
            bounded = layer(ops.eye(4), training=True)
        return ops.sum(ops.multiply(weights, bounded))

    (gradient,) = grad(loss, kernel)
    u, s, v = np.linalg.svd(kernel)
    product = np.sum(weights * kernel)
    expected = 0.5 * (weights / s[0] - product * np.outer(u[:, 0], v[0]) / s[0] ** 2)
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-4)


def test_fit_save_and_load(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            bl.layers.SpectralNormalization(
                layers.Conv2D(4, 3, activation="relu"), norm_bound=0.8
            ),
            layers.Flatten(),
            bl.layers.SpectralNormalization(layers.Dense(1), power_iterations=2),
        ]
    )
    model.compile("adam", "mse")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 6, 6, 1)).astype("float32")
    before = model.get_weights()
    model.fit(x, rng.normal(size=(32, 1)), epochs=1, verbose=0)
    changed = [np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True)]
    assert all(changed)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.layers[0].norm_bound == 0.8
    assert loaded.layers[2].power_iterations == 2
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-5
    )


def test_half_precision_bounds_in_single_precision():
    wrapped = layers.Dense(4, dtype="mixed_bfloat16", **LARGE)
    layer = bl.layers.SpectralNormalization(wrapped, dtype="mixed_bfloat16")
    y = layer(np.ones((2, 4), "float32"), training=True)
    layer.iterate(150)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    assert keras.backend.standardize_dtype(layer.singular_vector.dtype) == "float32"
    norm = np.linalg.norm(ops.convert_to_numpy(wrapped._kernel), 2)
    assert norm_of(layer) == pytest.approx(norm, rel=1e-3)


def test_lora_is_part_of_the_kernel():
    wrapped = layers.Dense(4, **LARGE)
    layer = bl.layers.SpectralNormalization(wrapped, norm_bound=0.6)
    layer.build((None, 3))
    wrapped.enable_lora(2, b_initializer="ones")
    layer.iterate(150)
    assert np.linalg.norm(matrix_of(layer, (3,)), 2) == pytest.approx(0.6, rel=1e-3)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: bl.layers.DenseFlipout(2), "each draw"),
        (lambda: layers.Conv2DTranspose(2, 3), "knows the linear maps of Dense"),
        (lambda: layers.Embedding(2, 3), "knows the linear maps of Dense"),
    ],
)
def test_other_layers_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        bl.layers.SpectralNormalization(make())


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="norm_bound=0"):
        bl.layers.SpectralNormalization(layers.Dense(2), norm_bound=0)
    with pytest.raises(ValueError, match="power_iterations=0"):
        bl.layers.SpectralNormalization(layers.Dense(2), power_iterations=0)
    with pytest.raises(ValueError, match="one known size"):
        bl.layers.SpectralNormalization(layers.Conv1D(2, 3)).build((None, None, 2))
    summing = layers.EinsumDense("abc,cd->ad", (2,))
    with pytest.raises(ValueError, match="sums it over"):
        bl.layers.SpectralNormalization(summing).build((None, 3, 2))
