"""The protocol: any Keras layer with `reverse`, one run of a network, one draw."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.differentiation import jit, run
from tests.layers.reversible.table import array
from tests.statistics import assert_mean

X = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")


@keras.saving.register_keras_serializable("tests")
class Doubled(keras.layers.Layer):
    """A plain Keras layer with the two further methods."""

    def build(self, input_shape):
        self.factor = self.add_weight(input_shape[-1:], "ones", name="factor")

    def call(self, inputs):
        return 2.0 * inputs * self.factor

    def reverse(self, y):
        return y / (2.0 * self.factor)

    def log_det_jacobian(self, x):
        return ops.zeros_like(x[..., 0]) + ops.sum(ops.log(2.0 * ops.abs(self.factor)))


class OnlyReversed(keras.layers.Layer):
    def call(self, inputs):
        return inputs + 1.0

    def reverse(self, y):
        return y - 1.0


class Counted(keras.layers.Layer):
    """A network that counts how often it runs on numbers."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4, activation="tanh")
        self.count = 0

    def build(self, input_shape):
        self.dense.build(input_shape)

    def call(self, inputs):
        self.count += 1
        return self.dense(inputs)


def standard(*shape):
    return bl.Normal(np.zeros(shape, "float32"), 1.0, seed=1)


def log_normal(x):
    return -0.5 * np.sum(x**2, axis=-1) - 0.5 * x.shape[-1] * np.log(2.0 * np.pi)


# Any Keras layer.


@pytest.mark.parametrize("shape", [(6, 2), (2,)])
def test_a_plain_keras_layer_transforms_random_variables_in_a_sequential(shape):
    flow = bl.Sequential([Doubled(), bl.layers.Permute(), Doubled()])
    y = flow(standard(*shape))
    np.testing.assert_allclose(
        array(y.log_prob(X)), log_normal(X / 4.0) - 2.0 * np.log(4.0), rtol=1e-5
    )
    np.testing.assert_allclose(array(flow.reverse(flow(X))), X, rtol=1e-5)
    np.testing.assert_allclose(
        array(flow.log_det_jacobian(X)), np.full(6, 2.0 * np.log(4.0)), rtol=1e-5
    )


def test_a_plain_keras_layer_is_reversed():
    layer = bl.layers.Reverse(Doubled())
    np.testing.assert_allclose(array(layer(X)), X / 2.0, rtol=1e-6)
    assert len(layer.trainable_variables) == 1
    y = layer(standard(6, 2))
    expected = log_normal(2.0 * X) + 2.0 * np.log(2.0)
    np.testing.assert_allclose(array(y.log_prob(X)), expected, rtol=1e-5)
    twice = bl.layers.Reverse(bl.layers.Reverse(Doubled()))
    np.testing.assert_allclose(array(twice(X)), 2.0 * X, rtol=1e-6)
    inside = bl.Sequential([Doubled(), bl.layers.Reverse(Doubled())])
    np.testing.assert_allclose(array(inside(X)), X, rtol=1e-6)


def test_a_layer_without_reverse_raises_only_when_it_is_called():
    layer = bl.layers.Reverse(keras.layers.Dense(2))
    with pytest.raises(TypeError, match="dense.*cannot be reversed"):
        layer(X)
    flow = bl.Sequential([Doubled(), keras.layers.Dense(2)])
    assert array(flow(X)).shape == (6, 2)
    with pytest.raises(TypeError, match="cannot be reversed"):
        flow.reverse(X)
    with pytest.raises(TypeError, match="cannot be reversed"):
        flow(standard(6, 2))
    with pytest.raises(TypeError, match="expects a Keras layer"):
        bl.layers.Reverse(np.sin)


def test_a_layer_without_log_determinant_has_draws_but_no_density():
    y = bl.Sequential([OnlyReversed()])(standard(6, 2))
    assert array(y.sample(3)).shape == (3, 6, 2)
    np.testing.assert_allclose(array(y), array(standard(6, 2)) + 1.0, rtol=1e-6)
    with pytest.raises(TypeError, match="log_det_jacobian"):
        y.log_prob(X)


def test_plain_sequential_runs_forward_on_tensors():
    flow = keras.Sequential([bl.layers.Affine(1.0, 2.0), bl.layers.Exp()])
    np.testing.assert_allclose(array(flow(X)), np.exp(1.0 + 2.0 * X), rtol=1e-5)


def test_a_symbolic_reverse_is_a_layer_of_a_model():
    flow = bl.layers.Affine(1.0, 2.0)
    inputs = keras.Input((2,))
    model = keras.Model(inputs, flow.reverse(inputs))
    np.testing.assert_allclose(array(model(X)), (X - 1.0) / 2.0, rtol=1e-5)


# One run of a network.


def test_a_network_runs_once_for_value_and_density():
    network = Counted()
    layer = bl.layers.RealNVP(network)
    layer(X)

    def count(function):
        before = network.count
        function()
        return network.count - before

    base = standard(6, 2)
    assert count(lambda: layer.log_det_jacobian(X)) == 1
    assert count(lambda: layer.reverse(X)) == 1
    assert count(lambda: layer(base)) == 0
    assert count(lambda: layer(base).log_prob(X)) == 1
    assert count(lambda: layer(base).sample_and_log_prob(2, seed=1)) == 1
    y = layer(base)
    assert count(lambda: y.value) == 1
    # What leads back from the value that was just made is known.
    assert count(lambda: y.log_prob(y)) == 0
    assert count(lambda: y.log_prob(y.value)) == 0
    assert count(lambda: y.log_prob(array(y))) == 1


def test_a_chain_does_not_reverse_the_value_that_it_made():
    network = Counted()
    flow = bl.Sequential([bl.layers.RealNVP(network), bl.layers.Exp(), Doubled()])
    y = flow(standard(6, 2))
    value, known = array(y), array(y.log_prob(y))
    count = network.count
    np.testing.assert_allclose(array(y.log_prob(value)), known, rtol=1e-3, atol=1e-3)
    assert network.count == count + 1


# Numbers that a call takes along.


def test_a_density_that_was_compiled_is_that_of_the_weights_as_they_are():
    flow = bl.layers.RealNVP(keras.layers.Dense(4, activation="tanh"))
    flow(X)
    for variable in flow.trainable_variables:
        variable.assign(array(variable) + 0.3)
    expected = array(flow(standard(6, 2)).log_prob(X))
    np.testing.assert_allclose(
        run(lambda x: flow(standard(6, 2)).log_prob(x), X), expected, rtol=1e-5
    )


def test_dropout_in_a_network_is_on_in_training_only():
    class Ask(keras.layers.Dropout):
        seen = []

        def call(self, inputs, training=False):
            self.seen.append(training)
            return super().call(inputs, training=training)

    network = keras.Sequential([keras.layers.Dense(4), Ask(0.5)])
    flow = bl.layers.RealNVP(network)
    model = keras.Sequential([keras.Input((2,)), bl.layers.BaseDistribution(), flow])
    model.compile("sgd", bl.losses.NegativeLogLikelihood())
    model.fit(X, X, verbose=0)
    assert Ask.seen[-1] is True
    Ask.seen.clear()
    model.evaluate(X, X, verbose=0)
    assert Ask.seen and not any(Ask.seen)
    Ask.seen.clear()
    flow(standard(6, 2)).log_prob(X)
    assert Ask.seen and not any(Ask.seen)


def test_batch_normalization_is_refused():
    network = keras.Sequential([keras.layers.BatchNormalization()])
    with pytest.raises(ValueError, match="LayerNormalization"):
        bl.layers.RealNVP(network)


# Random weights.


@keras.saving.register_keras_serializable("tests")
class RandomScale(bl.layers.RandomWeights, bl.layers.ReversibleLayer):
    """exp(w) x, with a random w."""

    def build(self, inputs_shape, context_shape=None):
        super().build(inputs_shape)
        self.log_scale = self.add_weight(
            inputs_shape[-1:],
            bl.initializers.TrainableNormal("zeros", "zeros"),
            name="log_scale",
        )

    def forward_and_log_det(self, x):
        log_scale = ops.convert_to_tensor(self.log_scale)
        return x * ops.exp(log_scale), log_scale + ops.zeros_like(x)

    def reverse_and_log_det(self, y):
        log_scale = ops.convert_to_tensor(self.log_scale)
        return y * ops.exp(-log_scale), ops.zeros_like(y) - log_scale


def _random_network():
    return bl.layers.RealNVP(
        keras.Sequential([bl.layers.DenseFlipout(4, activation="tanh", seed=1)])
    )


def _randomly_scaled():
    return RandomScale(seed=1)


@pytest.mark.parametrize("make", [_random_network, _randomly_scaled])
def test_a_call_of_a_flow_with_random_weights_is_one_draw(make, tmp_path):
    layer = make()
    layer(X)
    for variable in layer.trainable_variables:
        variable.assign(array(variable) + 0.3)
    y = layer(standard(6, 2))
    # Density and value are of one function: reversed, the value leads to the base.
    direct = array(y.log_prob(y)).reshape(6, -1).sum(axis=1)
    back = array(y.log_prob(array(y))).reshape(6, -1).sum(axis=1)
    np.testing.assert_allclose(direct, back, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(array(y.log_prob(X)), array(y.log_prob(X)), rtol=1e-6)
    other = layer(standard(6, 2))
    assert np.any(np.abs(array(other.log_prob(X)) - array(y.log_prob(X))) > 1e-6)
    with bl.weights(layer, seed=3):
        one, two = layer(standard(6, 2)), layer(standard(6, 2))
    np.testing.assert_allclose(
        array(one.log_prob(X)), array(two.log_prob(X)), rtol=1e-6
    )
    with bl.tape() as tape:
        y = layer(standard(6, 2))
    assert len(tape) == 2  # the weight, and the output by the layer's name
    assert list(tape)[-1] == layer.name


def test_the_log_scale_of_a_random_flow_has_its_distribution():
    x = np.ones((1, 2000), "float32")
    layer = RandomScale(seed=2)
    draws = np.log(array(layer(bl.Normal(np.zeros_like(x), 1.0, value=x)))[0])
    # Independent elements, of mean zero and standard deviation softplus(0) = log 2.
    assert_mean(draws, 0.0, detect=0.15)
    assert_mean(draws**2, np.log(2.0) ** 2, detect=0.15)


@pytest.mark.parametrize("make", [_random_network, _randomly_scaled])
def test_random_weights_of_a_flow_are_trained_by_fit(make):
    layer = make()
    model = keras.Sequential([keras.Input((2,)), bl.layers.BaseDistribution(), layer])
    bl.scale_kl(model, dataset_size=6)
    model.compile(keras.optimizers.SGD(1e-2), bl.losses.NegativeLogLikelihood())
    before = [array(v) for v in layer.trainable_variables]
    losses = model.fit(X, X, epochs=2, verbose=0).history["loss"]
    assert np.all(np.isfinite(losses))
    for old, new in zip(before, layer.trainable_variables, strict=True):
        assert np.any(old != array(new)), new.path


# Values, names, shapes.


def test_numbers_of_the_design():
    y = bl.layers.Exp()(bl.Normal(0.0, 1.0))
    assert round(float(y.log_prob(2.0)), 4) == -1.8523


def test_the_value_is_the_layer_of_the_value_of_the_base():
    base = standard(6, 2)
    np.testing.assert_allclose(
        array(bl.layers.Exp()(base)), np.exp(array(base)), rtol=1e-6
    )


def test_axes_of_draws_become_batch_axes_where_an_event_needs_them():
    flow = bl.layers.RealNVP(keras.layers.Dense(4))
    y = flow(bl.Normal(0.0, 1.0, sample_shape=(5, 2), seed=1))
    assert y.distribution.event_shape == (2,)
    assert array(y).shape == (5, 2)
    assert array(y.log_prob(y)).shape == (5,)
    with pytest.raises(ValueError, match="at least 1 axes"):
        bl.layers.RealNVP(keras.layers.Dense(4))(bl.Normal(0.0, 1.0))


def test_an_unread_value_crosses_a_compiled_function():
    flow = bl.layers.RealNVP(keras.layers.Dense(4))
    y = flow(standard(6, 2))
    traced = jit(lambda x: ops.convert_to_tensor(y) + x)(ops.zeros((6, 2)))
    np.testing.assert_allclose(array(traced), array(y), rtol=1e-5)


def test_a_flow_of_another_flow_nests_and_a_file_keeps_it(tmp_path):
    inner = bl.Sequential([Doubled(), bl.layers.Affine()])
    flow = bl.Sequential([inner, bl.layers.Reverse(inner), bl.layers.Permute()])
    np.testing.assert_allclose(array(flow(X)), X[:, ::-1], rtol=1e-5)
    inner.layers[1].shift.assign([1.0, 2.0])
    flow.save(tmp_path / "flow.keras")
    loaded = keras.saving.load_model(tmp_path / "flow.keras")
    assert isinstance(loaded, bl.Sequential)
    np.testing.assert_allclose(array(loaded(X)), array(flow(X)), rtol=1e-6)
    np.testing.assert_allclose(
        array(loaded.reverse(X)), array(flow.reverse(X)), rtol=1e-6
    )


def test_a_context_is_an_input_of_a_functional_model():
    context = keras.Input((3,))
    base = bl.layers.BaseDistribution(2, seed=1)(context)
    flow = bl.Sequential(
        [
            bl.layers.MaskedAutoregressiveFlow(bl.layers.MADE(hidden_dims=[8])),
            bl.layers.Permute(),
        ]
    )
    model = keras.Model(context, flow(base, context=context))
    model.compile(keras.optimizers.Adam(1e-2), bl.losses.NegativeLogLikelihood())
    c = np.random.default_rng(1).normal(size=(6, 3)).astype("float32")
    losses = model.fit(c, X, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert array(model(c).sample(5)).shape == (5, 6, 2)
    assert model.predict(c, verbose=0).shape == (6, 2)


def test_a_base_distribution_has_the_shape_that_it_is_asked_for():
    layer = bl.layers.BaseDistribution(
        (2, 3), bl.distributions.MultivariateNormalDiag(np.zeros(3), np.ones(3)), seed=1
    )
    x = layer(np.zeros((4, 7), "float32"))
    assert array(x).shape == (4, 2, 3)
    assert array(x.log_prob(x)).shape == (4, 2)
    config = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(config)
    assert array(again(np.zeros((4, 7), "float32"))).shape == (4, 2, 3)
    with pytest.raises(ValueError, match="without batch axes"):
        bl.layers.BaseDistribution(2, bl.distributions.Normal(np.zeros(2), 1.0))
    with pytest.raises(ValueError, match="does not end"):
        bl.layers.BaseDistribution(2, layer.base)(np.zeros((4, 7), "float32"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bl.layers.RealNVP(keras.layers.Dense(2), parity=2), "parity=2"),
        (lambda: bl.layers.RealNVP(bl.layers.MADE(), parity=1), "order of the MADE"),
        (lambda: bl.layers.RealNVP(np.sin), "Keras layer"),
        (lambda: bl.layers.RealNVP(bl.layers.MADE(3)), "needs 2 outputs"),
        (
            lambda: bl.layers.MaskedAutoregressiveFlow(keras.layers.Dense(2)),
            "bl.layers.MADE",
        ),
        (lambda: bl.layers.SplineCoupling(keras.layers.Dense(2), 0), "num_bins=0"),
        (lambda: bl.layers.Scale(0.0), "other than zero"),
        (lambda: bl.layers.LeakyReLU(0.0), "negative_slope=0.0"),
        (lambda: bl.layers.Permute([0, 0])(X), "permutation"),
        (lambda: bl.layers.Permute("up")(X), "'random'"),
        (lambda: bl.layers.Reshape((3,))(X), "3 elements"),
        (lambda: bl.layers.RealNVP(keras.layers.Dense(2))(X[:, :1]), "at least two"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
