"""Random weights of layers that Keras does not know: users' own."""

import json

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.table import array, set_stddev
from tests.statistics import assert_mean, assert_variance

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")

register = keras.saving.register_keras_serializable("tests")


@register
class Affine(bl.layers.RandomWeights, keras.Layer):
    """x * factor + shift, with a random factor."""

    def __init__(self, power=1, **kwargs):
        super().__init__(**kwargs)
        self.power = power

    def build(self, input_shape):
        self.factor = self.add_weight(
            input_shape[-1:],
            initializer="trainable_normal",
            regularizer="normal_kl_divergence",
            name="factor",
        )
        self.shift = self.add_weight(input_shape[-1:], "zeros", name="shift")

    def call(self, inputs, training=None):
        return inputs**self.power * self.factor + self.shift

    def get_config(self):
        return {**super().get_config(), "power": self.power}


class MyDense(keras.Layer):
    """A dense layer as a user writes it: without `use_bias`, and with an activation."""

    def __init__(self, units=2, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.activation = ops.tanh

    def build(self, input_shape):
        self.kernel = self.add_weight((input_shape[-1], self.units), name="kernel")
        self.bias = self.add_weight((self.units,), "random_normal", name="bias")

    def call(self, inputs, training=None):
        return self.activation(inputs @ self.kernel + self.bias)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@register
class MyDenseReparameterization(bl.layers.Reparameterization, MyDense):
    pass


@register
class MyDenseFlipout(bl.layers.Flipout, MyDense):
    pass


@register
class MyDenseLocal(bl.layers.LocalReparameterization, MyDense):
    pass


LAYERS = {
    "affine": (Affine, "factor"),
    "reparameterization": (MyDenseReparameterization, "kernel"),
    "flipout": (MyDenseFlipout, "kernel"),
    "local": (MyDenseLocal, "kernel"),
}
every_layer = pytest.mark.parametrize(("cls", "name"), LAYERS.values(), ids=LAYERS)


def model_of(layer):
    return keras.Sequential([keras.Input((3,)), layer])


@every_layer
def test_only_its_weight_is_random_and_its_divergence_counts_once(cls, name):
    layer = cls(kl_scale=0.5)
    model = model_of(layer)
    set_stddev(model, 0.0486)
    assert list(layer.random_weights) == [name]
    weight = layer.random_weights[name]
    mean = array(weight.location)
    # KL(Normal(m, 0.0486) || Normal(0, 1)) = 2.5256 + m**2 / 2 for each element.
    expected = 2.5253 * mean.size + 0.5 * np.sum(mean**2)
    np.testing.assert_allclose(array(weight.kl()), expected, rtol=1e-4)
    np.testing.assert_allclose(array(bl.total_kl(model)), expected, rtol=1e-4)
    (loss,) = model.losses
    np.testing.assert_allclose(array(loss), 0.5 * expected, rtol=1e-4)
    assert type(weight.prior).__name__ == "Normal"
    for part in (layer.name, name, "Normal", str(mean.shape)):
        assert part in repr(weight)


@every_layer
def test_fit_trains_every_weight(cls, name):
    layer = cls(seed=1)
    model = model_of(layer)
    bl.scale_kl(model, dataset_size=8)
    before = [array(w) for w in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    y = np.ones((8, *model.output_shape[1:]), "float32")
    model.fit(X, y, epochs=2, verbose=0)
    assert len(before) == 3
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.any(array(weight) != old), weight.path
        assert np.all(np.isfinite(array(weight))), weight.path


class OwnPrior(bl.layers.RandomWeights, keras.Layer):
    """A layer whose prior is made while it is built."""

    def build(self, input_shape):
        prior = bl.regularizers.NormalKLDivergence(np.ones(3, "float32"), 2.0)
        self.factor = self.add_weight(
            input_shape[-1:], "trainable_normal", name="factor", regularizer=prior
        )

    def call(self, inputs):
        return inputs * self.factor


@pytest.mark.parametrize(
    "make",
    [
        *(cls for cls, _ in LAYERS.values()),
        OwnPrior,
        lambda: bl.layers.DenseFlipout(
            2, kernel_regularizer="trainable_normal_kl_divergence_stddev"
        ),
    ],
    ids=[*LAYERS, "own prior", "trained prior"],
)
def test_a_layer_that_fit_builds_trains(make):
    # It is built while Keras traces the model, which ends before the prior may.
    model = keras.Sequential([make()])
    bl.scale_kl(model, dataset_size=8)
    model.compile("sgd", "mse")
    y = np.ones((8, 3 if make in (Affine, OwnPrior) else 2), "float32")
    history = model.fit(X, y, batch_size=4, epochs=2, verbose=0)
    assert np.all(np.isfinite(history.history["loss"]))
    assert np.isfinite(array(bl.total_kl(model)))
    for weight in model.weights:
        assert np.all(np.isfinite(array(weight))), weight.path


@every_layer
def test_handlers_see_and_set_its_weight(cls, name):
    layer = cls(name="layer")
    layer.build((None, 3))
    set_stddev(layer, 1.0)
    with bl.tape() as tape:
        outputs = array(layer(X))
    assert list(tape) == [f"layer/{name}"]
    with bl.replay(tape):
        np.testing.assert_allclose(array(layer(X[::-1]))[::-1], outputs, atol=1e-6)
    value = np.full(layer.random_weights[name].location.shape, 0.25, "float32")
    with bl.condition({f"layer/{name}": value}):
        given = array(layer(X))
    if cls is Affine:
        expected = X * value
    else:
        expected = np.tanh(X @ value + array(layer.bias))
    np.testing.assert_allclose(given, expected, atol=1e-6)
    with bl.weights(layer, "mean"):
        held = array(layer(X))
        np.testing.assert_array_equal(held, array(layer(X)))


@every_layer
def test_it_is_saved_loaded_cloned_and_predicts_the_same(cls, name, tmp_path):
    model = model_of(cls(seed=7))
    set_stddev(model, 0.5)
    bl.scale_kl(model, dataset_size=4)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    expected = bl.predict(model, X, num_samples=3, seed=1, verbose=0)
    for copy in (loaded, clone):
        assert copy.layers[0].kl_scale == 0.25
        found = bl.predict(copy, X, num_samples=3, seed=1, verbose=0)
        np.testing.assert_allclose(found.samples, expected.samples, atol=1e-6)
        with bl.weights(copy, seed=3):
            outputs = array(copy(X))
        with bl.weights(model, seed=3):
            np.testing.assert_allclose(array(model(X)), outputs, atol=1e-6)
    config = json.loads(json.dumps(model.layers[0].get_config()))
    assert type(model.layers[0]).from_config(config).get_config() == config


@every_layer
def test_it_computes_in_mixed_precision(cls, name):
    layer = cls(dtype="mixed_float16")
    outputs = layer(X)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float16"
    assert np.all(np.isfinite(array(outputs)))
    dtypes = {keras.backend.standardize_dtype(w.dtype) for w in layer.weights}
    assert dtypes == {"float32"}


@pytest.mark.parametrize("cls", [MyDenseFlipout, MyDenseLocal])
def test_an_estimator_gives_a_layer_of_a_user_independent_examples(cls):
    layer = cls(1, seed=1)
    layer.activation = keras.activations.linear
    layer.build((None, 3))
    layer.kernel.assign(np.zeros((3, 1)))
    layer.bias.assign([0.5])
    set_stddev(layer, 1.0)
    x = np.tile([[1.0, 2.0, 2.0]], (20_000, 1)).astype("float32")
    outputs = array(layer(x)).ravel()
    if cls is MyDenseFlipout:
        # Equal rows see one draw of the noise through signs of their own: |deviation|
        # takes on 4 values, one for each choice of signs up to a common one.
        # (Rounding may tell equal ones apart; signs shared by the batch leave one.)
        assert 4 <= len(np.unique(np.round(np.abs(outputs - 0.5), 4))) <= 8
        many = [array(layer(x[:1]))[0, 0] for _ in range(2000)]
        assert_mean(np.array(many), 0.5, detect=0.6)
        assert_variance(np.array(many), 9.0, detect=3.0)
    else:
        assert_mean(outputs, 0.5, detect=0.2)
        assert_variance(outputs, 9.0, detect=0.8)


def test_a_base_that_stands_behind_the_layer_is_refused():
    with pytest.raises(TypeError, match="before the Keras layer"):
        type("Wrong", (MyDense, bl.layers.Flipout), {})


def test_a_weight_without_an_attribute_is_refused():
    class Lost(bl.layers.RandomWeights, keras.Layer):
        def build(self, input_shape):
            self.add_weight((3,), initializer="trainable_normal", name="lost")

        def call(self, inputs):
            return inputs

    with pytest.raises(ValueError, match="Assign what `add_weight` returns"):
        Lost()(X)


def test_a_random_weight_has_the_default_prior_unless_told_otherwise():
    class Two(bl.layers.RandomWeights, keras.Layer):
        def build(self, input_shape):
            self.first = self.add_weight((), "trainable_normal", name="first")
            self.second = self.add_weight(
                (), "trainable_normal", name="second", regularizer=None
            )

        def call(self, inputs):
            return inputs + self.first + self.second

    layer = Two()
    layer(X)
    assert len(layer.losses) == 1
    assert layer.random_weights["second"].prior is None


def test_a_subclass_that_calls_its_parent_draws_once():
    class Doubled(Affine):
        def call(self, inputs, training=None):
            return super().call(inputs) + super().call(inputs)

    layer = Doubled(seed=1)
    layer.build((None, 3))
    set_stddev(layer, 1.0)
    with bl.tape() as tape:
        outputs = array(layer(X))
    (factor,) = tape.values()
    np.testing.assert_allclose(outputs, 2 * X * array(factor), rtol=1e-5)


def test_a_condition_on_something_else_leaves_the_estimator():
    layer = bl.layers.DenseFlipout(1, use_bias=False, seed=1)
    layer.build((None, 1))
    layer.kernel.assign([[0.0]])
    x = np.ones((64, 1), "float32")
    with bl.condition(unrelated=1.0):
        outputs = array(layer(x)).ravel()
    # One draw for all would have one sign; that all of 64 fair signs are equal has
    # a probability of 1e-19.
    assert set(np.sign(outputs)) == {-1.0, 1.0}
    with bl.tape():
        assert len(np.unique(array(layer(x)))) == 1
    with bl.tape(), bl.block():
        assert len(np.unique(np.sign(array(layer(x))))) == 2


def test_a_regularizer_of_none_in_the_code_of_a_user_is_no_word_against_the_prior():
    class Passes(keras.Layer):
        def build(self, input_shape):
            self.kernel = self.add_weight((3, 2), name="kernel", regularizer=None)

        def call(self, inputs):
            return inputs @ self.kernel

    class PassesFlipout(bl.layers.Flipout, Passes):
        pass

    layer = PassesFlipout()
    layer(X)
    assert len(layer.losses) == 1
    assert type(layer.random_weights["kernel"].prior).__name__ == "Normal"


def test_layers_draw_held_weights_also_in_the_call_that_builds_them():
    first, second = (
        keras.Sequential([MyDenseFlipout(2), MyDenseReparameterization(2)])
        for _ in range(2)
    )
    with bl.weights(first, seed=1):
        outputs = array(first(X))
        np.testing.assert_allclose(array(first(X)), outputs, atol=1e-6)
    second.build((None, 3))
    second.set_weights(first.get_weights())
    with bl.weights(second, seed=1):
        np.testing.assert_allclose(array(second(X)), outputs, atol=1e-6)
