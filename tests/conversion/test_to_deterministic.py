"""A Bayesian model becomes a plain one of Keras."""

import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers

import bayesian_layers as bl
from tests.conversion.models import KINDS, X, inputs, sequential
from tests.conversion.test_to_bayesian import OWN, numbers
from tests.layers.weights.table import LAYERS, ROWS, array, compiled, make
from tests.statistics import assert_mean, assert_uncorrelated

BACKEND = keras.backend.backend()


def assert_plain(model):
    assert not any(
        type(layer).__module__.startswith("bayesian_layers")
        for layer in model._flatten_layers()
    )


# By another estimator the counterpart is the same.
@pytest.mark.parametrize(
    "name", [name for name in LAYERS if not name.endswith("Flipout")]
)
def test_every_layer_has_its_counterpart_at_the_means(name):
    row = ROWS[name]
    random_bias = {} if row.vocabulary else {"bias_initializer": "trainable_normal"}
    model = compiled(make(name, **random_bias), row)
    plain = bl.to_deterministic(model)
    assert_plain(plain)
    x = row.inputs()
    with bl.weights(model, "mean"):
        expected = numbers(model(x))
    for ours, theirs in zip(numbers(plain(x)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_is_the_same_model(kind, tmp_path):
    net = KINDS[kind]()
    model = bl.to_bayesian(net, exclude=OWN)
    back = bl.to_deterministic(model)
    assert_plain(back)
    assert [x.name for x in back._flatten_layers()] == [
        x.name for x in net._flatten_layers()
    ]
    x = inputs(net)
    for now, then in zip(numbers(back(x)), numbers(net(x)), strict=True):
        np.testing.assert_allclose(now, then, atol=1e-6)
    # Its weights are those of the original, and load there.
    net.set_weights([0.0 * w for w in net.get_weights()])
    net.set_weights(back.get_weights())
    for now, then in zip(numbers(net(x)), numbers(back(x)), strict=True):
        np.testing.assert_allclose(now, then, atol=1e-6)


def test_a_seed_is_the_draw_of_that_seed():
    model = bl.to_bayesian(sequential(), delta=0.5)
    plain = bl.to_deterministic(model, seed=7)
    with bl.weights(model, seed=7):
        expected = array(model(X))
    np.testing.assert_allclose(array(plain(X)), expected, atol=1e-5)
    assert np.max(np.abs(array(bl.to_deterministic(model)(X)) - expected)) > 1e-2


def test_weights_in_a_file_of_the_bayesian_model_reach_the_plain_one(tmp_path):
    net = sequential()
    model = bl.to_bayesian(net, posterior_scale=0.3)
    kernel = model.layers[0].kernel
    kernel.assign(2.0 * array(kernel))
    model.save_weights(tmp_path / "model.weights.h5")
    other = bl.to_bayesian(net)
    other.load_weights(tmp_path / "model.weights.h5")
    plain = bl.to_deterministic(other)
    np.testing.assert_array_equal(array(plain.layers[0].kernel), array(kernel))


LOAD = """
import sys, keras, numpy as np
model = keras.models.load_model(sys.argv[1])
assert not any(name.startswith("bayesian_layers") for name in sys.modules)
np.save(sys.argv[2], model.predict(np.load(sys.argv[3]), verbose=0))
"""


def test_it_loads_without_this_library(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            bl.layers.DenseFlipout(4, "relu", bias_initializer="trainable_normal"),
            layers.BatchNormalization(),
            bl.layers.DenseReparameterization(3, kernel_regularizer=None),
            bl.layers.Categorical(2),
        ]
    )
    plain = bl.to_deterministic(model)
    plain.save(tmp_path / "plain.keras")
    np.save(tmp_path / "x.npy", X)
    files = [str(tmp_path / name) for name in ("plain.keras", "y.npy", "x.npy")]
    subprocess.run([sys.executable, "-c", LOAD, *files], check=True)
    with bl.weights(model, "mean"):
        expected = array(model(X).distribution.probs)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-5)


HEADS = {
    "Normal": lambda d: d.mean(),
    "Laplace": lambda d: d.mean(),
    "Logistic": lambda d: d.mean(),
    "StudentT": lambda d: d.mean(),
    "Deterministic": lambda d: d.mean(),
    "MultivariateNormalDiag": lambda d: d.mean(),
    "MultivariateNormalTriL": lambda d: d.mean(),
    "MultivariateNormalLowRank": lambda d: d.mean(),
    "Bernoulli": lambda d: d.probs,
    "Categorical": lambda d: d.probs,
    "OneHotCategorical": lambda d: d.probs,
}


@pytest.mark.parametrize("units", [2, None])
@pytest.mark.parametrize("name", HEADS)
def test_a_head_becomes_its_mean(name, units):
    head = getattr(bl.layers, name)(units)
    columns = 5 if units else head._columns(2)
    model = keras.Sequential(
        [keras.Input((3,)), bl.layers.DenseReparameterization(columns), head]
    )
    plain = bl.to_deterministic(model)
    assert_plain(plain)
    with bl.weights(model, "mean"):
        expected = array(HEADS[name](model(X).distribution))
    np.testing.assert_allclose(array(plain(X)), expected, atol=1e-5)


def test_a_head_with_one_scale_for_all_inputs_becomes_its_mean():
    model = keras.Sequential(
        [keras.Input((3,)), bl.layers.Normal(2, homoscedastic=True)]
    )
    plain = bl.to_deterministic(model)
    np.testing.assert_allclose(array(plain(X)), array(model(X).mean()), atol=1e-6)


def test_heads_are_kept_by_choice():
    model = keras.Sequential(
        [keras.Input((3,)), bl.layers.DenseFlipout(4), bl.layers.Gamma(1)]
    )
    with pytest.raises(ValueError, match=r"- gamma.* \(Gamma\)"):
        bl.to_deterministic(model)
    plain = bl.to_deterministic(model, heads="keep")
    assert type(plain.layers[0]) is layers.Dense
    with bl.weights(model, "mean"):
        expected = array(model(X).mean())
    np.testing.assert_allclose(array(plain(X).mean()), expected, atol=1e-6)
    with pytest.raises(ValueError, match="`heads` should be"):
        bl.to_deterministic(model, heads="median")


class Scale(bl.layers.RandomWeights, keras.Layer):
    """A layer that Keras has not."""

    def build(self, shape):
        """Makes the factor."""
        self.factor = self.add_weight(shape[-1:], "trainable_normal", name="factor")

    def call(self, x):
        """Multiplies."""
        return self.factor * x


@pytest.mark.parametrize("layer", [Scale, bl.layers.SparseGaussianProcess])
def test_what_keras_has_not_is_refused_by_name(layer):
    layer = layer() if layer is Scale else layer(1, num_inducing=2)
    model = keras.Sequential([keras.Input((3,)), layer])
    with pytest.raises(ValueError, match="no equal in Keras") as error:
        bl.to_deterministic(model)
    assert layer.name in str(error.value)


def test_a_kernel_with_lora_is_taken_with_its_matrices():
    model = bl.to_bayesian(sequential())
    model.layers[0].enable_lora(2)
    model.layers[0].lora_kernel_b.assign(np.ones((2, 4), dtype="float32"))
    with bl.weights(model, "mean"):
        expected = array(model(X))
    plain = bl.to_deterministic(model)
    assert not plain.layers[0].lora_enabled
    np.testing.assert_allclose(array(plain(X)), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*`quantize` method:UserWarning")
def test_it_can_be_quantized():
    plain = bl.to_deterministic(bl.to_bayesian(sequential()))
    before = array(plain(X))
    plain.quantize("int8")
    np.testing.assert_allclose(array(plain(X)), before, atol=0.05)


def export(model, directory):
    """Returns what was exported, a function from and to arrays."""
    # On torch Keras 3.15.1 does not make a saved model even of a `Dense`, and its own
    # format has batches of one.
    if BACKEND == "torch":
        import torch

        path = str(directory / "model.pt2")
        model.export(path, format="torch", verbose=False)
        module = torch.export.load(path).module()
        return lambda x: module(torch.tensor(x)).detach().numpy()
    import tensorflow as tf

    path = str(directory / "model")
    model.export(path, format="tf_saved_model", verbose=False)
    loaded = tf.saved_model.load(path)  # Its functions do not keep it.
    return lambda x: loaded.serve(tf.constant(x)).numpy()


@pytest.mark.parametrize(
    "held",
    # `torch.export` does not know the generators that draws have on torch.
    ["plain", "mean"] + ["seed"] * (BACKEND != "torch"),
)
@pytest.mark.filterwarnings("ignore")  # Of the exporters.
def test_it_can_be_exported(held, tmp_path):
    model = bl.to_bayesian(sequential())
    x = X[:1]
    if held == "plain":
        plain = bl.to_deterministic(model)
        expected = array(plain(x))
        exported = export(plain, tmp_path)
    else:
        scope = {"value": "mean"} if held == "mean" else {"seed": 3}
        with bl.weights(model, **scope):
            expected = array(model(x))
            exported = export(model, tmp_path)
    np.testing.assert_allclose(exported(x), expected, atol=1e-5)
    if BACKEND != "torch":
        assert exported(X).shape == (len(X), 2)


def with_head(**kwargs):
    body = bl.layers.DenseReparameterization(2)
    return keras.Sequential([keras.Input((4,)), body, bl.layers.Normal(**kwargs)])


@pytest.mark.filterwarnings("ignore")  # Of the exporters.
def test_a_model_with_a_head_is_exported_with_what_other_layers_see_of_it(tmp_path):
    model = with_head(convert="mean")
    x = np.ones((1, 4), dtype="float32")
    with bl.weights(model, "mean"):
        expected = array(model(x).mean())
        exported = export(model, tmp_path)
    np.testing.assert_allclose(exported(x), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # Of the exporters.
def test_a_head_that_draws_is_exported_so_or_refused(tmp_path):
    model = with_head(seed=1)
    x = np.ones((1, 4), dtype="float32")
    with bl.weights(model, "mean"):
        if BACKEND == "torch":
            with pytest.raises(RuntimeError, match=r"to_deterministic\(model\).export"):
                export(model, tmp_path)
            return
        mean = array(model(x).mean())
        exported = export(model, tmp_path)
    x = np.repeat(x, 4000, axis=0)
    first, second = exported(x), exported(x)
    assert_mean(first, mean[0], detect=0.2 * first.std())
    assert_uncorrelated(first, second, detect=0.2)
