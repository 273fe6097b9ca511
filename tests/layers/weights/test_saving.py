import pickle

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.differentiation import has_float64
from tests.layers.weights.table import array, random_weights

X = np.random.default_rng(0).normal(size=(3, 6, 6, 1)).astype("float32")


def network(conv, dense, **kwargs):
    return keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            conv(2, 3, **kwargs),
            conv(3, 3, **kwargs),
            keras.layers.Flatten(),
            dense(4, name="hidden", **kwargs),
            dense(2, **kwargs),
        ]
    )


def bayesian(**kwargs):
    return network(bl.layers.Conv2DFlipout, bl.layers.DenseReparameterization, **kwargs)


def deterministic():
    return network(keras.layers.Conv2D, keras.layers.Dense)


def at_the_mean(model, x):
    means = {w: w.posterior.mean() for w in random_weights(model)}
    with bl.condition(means):
        return array(model(x))


@pytest.mark.parametrize("file", ["model.weights.h5", "model.keras"])
def test_a_deterministic_checkpoint_loads_as_means(file, tmp_path):
    model, other = deterministic(), bayesian()
    if file.endswith("h5"):
        model.save_weights(tmp_path / file)
    else:
        model.save(tmp_path / file)
    scales = [array(w) for w in other.weights if w.name == "kernel_scale"]
    bl.load_deterministic_weights(other, tmp_path / file)
    np.testing.assert_allclose(at_the_mean(other, X), array(model(X)), atol=1e-5)
    for old, new in zip(
        scales, (w for w in other.weights if w.name == "kernel_scale"), strict=True
    ):
        np.testing.assert_array_equal(old, array(new))


def recurrent_network(library, suffix="", **kwargs):
    def layer(name, *args, **options):
        return getattr(library, name + suffix)(*args, **options, **kwargs)

    inputs = keras.Input((4, 2))
    x = layer("LSTM", 3, return_sequences=True)(inputs)
    both = layer("LSTM", 3, return_sequences=True)
    x = keras.layers.Bidirectional(both)(x)
    x = layer("MultiHeadAttention", 2, 3)(x, x)
    x = keras.layers.RNN(layer("GRUCell", 3))(x)
    return keras.Model(inputs, layer("Dense", 1)(x))


@pytest.mark.parametrize("suffix", ["Reparameterization", "Flipout"])
def test_a_deterministic_checkpoint_of_composite_layers_loads_as_means(
    suffix, tmp_path
):
    model = recurrent_network(keras.layers)
    # Not what they start at: otherwise those that are not loaded would look right.
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    model.save_weights(tmp_path / "model.weights.h5")
    other = recurrent_network(bl.layers, suffix)
    before = {w.path: array(w) for w in other.weights}
    bl.load_deterministic_weights(other, tmp_path / "model.weights.h5")
    x = rng.normal(size=(2, 4, 2)).astype("float32")
    np.testing.assert_allclose(
        at_the_mean(other, x), array(model(x)), rtol=1e-4, atol=1e-5
    )
    scales = [w for w in other.weights if w.name.endswith("_scale")]
    # Three of each recurrent cell, four of the attention, and that of the last kernel.
    assert len(scales) == 4 * 3 + 4 + 1
    for scale in scales:
        np.testing.assert_array_equal(array(scale), before[scale.path])


MIXED = {
    "a Bayesian head": ("Dense", "Dense", "DenseFlipout"),
    "a Bayesian first layer": ("DenseFlipout", "Dense", "Dense"),
    "one in the middle": ("Dense", "DenseLocalReparameterization", "Dense"),
    "three estimators": (
        "DenseFlipout",
        "DenseReparameterization",
        "DenseLocalReparameterization",
    ),
}


@pytest.mark.parametrize("kind", MIXED)
@pytest.mark.parametrize("is_nested", [False, True], ids=["flat", "nested"])
def test_a_deterministic_checkpoint_loads_by_structure(kind, is_nested, tmp_path):
    def make(names):
        layers = [
            getattr(bl.layers if name != "Dense" else keras.layers, name)(3)
            for name in names
        ]
        if is_nested:
            inner = keras.Sequential([keras.Input((3,)), *layers[:2]])
            layers = [inner, *layers[2:]]
        return keras.Sequential([keras.Input((3,)), *layers])

    model, other = make(["Dense"] * 3), make(MIXED[kind])
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    with pytest.raises(ValueError, match="bl.load_deterministic_weights"):
        make(MIXED[kind]).load_weights(path)
    bl.load_deterministic_weights(other, path)
    x = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
    np.testing.assert_allclose(at_the_mean(other, x), array(model(x)), rtol=1e-5)


def test_a_model_whose_layers_are_attributes_loads_a_deterministic_checkpoint(tmp_path):
    class Network(keras.Model):
        def __init__(self, dense):
            super().__init__()
            self.before, self.first = dense(3), dense(3)
            self.second = keras.layers.Dense(2)

        def call(self, inputs):
            return self.second(self.first(self.before(inputs)))

    x = np.ones((2, 3), "float32")
    model, other = Network(keras.layers.Dense), Network(bl.layers.DenseFlipout)
    model(x), other(x)
    model.save_weights(tmp_path / "model.weights.h5")
    bl.load_deterministic_weights(other, tmp_path / "model.weights.h5")
    np.testing.assert_allclose(at_the_mean(other, x), array(model(x)), rtol=1e-5)
    assert bl.layers.DenseFlipout.__name__ == "DenseFlipout"


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Conv2D(2, 3)])
    model.save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError):
        bl.load_deterministic_weights(bayesian(), tmp_path / "model.weights.h5")


def test_weights_pickles_and_clones_keep_what_they_should(tmp_path):
    model = bayesian(seed=3, bias_initializer="trainable_normal")
    model.save_weights(tmp_path / "model.weights.h5")
    other = bayesian(seed=3, bias_initializer="trainable_normal")
    other.load_weights(tmp_path / "model.weights.h5")
    pickled = pickle.loads(pickle.dumps(model))
    for copy in (other, pickled):
        np.testing.assert_allclose(at_the_mean(copy, X), at_the_mean(model, X))
        for old, new in zip(model.weights, copy.weights, strict=True):
            np.testing.assert_array_equal(array(old), array(new))
    np.testing.assert_array_equal(
        other.predict(X, verbose=0), pickled.predict(X, verbose=0)
    )
    clone = keras.models.clone_model(model)
    assert [w.shape for w in clone.weights] == [w.shape for w in model.weights]
    assert clone.layers[0].get_config() == model.layers[0].get_config()


def test_unknown_names_are_errors_that_list_the_known():
    with pytest.raises(ValueError, match="Unknown initializer 'trainable_nomal'"):
        bl.layers.DenseFlipout(2, kernel_initializer="trainable_nomal")
    with pytest.raises(ValueError, match="Unknown regularizer .*normal_kl_divergence"):
        bl.layers.DenseFlipout(2, kernel_regularizer="normal_kl")
    config = bl.layers.DenseFlipout(2).get_config()
    config["kernel_initializer"] = "nothing"
    # Keras makes a TypeError of whatever goes wrong in a constructor.
    with pytest.raises(TypeError, match="Unknown initializer 'nothing'"):
        bl.layers.DenseFlipout.from_config(config)


@pytest.mark.skipif(
    not has_float64(), reason="Keras computes in float32 on this backend."
)
def test_float64_stays_float64():
    layer = bl.layers.DenseFlipout(2, dtype="float64")
    outputs = layer(np.ones((2, 3)))
    (loss,) = layer.losses
    variables = layer.random_weights["kernel"].variables.values()
    for value in (outputs, loss, *variables):
        assert keras.backend.standardize_dtype(value.dtype) == "float64"
    assert np.all(np.isfinite(array(outputs)))
