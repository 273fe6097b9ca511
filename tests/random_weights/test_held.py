"""Weights held over calls: the model is one function of its inputs."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from tests.layers.weights.table import (
    ROWS,
    array,
    compiled,
    keras_layer,
    make_built,
    random_weights,
    set_stddev,
)
from tests.statistics import assert_mean, assert_variance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3)).astype("float32")
Y = RNG.normal(size=(5, 2)).astype("float32")
ESTIMATORS = ("Flipout", "Reparameterization", "LocalReparameterization")


def fixed_mean(seed=0):
    """A posterior whose means are the same in each run of the tests."""
    mean = keras.initializers.RandomNormal(stddev=0.5, seed=seed)
    return bl.initializers.TrainableNormal(mean_initializer=mean)


def make_model(is_built=True):
    """One layer by each estimator; draws depend on the names."""
    layers = [
        getattr(bl.layers, f"Dense{estimator}")(
            2,
            activation="tanh",
            kernel_initializer=fixed_mean(seed),
            bias_initializer="trainable_normal",
            kl_scale=0.0,
            seed=seed,
            name=estimator,
        )
        for seed, estimator in enumerate(ESTIMATORS)
    ]
    model = keras.Sequential([keras.Input((3,)), *layers] if is_built else layers)
    model.compile(keras.optimizers.SGD(0.0), "mse")
    return model


def linear(units=2):
    """A model that is linear in its weights, whose noise is larger than its means."""
    layer = bl.layers.DenseFlipout(
        units,
        use_bias=False,
        kernel_initializer=fixed_mean(),
        kl_scale=0.0,
        seed=1,
        name="linear",
    )
    model = keras.Sequential([keras.Input((3,)), layer], name="model")
    model.compile(keras.optimizers.SGD(0.0), "mse")
    set_stddev(model, 2.0)
    return model


def at_the_mean(model, x):
    """The outputs of `make_model` with the means as weights, by NumPy."""
    for layer in model.layers:
        x = np.tanh(x @ array(layer.kernel) + array(layer.bias))
    return x


def predict(model, x=X, **kwargs):
    return model.predict(x, verbose=0, **kwargs)


@pytest.fixture(scope="module")
def model():
    return make_model()


# Means.


def test_at_the_mean_it_is_the_network_with_the_means_as_weights(model):
    expected = at_the_mean(model, X)
    with bl.weights(model, "mean"):
        np.testing.assert_allclose(array(model(X)), expected, atol=1e-5)
        np.testing.assert_allclose(predict(model), expected, atol=1e-5)
        loss = model.evaluate(X, Y, batch_size=2, verbose=0)
    np.testing.assert_allclose(loss, np.mean((expected - Y) ** 2), rtol=1e-4)


def test_a_distribution_without_a_mean_is_held_at_its_mode():
    layer = bl.layers.DenseReparameterization(
        2, kernel_initializer="trainable_cauchy", kernel_regularizer=None
    )
    layer.build((None, 3))
    mode = array(layer.random_weights["kernel"].posterior.mode())
    with bl.weights(layer, "mean"):
        np.testing.assert_allclose(array(layer(X)), X @ mode, atol=1e-6)


# Draws.


def test_a_seed_makes_the_model_one_function_of_its_inputs(model):
    with bl.weights(model, seed=3):
        outputs = array(model(X))
        np.testing.assert_allclose(array(model(X[::-1]))[::-1], outputs, atol=1e-6)
        np.testing.assert_allclose(array(model(X[:1])), outputs[:1], atol=1e-6)
        np.testing.assert_allclose(predict(model), outputs, atol=1e-5)
        np.testing.assert_allclose(predict(model, batch_size=2), outputs, atol=1e-5)
        loss = model.evaluate(X, Y, batch_size=2, verbose=0)
    np.testing.assert_allclose(loss, np.mean((outputs - Y) ** 2), rtol=1e-4)
    # The same seed, in another block.
    with bl.weights(model, seed=3):
        np.testing.assert_allclose(array(model(X)), outputs, atol=1e-6)


def test_a_held_function_is_the_network_with_the_weights_on_the_tape(model):
    with bl.weights(model, seed=4), bl.tape() as tape:
        outputs = array(model(X))
    x = X
    for layer in model.layers:
        kernel, bias = (
            array(tape.of_sources[layer.random_weights[name]])
            for name in ("kernel", "bias")
        )
        x = np.tanh(x @ kernel + bias)
    np.testing.assert_allclose(outputs, x, atol=1e-5)


def test_functions_of_many_seeds_are_distributed_as_the_posterior_says():
    columns, count = 40, 200
    model = linear(columns)
    x = X[:1]
    functions = []
    for seed in range(count):
        with bl.weights(model, seed=seed):
            functions.append(array(model(x))[0])
    mean = x[0] @ array(model.layers[0].kernel)
    variance = 4.0 * np.sum(x[0] ** 2)
    noise = (np.array(functions) - mean) / np.sqrt(variance)
    # 8000 independent numbers: standard errors of 1.1% for the mean, 1.6% for the
    # variance. The sums over columns see what seeds would share.
    assert_mean(noise.ravel(), 0.0, detect=0.1)
    assert_variance(noise.ravel(), 1.0, detect=0.15)
    assert_variance(noise.sum(axis=1) / np.sqrt(columns), 1.0, detect=1.5)
    # And those over seeds what columns would.
    assert_mean(noise.sum(axis=0) / np.sqrt(count), 0.0, detect=2.0)


def test_a_held_draw_follows_its_distribution():
    # The noise is held, not the weight: training moves the function.
    model = linear()
    (layer,) = model.layers
    with bl.weights(model, seed=1):
        eager, compiled = array(model(X)), predict(model)
        mean = array(layer.kernel)
        layer.kernel.assign(mean + 1.0)
        shift = np.sum(X, axis=1, keepdims=True)
        np.testing.assert_allclose(array(model(X)), eager + shift, atol=1e-5)
        np.testing.assert_allclose(predict(model), compiled + shift, atol=1e-5)
        layer.kernel.assign(mean)
        set_stddev(model, 4.0)
        noise = eager - X @ mean
        np.testing.assert_allclose(array(model(X)), eager + noise, atol=1e-4)


def test_weights_of_one_path_are_drawn_apart():
    # The members of an ensemble of clones have layers of equal names and paths.
    inputs = keras.Input((3,))
    layer = bl.layers.DenseReparameterization(30, use_bias=False, name="head")
    first = keras.Model(inputs, layer(inputs))
    second = keras.models.clone_model(first)
    first.name, second.name = "first", "second"
    for member in (first, second):
        member.layers[-1].kernel.assign(np.zeros((3, 30)))
    model = keras.Model(inputs, [first(inputs), second(inputs)])
    with bl.weights(model, seed=2):
        outputs = [array(y) for y in model(np.eye(3, dtype="float32"))]
    # Independent draws of 90 numbers: a correlation beyond 0.53 has 7e-8.
    correlation = np.corrcoef(outputs[0].ravel(), outputs[1].ravel())[0, 1]
    assert abs(correlation) < 0.53


# What is compiled.


def eager_loss(model):
    return np.mean((array(model(X)) - Y) ** 2)


LOSSES = {
    "eager": eager_loss,
    "predict": lambda model: np.mean((predict(model) - Y) ** 2),
    "evaluate": lambda model: model.evaluate(X, Y, verbose=0),
    "fit": lambda model: model.fit(X, Y, verbose=0).history["loss"][0],
}


@pytest.mark.parametrize("order", ["out in out", "in out in"])
@pytest.mark.parametrize("call", LOSSES)
def test_calls_are_held_in_a_block_and_drawn_outside_of_it(call, order):
    model = linear()
    expected = np.mean((X @ array(model.layers[0].kernel) - Y) ** 2)
    drawn = []
    for place in order.split():
        if place == "in":
            with bl.weights(model, "mean"):
                held = [LOSSES[call](model) for _ in range(2)]
            np.testing.assert_allclose(held, [expected] * 2, rtol=1e-4)
        else:
            drawn += [LOSSES[call](model) for _ in range(2)]
    # The loss of a draw is a smooth function of six numbers with a spread of about 20:
    # it comes within 1e-4 of another, or of that at the mean, with a probability of
    # about 1e-5 for each of at most ten pairs, and does so for two with 1e-8.
    near = np.abs(np.subtract.outer(drawn, [*drawn, expected])) < 1e-4
    assert near.sum() - len(drawn) <= 2


def test_all_calls_share_one_function(model):
    losses = []
    for seed in (5, 6):
        with bl.weights(model, seed=seed):
            held = [call(model) for call in LOSSES.values()]
        np.testing.assert_allclose(held, [held[0]] * 4, rtol=1e-4)
        losses.append(held[0])
    # Names and seeds are fixed: these two functions are not alike, in any run.
    assert abs(losses[0] / losses[1] - 1.0) > 1e-3


def test_blocks_give_back_what_was_compiled(model):
    predict(model)
    model.evaluate(X, Y, verbose=0)
    names = ("train_function", "test_function", "predict_function")
    before = [getattr(model, name) for name in names]
    with bl.weights(model, "mean"):
        predict(model)
        assert model.predict_function is not before[2]
    assert [getattr(model, name) for name in names] == before
    with pytest.raises(RuntimeError, match="inside"), bl.weights(model, seed=1):
        predict(model)
        raise RuntimeError("inside")
    assert [getattr(model, name) for name in names] == before
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    predict(plain)
    function = plain.predict_function
    with pytest.raises(ValueError, match="none"), bl.weights(plain, "mean"):
        pass
    assert plain.predict_function is function


# Kinds of models.


@pytest.mark.parametrize(
    "name", ["LSTMFlipout", "GRUReparameterization", "MultiHeadAttentionFlipout"]
)
def test_recurrent_layers_and_attention_are_held(name):
    row, layer = ROWS[name], make_built(name)
    reference = keras_layer(layer)
    row.build(reference)
    names = {w.name for w in reference.weights}
    reference.set_weights([array(w) for w in layer.weights if w.name in names])
    model = compiled(layer, row)
    x = row.inputs(batch=4)
    with bl.weights(model, "mean"):
        np.testing.assert_allclose(
            predict(model, x), compiled(reference, row).predict(x, verbose=0), atol=1e-5
        )
    with bl.weights(model, seed=1):
        outputs = predict(model, x)
        np.testing.assert_allclose(predict(model, x[::-1])[::-1], outputs, atol=1e-5)
        np.testing.assert_allclose(predict(model, x, batch_size=1), outputs, atol=1e-5)
        np.testing.assert_allclose(array(model(x)), outputs, atol=1e-5)
    assert len(random_weights(model)) == len(row.kernels)


def test_a_model_may_be_built_in_the_block():
    model = make_model(is_built=False)
    with bl.weights(model, seed=2):
        outputs = array(model(X))
        np.testing.assert_allclose(predict(model, batch_size=2), outputs, atol=1e-5)
    with bl.weights(model, seed=2):
        np.testing.assert_allclose(array(model(X)), outputs, atol=1e-6)


def test_a_layer_can_be_held_alone():
    model = linear()
    (layer,) = model.layers
    with bl.weights(layer, "mean"):
        np.testing.assert_allclose(array(layer(X)), X @ array(layer.kernel), atol=1e-5)
    with bl.weights(layer, seed=1):
        np.testing.assert_allclose(
            array(layer(X[::-1]))[::-1], array(layer(X)), atol=1e-5
        )


def test_only_the_model_that_is_named_is_held():
    first, second = make_model(), linear(30)
    with bl.weights(first, "mean"):
        other = array(second(X)) - X @ array(second.layers[0].kernel)
    stddev = 2.0 * np.sqrt(np.sum(X**2, axis=1, keepdims=True))
    # Each row has a draw of 30 numbers: their squares add up to less than 4 with a
    # probability of 1e-9.
    assert stats.chi2(30).cdf(4.0) < 1e-8
    assert np.all(np.sum((other / stddev) ** 2, axis=1) > 4.0)


def test_output_layers_keep_the_distribution_of_the_held_function():
    model = keras.Sequential(
        [keras.Input((3,)), bl.layers.DenseFlipout(4), bl.layers.Normal(1)]
    )
    with bl.weights(model, "mean"):
        distributions = [model(X).distribution for _ in range(2)]
    flipout, head = model.layers
    raw = (X @ array(flipout.kernel)) @ array(head.projection.kernel)
    for distribution in distributions:
        np.testing.assert_allclose(array(distribution.mean()), raw[:, :1], atol=1e-5)
        np.testing.assert_allclose(
            array(distribution.stddev()), np.logaddexp(0, raw[:, 1:]) + 1e-5, rtol=1e-4
        )


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((), {}), (("mean",), {"seed": 1}), (("mode",), {}), ((), {"value": None})],
)
def test_either_the_mean_or_a_seed_is_asked_for(model, arguments, keywords):
    with pytest.raises(ValueError, match=r'"mean".*seed=7.*Received: value=.*seed='):
        bl.weights(model, *arguments, **keywords)


def test_a_model_without_random_weights_is_refused():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with (
        pytest.raises(ValueError, match="distributions over their weights"),
        bl.weights(model, "mean"),
    ):
        model(ops.ones((1, 3)))
