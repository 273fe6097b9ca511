"""What is the same for all draws is computed once."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers.prediction.trunk import is_random, split
from tests.layers.outputs.table import array

X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


class Count(keras.Layer):
    """Hands on its inputs, and counts how often Python runs it."""

    calls = 0

    def call(self, inputs):
        self.calls += 1
        return inputs


class Noisy(keras.Layer):
    """A layer that a user wrote, random in inference as well."""

    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, inputs):
        noise = keras.random.normal((3,), seed=self.seed_generator)
        return inputs + noise


def flipout(units=2, **kwargs):
    return bl.layers.DenseFlipout(units, **kwargs)


def assert_same_function(model, trunk, rest, x):
    """The parts, one after another, are the model; with the weights at their mean."""
    with bl.weights(model, "mean"):
        expected, seen = model(x), rest(trunk(x))
    keras.tree.assert_same_structure(expected, seen)
    for old, new in zip(
        keras.tree.flatten(expected), keras.tree.flatten(seen), strict=True
    ):
        np.testing.assert_allclose(array(new), array(old), atol=1e-6)


def names(model):
    return {layer.name for layer in model.layers}


def predict(model, x=X, num_samples=3, **kwargs):
    return bl.predict(
        model, x, num_samples=num_samples, batch_size=2, seed=1, verbose=0, **kwargs
    )


@pytest.mark.skipif(
    keras.backend.backend() != "torch",
    reason="Compiled functions run Python once, however often they are called.",
)
def test_the_trunk_runs_once_for_each_batch_and_the_rest_for_each_draw():
    trunk, rest = Count(), Count()
    model = keras.Sequential([keras.Input((3,)), trunk, flipout(), rest])
    predict(model)  # The first time shapes are looked at.
    for num_samples in (2, 9, 40):
        before = trunk.calls, rest.calls
        predict(model, num_samples=num_samples)
        assert trunk.calls - before[0] == 2
        assert rest.calls - before[1] == 2 * num_samples


def test_a_sequential_model_is_split_before_its_first_random_layer():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="tanh", name="a"),
            keras.layers.Dropout(0.5, name="b"),
            flipout(name="c"),
            keras.layers.Dense(2, name="d"),
        ]
    )
    trunk, rest = split(model)
    assert {"a", "b"} <= names(trunk) and {"c", "d"} <= names(rest.model)
    assert not {"c", "d"} & names(trunk) and not {"a", "b"} & names(rest.model)
    assert_same_function(model, trunk, rest, X)
    # Dropout that runs as in training is random, and so is all that follows.
    trunk, rest = split(model, (keras.layers.Dropout,))
    assert "a" in names(trunk) and {"b", "c", "d"} <= names(rest.model)


def test_branches_around_a_random_layer_are_kept():
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, activation="tanh", name="hidden")(inputs)
    side = keras.layers.Dense(2, name="side")(inputs)
    random = flipout(name="random")(hidden)
    outputs = keras.layers.Concatenate()([keras.layers.Add()([random, side]), inputs])
    model = keras.Model(inputs, outputs)
    trunk, rest = split(model)
    assert {"hidden", "side"} <= names(trunk)
    assert not {"hidden", "side"} & names(rest.model)
    assert_same_function(model, trunk, rest, X)
    # The last columns are the inputs, the first are random.
    prediction = predict(model)
    np.testing.assert_allclose(prediction.samples[:, :, 2:], [X] * 3, atol=1e-6)
    np.testing.assert_allclose(prediction.epistemic[:, 2:], np.zeros((4, 3)), atol=1e-9)
    assert np.all(prediction.epistemic[:, :2] > 0)


def test_outputs_that_are_not_random_are_handed_on():
    inputs = {name: keras.Input((3,), name=name) for name in ("a", "b")}
    dense = keras.layers.Dense(4)
    hidden = dense(inputs["a"])
    random = flipout()(hidden)
    model = keras.Model(
        inputs,
        {"hidden": hidden, "random": random, "b": keras.layers.Rescaling(2.0)(hidden)},
    )
    trunk, rest = split(model)
    x = {"a": X, "b": X}
    assert_same_function(model, trunk, rest, x)
    prediction = predict(model, x)
    expected = X @ array(dense.kernel)
    for name, factor in (("hidden", 1.0), ("b", 2.0)):
        np.testing.assert_allclose(prediction[name].mean, factor * expected, atol=1e-5)
        np.testing.assert_allclose(prediction[name].epistemic, 0.0, atol=1e-9)
    assert np.all(prediction["random"].epistemic > 0)


def test_an_input_can_be_an_output():
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4)(inputs)
    model = keras.Model(inputs, [inputs, flipout()(hidden)])
    prediction, _ = predict(model)
    np.testing.assert_allclose(prediction.samples, [X] * 3, atol=1e-6)


def test_a_layer_on_both_sides_is_run_for_each_draw():
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(3, activation="tanh", name="hidden")(inputs)
    shared = keras.layers.Dense(3, activation="tanh", name="shared")
    model = keras.Model(inputs, shared(flipout(3)(shared(hidden))))
    trunk, rest = split(model)
    assert "hidden" in names(trunk) and "shared" not in names(trunk)
    assert "shared" in names(rest.model)
    assert_same_function(model, trunk, rest, X)


@pytest.mark.parametrize("branch", [False, True], ids=["chain", "branch"])
def test_the_graph_of_the_model_is_left_as_it_was(branch):
    # Nodes that are left behind stay for as long as the layers do.
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2)(flipout()(keras.layers.Dense(4)(inputs)))
    if branch:
        outputs = keras.layers.Concatenate()([outputs, inputs])
    model = keras.Model(inputs, outputs)

    def nodes():
        return [
            (len(layer._inbound_nodes), len(layer._outbound_nodes))
            for layer in model.layers
        ]

    before, history = nodes(), inputs._keras_history
    for _ in range(2):
        split(model)
    assert nodes() == before
    assert inputs._keras_history == history


def test_a_model_can_be_saved_after_it_was_split(tmp_path):
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4)(inputs)
    model = keras.Model(inputs, [keras.layers.Dense(2)(flipout()(hidden)), hidden])
    split(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert names(loaded) == names(model)
    assert [len(layer._inbound_nodes) for layer in loaded.layers] == [1] * 4


@pytest.mark.parametrize(
    "kind", ["subclassed", "overridden", "first", "nothing", "mask", "unbuilt"]
)
def test_what_cannot_be_split_is_left_as_it_is(kind):
    class Subclassed(keras.Model):
        def call(self, inputs):
            return inputs

    class Overridden(keras.Sequential):
        def call(self, inputs, training=None, mask=None):
            return 2.0 * super().call(inputs, training=training, mask=mask)

    tokens = keras.Input((4,), dtype="int32")
    embedded = keras.layers.Embedding(5, 3, mask_zero=True)(tokens)
    model = {
        "subclassed": Subclassed,
        "overridden": lambda: Overridden(
            [keras.Input((3,)), keras.layers.Dense(2), flipout()]
        ),
        "first": lambda: keras.Sequential([keras.Input((3,)), flipout(), flipout()]),
        "nothing": lambda: keras.Sequential([keras.Input((3,)), flipout()]),
        "mask": lambda: keras.Model(tokens, bl.layers.LSTMFlipout(2)(embedded)),
        "unbuilt": lambda: keras.Sequential([keras.layers.Dense(2), flipout()]),
    }[kind]()
    assert split(model) == (None, model)


def test_masks_reach_the_random_layers():
    # Masked steps do not count: what stands before a recurrent layer sees to that.
    tokens = keras.Input((4,), dtype="int32")
    embedding = keras.layers.Embedding(5, 3, mask_zero=True)
    model = keras.Model(tokens, bl.layers.GRUReparameterization(2)(embedding(tokens)))
    padded = np.array([[1, 2, 0, 0], [1, 2, 0, 0]], "int32")
    before = predict(model, padded).samples
    weights = array(embedding.embeddings)
    weights[0] = 100.0
    embedding.embeddings.assign(weights)
    np.testing.assert_allclose(predict(model, padded).samples, before, atol=1e-5)


def test_layers_of_users_with_a_seed_are_random():
    assert is_random(Noisy())
    assert is_random(keras.Sequential([keras.layers.Dense(2), Noisy()]))
    assert is_random(bl.layers.Normal(1))
    assert is_random(keras.layers.Bidirectional(bl.layers.LSTMFlipout(2)))
    assert not is_random(keras.layers.Dropout(0.5))
    assert is_random(keras.layers.Dropout(0.5), (keras.layers.Dropout,))
    assert not is_random(Count())
    model = keras.Sequential([keras.Input((3,)), Noisy()])
    prediction = predict(model, num_samples=5)
    noise = prediction.samples - X
    np.testing.assert_allclose(noise[:, ::2], noise[:, 1::2], atol=1e-5)
    # Each of 5 draws of 2 batches has noise of its own: three numbers agree to 1e-3
    # for any of 45 pairs with a probability below 1e-6.
    noise = noise[:, ::2].reshape(10, 3)
    distances = np.abs(noise[:, None] - noise).max(axis=-1) + np.eye(10)
    assert distances.min() > 1e-3


def test_a_model_in_a_model_is_split_at_its_door():
    inner = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4), flipout()], name="inner"
    )
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), inner])
    trunk, rest = split(model)
    assert "inner" in names(rest.model) and "inner" not in names(trunk)
    assert_same_function(model, trunk, rest, X)
