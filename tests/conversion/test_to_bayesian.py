"""A trained model becomes the mean of a Bayesian one."""

import keras
import numpy as np
import pytest
from keras import layers

import bayesian_layers as bl
from bayesian_layers.layers import weights as weight_layers
from bayesian_layers.layers.weights.twins import has_twin
from tests.conversion.models import KINDS, X, inputs, sequential, subclassed
from tests.layers.weights.table import (
    FAMILIES,
    array,
    compiled,
    random_weights,
)

every_kind = pytest.mark.parametrize("kind", KINDS)
# The weight of the user's own layer is a point, and told of.
OWN = "block(_\\d+)?$"


def numbers(outputs):
    return [array(output) for output in keras.tree.flatten(outputs)]


def assert_same_function(model, x, expected, **tolerance):
    with bl.weights(model, "mean"):
        outputs = numbers(model(x))
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, **{"atol": 1e-6, **tolerance})


@every_kind
def test_at_mean_weights_it_is_the_original_which_is_not_changed(kind):
    net = KINDS[kind]()
    x = inputs(net)
    expected = numbers(net(x))
    before = net.get_weights()
    classes = [type(layer) for layer in net._flatten_layers()]
    model = bl.to_bayesian(net, exclude=OWN, dataset_size=6)
    assert_same_function(model, x, expected)
    # Nothing is shared: the copy is trained, the original stays.
    assert not model.compiled
    model.compile("adam", "mse")
    model.fit(x, keras.tree.map_structure(lambda y: 0.0 * array(y), net(x)), verbose=0)
    assert [type(layer) for layer in net._flatten_layers()] == classes
    for now, then in zip(net.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)
    for now, then in zip(numbers(net(x)), expected, strict=True):
        np.testing.assert_array_equal(now, then)
    assert net.compiled


@every_kind
def test_every_dense_layer_is_random_and_counts_once(kind):
    net = KINDS[kind]()
    denses = [x for x in net._flatten_layers() if type(x) is layers.Dense]
    model = bl.to_bayesian(net, exclude=OWN)
    found = [x for x in model._flatten_layers() if type(x) is bl.layers.DenseFlipout]
    assert {x.name for x in found} == {x.name for x in denses}
    assert len(model.losses) == len(denses)
    # Biases, normalizations and all else are points.
    assert len(model.weights) == len(net.weights) + len(denses)


@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_a_file_keeps_it(kind, tmp_path):
    net = KINDS[kind]()
    x = inputs(net)
    model = bl.to_bayesian(net, prior="moped")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_function(loaded, x, numbers(net(x)))
    np.testing.assert_allclose(
        float(array(bl.total_kl(loaded))), float(array(bl.total_kl(model))), rtol=1e-6
    )


def test_a_converted_subclass_is_saved_by_its_weights(tmp_path):
    net = subclassed()
    model = bl.to_bayesian(net, exclude=OWN, posterior_scale=0.2)
    with pytest.raises(NotImplementedError, match="save_weights"):
        model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    other = bl.to_bayesian(net, exclude=OWN)
    other.load_weights(tmp_path / "model.weights.h5")
    for now, then in zip(other.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_keeps_its_function(name):
    cls = getattr(weight_layers, f"{name}Reparameterization").keras_counterpart
    row = FAMILIES[name]
    net = compiled(cls(**row.arguments), row)
    estimator = "flipout"
    if not has_twin(bl.layers.Flipout, cls):
        with pytest.raises(ValueError, match="there is no Flipout of it"):
            bl.to_bayesian(net, estimator)
        estimator = "reparameterization"
    model = bl.to_bayesian(net, estimator, seed=1)
    x = row.inputs()
    assert_same_function(model, x, numbers(net(x)))
    weights = random_weights(model)
    assert len(weights) == len(row.kernels)
    for weight in weights:
        mean = array(weight.location)
        size = np.sqrt(np.mean(mean**2))
        expected = 0.1 * np.maximum(np.abs(mean), max(size / 10, 1e-3))
        np.testing.assert_allclose(
            array(weight.posterior.stddev()), expected, rtol=1e-4
        )


def test_masks_of_dropout_have_no_weights_to_keep():
    net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model = bl.to_bayesian(net, "concrete_dropout")
    assert isinstance(model.layers[0], bl.layers.DenseConcreteDropout)
    x = np.ones((4, 3), "float32")
    assert_same_function(model, x, numbers(net(x)), atol=1e-5)


@pytest.mark.parametrize("estimator", ["variational_dropout", bl.layers.Flipout])
def test_an_estimator_is_known_by_name_and_as_it_is(estimator):
    model = bl.to_bayesian(sequential(), estimator, delta=0.3)
    weight = random_weights(model)[0]
    mean = array(weight.location)
    relative = array(weight.posterior.stddev()) / np.abs(mean)
    assert np.median(relative) == pytest.approx(0.3, rel=1e-3)


def test_a_list_of_estimators_is_an_order_of_preference():
    net = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.Embedding(5, 2),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    with pytest.warns(UserWarning, match=r"embedding.*\(Embedding\): there is no"):
        model = bl.to_bayesian(net)
    assert type(model.layers[0]) is layers.Embedding
    model = bl.to_bayesian(net, ["flipout", "reparameterization"])
    assert [type(x).__name__ for x in model.layers] == [
        "EmbeddingReparameterization",
        "Flatten",
        "DenseFlipout",
    ]
    bl.to_bayesian(net, exclude=layers.Embedding)  # A warning would be an error.


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"include": "last"}, ["second"]),
        ({"include": "fir"}, ["first"]),
        ({"include": layers.Dense}, ["first", "second"]),
        ({"include": lambda layer: layer.name == "first"}, ["first"]),
        ({"include": ["^first$", "last"]}, ["first", "second"]),
        ({"exclude": "last"}, ["first"]),
        ({"include": "last", "exclude": "second"}, ["first"]),
    ],
)
def test_layers_are_chosen(arguments, expected):
    model = bl.to_bayesian(sequential(), **arguments)
    assert [x.name for x in model.layers if hasattr(x, "random_weights")] == expected


def test_a_rule_may_be_a_layer():
    net = sequential()
    model = bl.to_bayesian(net, include=net.layers[0])
    assert isinstance(model.layers[0], bl.layers.DenseFlipout)
    assert type(model.layers[-1]) is layers.Dense


def test_the_prior_of_moped_is_around_the_trained_weights():
    net = sequential()
    model = bl.to_bayesian(net, prior="moped", posterior_scale=0.5)
    for i in (0, 3):
        layer, old = model.layers[i], net.layers[i]
        prior = layer.random_weights["kernel"].prior
        np.testing.assert_array_equal(array(prior.loc), array(old.kernel))
        np.testing.assert_array_equal(array(prior.scale), 1.0)
        # KL(N(m, s) || N(m, 1)) of each element.
        kl = np.log(2.0) + 0.125 - 0.5
        np.testing.assert_allclose(
            float(array(layer.random_weights["kernel"].kl())),
            kl * old.kernel.shape[0] * old.kernel.shape[1],
            rtol=1e-5,
        )


def test_a_relative_prior_is_as_wide_as_the_weights_are_large():
    prior = bl.regularizers.AnchoredNormalKLDivergence(0.05, relative_stddev=0.5)
    net = sequential()
    model = bl.to_bayesian(net, prior=prior)
    scale = array(model.layers[0].random_weights["kernel"].prior.scale)
    expected = np.maximum(0.05, 0.5 * np.abs(array(net.layers[0].kernel)))
    np.testing.assert_allclose(scale, expected, rtol=1e-6)


def test_another_posterior_starts_around_the_weights():
    net = sequential()
    posterior = bl.initializers.TrainableLowRankNormal(rank=2)
    model = bl.to_bayesian(net, "reparameterization", posterior=posterior)
    weight = model.layers[0].random_weights["kernel"]
    assert "factor" in weight.variables
    assert_same_function(model, X, numbers(net(X)))


def test_the_size_of_the_data_scales_the_divergence():
    model = bl.to_bayesian(sequential(), dataset_size=50)
    unscaled = float(array(bl.total_kl(model)))
    assert float(array(sum(model.losses))) == pytest.approx(unscaled / 50, rel=1e-5)


def test_a_seed_gives_equal_draws_and_layers_of_their_own():
    net = sequential()
    one, two = (bl.to_bayesian(net, seed=3) for _ in range(2))
    np.testing.assert_array_equal(array(one(X)), array(two(X)))
    assert one.layers[0].seed != one.layers[3].seed


def test_frozen_layers_stay_frozen_and_have_no_divergence_in_the_loss():
    net = sequential()
    net.layers[0].trainable = False
    model = bl.to_bayesian(net)
    assert not model.layers[0].trainable
    assert len(model.losses) == 1
    frozen = sequential()
    frozen.trainable = False
    assert bl.to_bayesian(frozen).losses == []


@pytest.mark.parametrize("wrapper", [layers.Bidirectional, layers.RNN])
def test_the_layers_in_a_wrapper_are_converted_and_a_file_keeps_them(wrapper, tmp_path):
    inner = layers.LSTM(2) if wrapper is layers.Bidirectional else layers.GRUCell(2)
    net = keras.Sequential([keras.Input((4, 3)), wrapper(inner), layers.Dense(1)])
    model = bl.to_bayesian(net)
    assert len(random_weights(model)) == (7 if wrapper is layers.Bidirectional else 4)
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    assert_same_function(model, x, numbers(net(x)))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_function(loaded, x, numbers(net(x)))


def test_what_cannot_be_converted_is_told():
    net = keras.Sequential(
        [
            keras.Input((4, 3)),
            layers.TimeDistributed(layers.Dense(2)),
            layers.Dense(2),
            bl.layers.Normal(1),
        ]
    )
    net.layers[1].enable_lora(1)
    with pytest.raises(ValueError) as error:
        bl.to_bayesian(net)
    message = str(error.value)
    assert "(TimeDistributed): it would draw new weights for each step" in message
    assert "(Dense): it is quantized, or has LoRA matrices" in message
    assert "(Normal): a layer of this library" in message


def test_a_head_stays_the_head():
    net = keras.Sequential(
        [keras.Input((3,)), layers.Dense(2), bl.layers.Normal()],
    )
    model = bl.to_bayesian(net, include="last")
    assert isinstance(model.layers[0], bl.layers.DenseFlipout)
    with bl.weights(model, "mean"):
        ours = model(X)
    np.testing.assert_allclose(array(ours.mean()), array(net(X).mean()), atol=1e-6)


def test_a_layer_of_its_own_is_converted_too():
    layer = layers.Dense(2)
    layer.build((None, 3))
    assert type(bl.to_bayesian(layer)) is bl.layers.DenseFlipout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": "flop"}, "`estimator` should be one of"),
        ({"posterior_scale": -1.0}, "`posterior_scale` should be"),
        ({"posterior_scale": "map"}, "`posterior_scale` should be"),
        ({"delta": 0.0}, "`delta` should be positive"),
        ({"delta": 0.1, "posterior_scale": 0.1}, "`delta` belongs to"),
        ({"include": 3}, "`include` should be"),
        ({"include": "nothing"}, "No layer"),
        (
            {"posterior": "trainable_normal", "posterior_scale": 0.1},
            "starts with its own scale",
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        bl.to_bayesian(sequential(), **arguments)


class Twice(keras.Sequential):
    """A graph that is not what is called."""

    def call(self, x):
        """Doubles the outputs."""
        return 2.0 * super().call(x)


def test_a_graph_that_is_not_what_is_called_is_refused():
    with pytest.raises(ValueError, match="with a `call` of its own"):
        bl.to_bayesian(Twice([keras.Input((3,)), layers.Dense(2)]))


def test_a_model_without_weights_is_refused():
    with pytest.raises(ValueError, match="that is built"):
        bl.to_bayesian(keras.Sequential([layers.Dense(2)]))


def images(shape):
    return np.random.default_rng(0).uniform(0.0, 255.0, (1, *shape)).astype("float32")


def mobilenet(shape):
    return keras.applications.MobileNetV3Small(
        input_shape=shape, alpha=0.35, minimalistic=True, weights=None, classes=3
    )


@pytest.mark.slow
def test_mobilenet_is_converted():
    net = mobilenet((32, 32, 3))
    model = bl.to_bayesian(net, "reparameterization", posterior_scale=0.1)
    assert [x.name for x in model.layers] == [x.name for x in net.layers]
    for ours, theirs in zip(model.layers, net.layers, strict=True):
        if isinstance(theirs, (layers.Conv2D, layers.DepthwiseConv2D)):
            np.testing.assert_array_equal(array(ours.kernel), array(theirs.kernel))
            assert list(ours.random_weights) == ["kernel"]
        else:
            assert type(ours) is type(theirs)


@pytest.mark.slow
def test_mobilenet_keeps_its_function():
    net = mobilenet((32, 32, 3))
    model = bl.to_bayesian(net)
    x = images((32, 32, 3))
    assert_same_function(model, x, numbers(net(x)))


@pytest.mark.slow
def test_resnet_is_converted():
    shape = (64, 64, 3)
    net = keras.applications.ResNet50(input_shape=shape, weights=None, classes=3)
    model = bl.to_bayesian(net)
    assert len(random_weights(model)) == 54
    assert_same_function(model, images(shape), numbers(net(images(shape))), atol=1e-5)


def test_a_transformer_of_keras_hub_is_converted():
    keras_hub = pytest.importorskip("keras_hub")
    tokens = keras.Input((5,), dtype="int32")
    hidden = keras_hub.layers.TokenAndPositionEmbedding(10, 5, 8)(tokens)
    hidden = keras_hub.layers.TransformerEncoder(16, 2)(hidden)
    net = keras.Model(tokens, layers.Dense(2)(hidden))
    model = bl.to_bayesian(net, exclude="embedding")
    assert len(random_weights(model)) == 7
    x = np.array([[1, 2, 3, 4, 5]], dtype="int32")
    assert_same_function(model, x, numbers(net(x)), atol=1e-5)
