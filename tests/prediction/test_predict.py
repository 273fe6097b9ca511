"""The draws of a prediction: one function each, from the posterior, of any model."""

import gc
import warnings
import weakref

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers.prediction import batches
from tests.layers.outputs.table import array, softplus
from tests.layers.weights.table import set_stddev
from tests.statistics import assert_mean, assert_variance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype("float32")
SAMPLES = 6
COMPILES = keras.backend.backend() != "torch"


class Count(keras.Layer):
    """Hands on its inputs, and counts how often Python runs it."""

    calls = 0

    def call(self, inputs):
        self.calls += 1
        return inputs


def predict(model, x=X, **kwargs):
    arguments = {"num_samples": SAMPLES, "batch_size": 3, "seed": 1, "verbose": 0}
    return bl.predict(model, x, **{**arguments, **kwargs})


# Functions.


@pytest.fixture(scope="module")
def linear():
    """Linear functions by three estimators, as a list of outputs."""
    inputs = keras.Input((3,))
    outputs = [
        getattr(bl.layers, f"Dense{estimator}")(
            2,
            use_bias=False,
            kernel_initializer=bl.initializers.TrainableNormal(
                mean_initializer="zeros"
            ),
        )(inputs)
        for estimator in ("Flipout", "Reparameterization", "LocalReparameterization")
    ]
    model = keras.Model(inputs, outputs)
    set_stddev(model, 1.0)
    return model


@pytest.mark.parametrize("group_bytes", [2**26, 1], ids=["one group", "many groups"])
def test_each_draw_is_one_function_over_batches(linear, monkeypatch, group_bytes):
    # The first rows tell the kernel of each draw, in other batches than the rest.
    monkeypatch.setattr(batches, "GROUP_BYTES", group_bytes)
    x = np.concatenate([np.eye(3, dtype="float32"), X[:4]])
    predictions = predict(linear, x)
    assert isinstance(predictions, list)
    kernels = [prediction.samples[:, :3] for prediction in predictions]
    for prediction, kernel in zip(predictions, kernels, strict=True):
        np.testing.assert_allclose(
            prediction.samples[:, 3:], X[:4] @ kernel, rtol=1e-4, atol=1e-5
        )
    # Each layer has its own 36 numbers: a correlation beyond 0.8 has 4e-9.
    for first, second in zip(kernels, kernels[1:], strict=False):
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.8


def test_batch_sizes_do_not_matter(linear):
    expected = [prediction.samples for prediction in predict(linear)]
    for batch_size in (7, 2):
        seen = predict(linear, batch_size=batch_size)
        for prediction, samples in zip(seen, expected, strict=True):
            np.testing.assert_allclose(prediction.samples, samples, atol=1e-5)


def test_seeds_say_which_draws(linear):
    first, again = (predict(linear, seed=5)[0] for _ in range(2))
    np.testing.assert_array_equal(first.samples, again.samples)
    # More draws go on where fewer end.
    more = predict(linear, seed=5, num_samples=2 * SAMPLES)[0]
    np.testing.assert_allclose(more.samples[:SAMPLES], first.samples, atol=1e-5)
    # Another seed has other kernels: 36 differences of standard deviation sqrt(2).
    other = predict(linear, seed=6)[0]
    assert np.max(np.abs(other.samples - first.samples)) > 0.1


def test_the_model_is_left_as_it_was(linear):
    def state():
        return [array(v) for v in linear.variables]

    before = state()
    predict(linear)
    for old, new in zip(before, state(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_weights_are_followed_and_nothing_is_traced_again():
    count = Count()
    layer = bl.layers.DenseFlipout(2, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), layer, count])
    before = predict(model)
    calls = count.calls
    layer.kernel.assign(array(layer.kernel) + 1.0)
    after = predict(model)
    shift = np.sum(X, axis=1, keepdims=True)
    np.testing.assert_allclose(after.samples, before.samples + shift, atol=1e-5)
    if COMPILES:
        assert count.calls == calls


def test_it_converges_to_the_law_of_total_variance():
    # y = x @ w + noise: the weights have variance s**2, the noise a scale of its own,
    # which comes from columns whose weights are known.
    columns, samples = 40, 300
    model = keras.Sequential(
        [
            keras.Input((3,)),
            bl.layers.DenseReparameterization(2 * columns, use_bias=False, name="w"),
            bl.layers.Normal(),
        ],
        name="closed_form",
    )
    (layer, _) = model.layers
    rng = np.random.default_rng(2)
    mean = rng.normal(size=(3, 2 * columns)).astype("float32")
    stddev = np.concatenate(
        [np.full((3, columns), 0.7), np.full((3, columns), 1e-6)], 1
    )
    layer.kernel.assign(mean)
    scale = layer.random_weights["kernel"].variables["scale"]
    scale.assign(np.log(np.expm1(stddev)))
    x = X[:3]
    prediction = predict(model, x, num_samples=samples)
    epistemic = np.sum(x**2, axis=1) * 0.7**2
    loc, raw = np.split(x @ mean, 2, axis=1)
    np.testing.assert_allclose(
        prediction.aleatoric, (softplus(raw) + 1e-5) ** 2, rtol=1e-3
    )
    # Columns are independent: 40 estimates of each number, by 300 draws each. Their
    # variance is 2/299 of the square of the number, its standard error 1.3%.
    relative = prediction.epistemic * samples / (samples - 1) / epistemic[:, None]
    assert_mean(relative.T, 1.0, detect=0.15)
    errors = (prediction.mean - loc) / np.sqrt(epistemic / samples)[:, None]
    assert_mean(errors.T, 0.0, detect=1.8)
    np.testing.assert_allclose(
        prediction.stddev**2, prediction.epistemic + prediction.aleatoric, rtol=1e-6
    )


def test_held_weights_leave_no_epistemic_uncertainty(linear):
    before = predict(linear)
    with bl.weights(linear, "mean"):
        held = predict(linear)
    with bl.weights(linear, seed=3):
        draws, expected = predict(linear), linear(X)
    after = predict(linear)
    for index, layer in enumerate(linear.layers[1:]):
        np.testing.assert_allclose(held[index].mean, X @ array(layer.kernel), atol=1e-5)
        np.testing.assert_allclose(held[index].epistemic, np.zeros((7, 2)), atol=1e-9)
        np.testing.assert_allclose(
            draws[index].samples, [array(expected[index])] * SAMPLES, atol=1e-5
        )
        np.testing.assert_array_equal(after[index].samples, before[index].samples)


# Layers of Keras that are random in training.


def test_dropout_is_off_unless_it_is_asked_for():
    # Outputs are sums of x_i, each kept with probability 1/2 and doubled then.
    x = np.broadcast_to(X[:1], (200, 3))
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dropout(0.5, seed=1),
            keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"),
        ]
    )
    parts = X[0]
    off = predict(model, x, batch_size=200)
    np.testing.assert_allclose(
        off.samples, np.full((6, 200, 1), parts.sum()), atol=1e-6
    )
    on = predict(
        model,
        x,
        num_samples=40,
        batch_size=200,
        stochastic=keras.layers.Dropout,
    )
    in_a_tuple = predict(
        model,
        x,
        num_samples=40,
        batch_size=200,
        stochastic=(keras.layers.Dropout,),
    )
    np.testing.assert_array_equal(in_a_tuple.samples, on.samples)
    # Masks are drawn apart for each example and draw: 8000 of them.
    draws = on.samples.ravel()
    variance = np.sum(parts**2)
    assert_mean(draws, parts.sum(), detect=0.15 * np.sqrt(variance))
    assert_variance(draws, variance, detect=0.15 * variance)
    # And not once for all examples, or for all draws.
    assert np.all(on.samples.std(axis=0) > 0) and np.all(on.samples.std(axis=1) > 0)
    off_again = predict(model, x, batch_size=200)
    np.testing.assert_array_equal(off_again.samples, off.samples)


def test_batch_normalization_is_in_inference_mode_and_learns_nothing():
    normalization = keras.layers.BatchNormalization()
    layer = bl.layers.DenseFlipout(2, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), layer, normalization])
    normalization.moving_mean.assign([1.0, -1.0])
    normalization.moving_variance.assign([4.0, 9.0])
    x = np.concatenate([np.zeros((1, 3), "float32"), X[:6]])
    prediction = predict(model, x)
    # At x = 0 the outputs are those of 0, whatever the draw, and the batch.
    expected = -np.array([1.0, -1.0]) / np.sqrt(np.array([4.0, 9.0]) + 1e-3)
    np.testing.assert_allclose(prediction.samples[:, 0], [expected] * 6, rtol=1e-5)
    np.testing.assert_array_equal(array(normalization.moving_mean), [1.0, -1.0])
    np.testing.assert_array_equal(array(normalization.moving_variance), [4.0, 9.0])


# Kinds of models.


def assert_one_function(model, x, **kwargs):
    """Draws do not depend on the batch, and are as many functions."""
    samples = predict(model, x, batch_size=len(x), **kwargs).samples
    assert len(samples) == SAMPLES
    np.testing.assert_allclose(
        predict(model, x, batch_size=len(x), **kwargs).samples, samples, atol=1e-6
    )
    np.testing.assert_allclose(
        predict(model, x[::-1], batch_size=3, **kwargs).samples[:, ::-1],
        samples,
        atol=1e-5,
    )
    return samples


def test_recurrent_layers_and_attention_are_one_function_each():
    inputs = keras.Input((4, 2))
    known_bias = {"bias_initializer": "zeros", "bias_regularizer": None}
    x = bl.layers.LSTMFlipout(3, return_sequences=True, **known_bias)(inputs)
    x = bl.layers.MultiHeadAttentionReparameterization(2, 2)(x, x)
    model = keras.Model(inputs, bl.layers.GRUReparameterization(2)(x))
    x = np.random.default_rng(3).normal(size=(4, 4, 2)).astype("float32")
    samples = assert_one_function(model, x)
    assert samples.shape == (SAMPLES, 4, 2)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(3, activation="tanh")
        self.random = bl.layers.DenseFlipout(2, use_bias=False)

    def call(self, inputs):
        return self.random(self.hidden(inputs))


def test_subclassed_models_need_not_be_built():
    model = Subclassed()
    samples = assert_one_function(model, X)
    # The layer is linear: its draws are those of a kernel, here by least squares.
    hidden = array(model.hidden(X))
    for sample in samples:
        kernel, *_ = np.linalg.lstsq(hidden, sample, rcond=None)
        np.testing.assert_allclose(hidden @ kernel, sample, atol=1e-4)


def test_a_model_in_a_model_is_drawn_as_well():
    inner = keras.Sequential(
        [keras.Input((3,)), bl.layers.DenseReparameterization(2, use_bias=False)]
    )
    model = keras.Sequential([keras.Input((3,)), inner, keras.layers.Rescaling(2.0)])
    x = np.concatenate([np.eye(3, dtype="float32"), X[:4]])
    samples = predict(model, x).samples
    np.testing.assert_allclose(samples[:, 3:], X[:4] @ samples[:, :3], atol=1e-5)
    assert np.all(samples.std(axis=0) > 1e-3)


def test_weights_of_one_path_are_told_apart():
    # The members of an ensemble of clones have layers of equal names and paths.
    inputs = keras.Input((3,))
    layer = bl.layers.DenseFlipout(1, use_bias=False, name="head")
    members = [keras.Model(inputs, layer(inputs))]
    members.append(keras.models.clone_model(members[0]))
    for number, member in enumerate(members):
        member.name = f"member_{number}"
        member.layers[-1].kernel.assign(np.full((3, 1), number))
    model = keras.Model(inputs, [member(inputs) for member in members])
    predictions = predict(model, np.ones((4, 3), "float32"))
    # Sums of three weights of standard deviation 0.05 around 0 and 3.
    for number, prediction in enumerate(predictions):
        np.testing.assert_allclose(
            prediction.mean, np.full((4, 1), 3 * number), atol=0.5
        )


def test_a_model_without_random_weights_predicts_what_it_is():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    prediction = predict(model)
    expected = X @ array(model.layers[0].kernel)
    np.testing.assert_allclose(prediction.samples, [expected] * SAMPLES, atol=1e-5)


class Unseeded(keras.Layer):
    """A head that a user wrote, as short as can be."""

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), initializer="ones")

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, inputs):
        return bl.Normal(inputs, 0.5 * self.scale)


@pytest.mark.parametrize("kind", ["DenseFlipout", "Dense"])
def test_a_head_of_a_user_without_a_seed_keeps_its_distribution(kind):
    layers = bl.layers if kind == "DenseFlipout" else keras.layers
    model = keras.Sequential([keras.Input((3,)), getattr(layers, kind)(2), Unseeded()])
    prediction = predict(model)
    assert isinstance(prediction.distribution, bl.distributions.Normal)
    np.testing.assert_allclose(prediction.aleatoric, np.full((7, 2), 0.25), rtol=1e-6)


def test_mixed_precision_predicts_in_float32_or_better():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            bl.layers.DenseFlipout(2, dtype="mixed_bfloat16"),
            bl.layers.Normal(1, dtype="mixed_bfloat16"),
        ]
    )
    prediction = predict(model)
    assert prediction.samples.dtype == "float32"
    assert np.all(np.isfinite(prediction.stddev))


def test_a_compiled_model_that_was_trained_predicts():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            bl.layers.DenseFlipout(2, kl_scale=0.1, use_bias=False),
            bl.layers.Normal(),
        ]
    )
    model.compile("sgd", bl.losses.NegativeLogLikelihood())
    model.fit(X, X[:, :1], verbose=0)
    prediction = predict(model, store_samples=False)
    weight = model.layers[0].random_weights["kernel"].posterior
    # Six draws: 6 standard errors.
    error = np.abs(prediction.mean - X @ array(weight.mean())[:, :1])
    stddev = np.sqrt(X**2 @ array(weight.variance())[:, :1])
    assert np.all(error < 6.0 * stddev / np.sqrt(SAMPLES))


@pytest.mark.parametrize("kind", ["split", "whole", "subclassed"])
def test_a_model_that_is_not_used_any_more_is_freed(kind):
    def run():
        layers = [keras.layers.Dense(3), bl.layers.DenseFlipout(2, kl_scale=0.1)]
        layers = layers if kind == "split" else layers[1:]
        model = keras.Sequential([keras.Input((3,)), *layers])
        model = Subclassed() if kind == "subclassed" else model
        model.compile("sgd", "mse")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of the KL, which is not scaled.
            model.fit(X, X[:, :2], verbose=0)
        predict(model)
        predict(model, store_samples=False, from_logits=True)
        return weakref.ref(model)

    reference = run()
    gc.collect()
    assert reference() is None


# Equal weights and equal seeds are equal predictions.


@keras.saving.register_keras_serializable("tests.prediction")
class Saved(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = bl.layers.DenseFlipout(3, activation="tanh")
        self.second = bl.layers.DenseReparameterization(2)

    def call(self, inputs):
        return self.second(self.first(inputs))

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls()


def sequential():
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(3, activation="tanh"),
            bl.layers.DenseFlipout(3, activation="tanh"),
            bl.layers.Normal(2),
        ]
    )


def functional():
    inputs = keras.Input((3,))
    left = bl.layers.DenseFlipout(3, activation="tanh")(inputs)
    right = bl.layers.DenseReparameterization(3)(inputs)
    return keras.Model(inputs, bl.layers.DenseFlipout(2)(left + right))


@pytest.mark.parametrize("make", [sequential, functional, Saved])
def test_draws_are_the_same_for_a_model_saved_loaded_or_made_anew(make, tmp_path):
    model = make()
    model(X)
    expected = predict(model, seed=3)
    model.save(tmp_path / "model.keras")
    again = make()
    again(X)
    others = [keras.saving.load_model(tmp_path / "model.keras"), again]
    if make is not Saved:
        others.append(keras.models.clone_model(model))
    for other in others:
        other.set_weights(model.get_weights())
        seen = predict(other, seed=3)
        np.testing.assert_array_equal(seen.mean, expected.mean)
        np.testing.assert_array_equal(seen.samples, expected.samples)


def test_the_random_seed_of_keras_says_which_draws(linear):
    def mean():
        return predict(linear, seed=None)[0].mean

    state = np.random.get_state()
    keras.utils.set_random_seed(1)
    first = [mean(), mean()]
    keras.utils.set_random_seed(1)
    again = [mean(), mean()]
    np.random.set_state(state)
    np.testing.assert_array_equal(first, again)
    # 14 numbers of standard deviation of about 1 / sqrt(6) each.
    assert np.max(np.abs(first[0] - first[1])) > 0.01


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        ({"num_samples": 0}, "positive integer.*num_samples=0"),
        ({"num_samples": -2}, "positive integer.*num_samples=-2"),
        ({"num_samples": 1.5}, "positive integer.*num_samples=1.5"),
        ({"batch_size": 0}, "positive integer or `None`.*batch_size=0"),
        ({"batch_size": -1}, "positive integer or `None`.*batch_size=-1"),
        ({"batch_size": 2.0}, "positive integer or `None`.*batch_size=2.0"),
        ({"from_logits": "yes"}, "`None`, `True` or `False`.*from_logits=yes"),
    ],
)
def test_bad_arguments_raise_with_their_value(linear, arguments, pattern):
    with pytest.raises(ValueError, match=pattern):
        predict(linear, **arguments)


def test_what_is_no_class_of_layers_raises(linear):
    for stochastic in ((keras.layers.Dropout(0.5),), int, ["dropout"]):
        with pytest.raises(TypeError, match=r"`stochastic`.*keras\.layers\.Dropout"):
            predict(linear, stochastic=stochastic)


def test_integers_of_numpy_are_integers(linear):
    prediction, *_ = predict(
        linear, num_samples=np.int64(5), batch_size=np.int32(3), seed=np.int64(2)
    )
    assert prediction.num_samples == 5
    assert prediction.samples.shape == (5, 7, 2)


def test_what_is_no_model_raises():
    with pytest.raises(TypeError, match=r"keras\.Model.*DenseFlipout"):
        predict(bl.layers.DenseFlipout(2))


def test_progress_is_shown_unless_verbose_is_0(linear, capsys):
    predict(linear)
    assert capsys.readouterr().out == ""
    predict(linear, verbose=1)
    assert "3/3" in capsys.readouterr().out


def test_progress_is_shown_while_a_group_runs(linear, monkeypatch):
    seen = []

    def update(self, current, finalize=False, **kwargs):
        seen.append((current, self.target, finalize))

    monkeypatch.setattr(keras.utils.Progbar, "update", update)
    predict(linear, num_samples=48)
    # 3 batches in one group, in 3 times 16 draws.
    assert seen == [(i, 3, False) for i in (1, 2, 3)] + [(3, 3, True)]


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TensorFlow warns of it."
)
def test_tensorflow_does_not_warn_of_tracing(caplog):
    for units in range(1, 8):
        model = keras.Sequential([keras.Input((3,)), bl.layers.DenseFlipout(units)])
        predict(model, num_samples=units)
    assert "retracing" not in caplog.text
