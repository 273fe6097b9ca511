"""What a user's own head gets: from a function, from a family, from a distribution."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from tests.differentiation import run
from tests.layers.outputs.table import ROWS, array


@keras.saving.register_keras_serializable("tests")
def normal_of_halves(inputs):
    loc, scale = inputs[..., :1], inputs[..., 1:]
    return bl.distributions.Normal(loc, ops.softplus(scale))


@keras.saving.register_keras_serializable("tests")
class Offset(bl.layers.OutputLayer):
    """A normal distribution with a trainable location and a scale for all inputs."""

    def build(self, input_shape):
        self.offset = self.add_weight(shape=input_shape[-1:], initializer="zeros")
        self.scale = self.add_weight(shape=(), initializer="zeros", name="scale")

    def distribution(self, inputs):
        scale = ops.exp(ops.convert_to_tensor(self.scale))
        return bl.distributions.Normal(inputs + self.offset, scale)


@keras.saving.register_keras_serializable("tests")
class Gumbel(bl.layers.FamilyLayer):
    """An output with a Gumbel distribution."""

    family = bl.distributions.Gumbel


HEADS = {
    "function": lambda **kwargs: bl.layers.DistributionLambda(
        normal_of_halves, **kwargs
    ),
    "distribution": Offset,
    "family": lambda **kwargs: Gumbel(1, **kwargs),
}
SHAPES = {"function": (1,), "distribution": (2,), "family": (1,)}
every_head = pytest.mark.parametrize("name", HEADS)
X = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")


def targets(name):
    return np.random.default_rng(1).normal(size=(8, *SHAPES[name])).astype("float32")


@every_head
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_users_head_trains_predicts_and_is_saved(name, policy, tmp_path):
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(2, dtype=policy),
            HEADS[name](dtype=policy),
        ]
    )
    assert model.output_shape == (None, *SHAPES[name])
    assert model.outputs[0].dtype == "float32"
    model.compile(keras.optimizers.SGD(1e-3), bl.losses.NegativeLogLikelihood())
    y = targets(name)
    before = model.evaluate(X, y, verbose=0)
    # The loss has no noise: small steps down its gradient make it smaller.
    model.fit(X, y, epochs=10, verbose=0)
    assert model.evaluate(X, y, verbose=0) < before
    assert model.predict(X, verbose=0).shape == y.shape
    prediction = bl.predict(model, X, num_samples=2, verbose=0)
    assert prediction.mean.shape == y.shape
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        array(loaded(X).log_prob(y)), array(model(X).log_prob(y)), rtol=1e-6
    )


@every_head
def test_a_users_head_draws_anew_by_its_own_seed(name):
    first, second = HEADS[name](seed=1), HEADS[name](seed=1)
    draws = [[array(layer(X)) for _ in range(2)] for layer in (first, second)]
    assert np.all(draws[0][0] != draws[0][1])
    if name != "family":  # Its linear map has random weights.
        np.testing.assert_array_equal(draws[0], draws[1])
    with bl.tape() as tape:
        value = first(X)
    np.testing.assert_array_equal(array(tape[first.path]), array(value))


@every_head
def test_the_spec_of_a_users_head_is_that_of_its_value(name):
    for batch in [(None,), (None, 5)]:
        layer = HEADS[name]()
        spec = layer(keras.KerasTensor((*batch, 2)))
        assert spec.shape == (*batch, *SHAPES[name])
        assert spec.dtype == "float32"
        assert tuple(layer.compute_output_shape((*batch, 2))) == spec.shape


@every_head
def test_a_users_head_has_a_prior_and_a_conversion(name):
    prior = bl.distributions.Normal(0.0, 1.0)
    layer = HEADS[name](prior=prior, kl_weight=0.5, convert="mean")
    variable = layer(X)
    np.testing.assert_allclose(array(variable), array(variable.mean()), rtol=1e-6)
    (loss,) = layer.losses
    if name != "family":  # It is estimated by a draw there.
        kl = array(variable.kl_divergence(prior)).sum(axis=-1).mean()
        np.testing.assert_allclose(array(loss), 0.5 * kl, rtol=1e-5)
    config = json.loads(json.dumps(layer.get_config()))
    copy = type(layer).from_config(config)
    assert (copy.convert, copy.kl_weight) == ("mean", 0.5)
    assert isinstance(copy.prior, bl.distributions.Normal)


# Functions.


def test_a_function_may_take_several_inputs_and_arguments():
    def student(inputs, df):
        loc, scale = inputs
        return bl.distributions.StudentT(df, loc, ops.softplus(scale))

    layer = bl.layers.DistributionLambda(student, arguments={"df": 5.0})
    loc, scale = keras.Input((3,)), keras.Input((3,))
    model = keras.Model([loc, scale], layer([loc, scale]))
    x = np.ones((4, 3), "float32")
    expected = stats.t(5.0, 1.0, np.log1p(np.e)).logpdf(2.0)
    log_prob = run(lambda x: model([x, x]).log_prob(2.0 * x), x)
    np.testing.assert_allclose(log_prob, np.full((4, 3), expected), rtol=1e-5)
    # Its samples are made of gamma noise, which XLA cannot draw on TensorFlow.
    assert layer.supports_jit == (keras.backend.backend() != "tensorflow")


def test_events_and_classes_have_their_shape_and_dtype():
    vectors = bl.layers.DistributionLambda(
        lambda t: bl.distributions.Independent(bl.distributions.Normal(t, 1.0), 1)
    )
    assert vectors(keras.KerasTensor((None, 3))).shape == (None, 3)
    classes = bl.layers.DistributionLambda(bl.distributions.Categorical)
    spec = classes(keras.KerasTensor((None, 3)))
    assert (spec.shape, spec.dtype) == ((None,), "int32")


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float32"])
def test_a_function_computes_in_float32(policy):
    dtypes = []

    def function(t):
        dtypes.append(keras.backend.standardize_dtype(t.dtype))
        return bl.distributions.Normal(t, 1.0)

    bl.layers.DistributionLambda(function, dtype=policy)(X)
    assert set(dtypes) == {"float32"}


def test_a_function_returns_a_distribution():
    for function in (lambda t: t, lambda t: bl.Normal(t, 1.0)):
        with pytest.raises(TypeError, match="returns a distribution"):
            bl.layers.DistributionLambda(function)(X)


def test_a_lambda_is_loaded_only_if_it_is_trusted(tmp_path):
    def normal(t):
        from bayesian_layers import distributions

        return distributions.Normal(t, 1.0)

    normal.__name__ = "<lambda>"
    model = keras.Sequential([keras.Input((2,)), bl.layers.DistributionLambda(normal)])
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.saving.load_model(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_array_equal(array(loaded(X).mean()), X)


def test_masks_pass_through_a_function():
    x = np.array([[[1.0, 1.0], [0.0, 0.0]]], "float32")
    masked = keras.layers.Masking()(x)
    layer = bl.layers.DistributionLambda(normal_of_halves)
    mask = layer.compute_mask(masked, keras.layers.Masking().compute_mask(x))
    np.testing.assert_array_equal(array(mask), [[True, False]])


# Families.


def test_a_family_has_the_density_of_scipy():
    layer = Gumbel()
    raw = np.array([[0.5, -1.0]], "float32")
    scale = np.log1p(np.exp(-1.0)) + 1e-5
    expected = stats.gumbel_r(0.5, scale).logpdf(2.0)
    log_prob = array(layer(raw).log_prob(np.array([[2.0]], "float32")))
    np.testing.assert_allclose(log_prob, [[expected]], rtol=1e-5)


def test_a_family_states_its_family():
    class Nothing(bl.layers.FamilyLayer):
        pass

    with pytest.raises(TypeError, match="Nothing should state its `family`"):
        Nothing(1)


def test_constraints_without_a_map_of_a_head_have_that_of_the_real_line():
    class Scaled(bl.layers.FamilyLayer):
        family = bl.distributions.Deterministic
        maps = {"loc": bl.distributions.transforms.Sigmoid()}

    np.testing.assert_allclose(array(Scaled()(np.zeros((1, 2)))), [[0.5, 0.5]])

    class Trials(bl.layers.FamilyLayer):
        family = bl.distributions.Binomial

    with pytest.raises(ValueError, match="discrete set"):
        Trials(1)


# The start.


@pytest.mark.parametrize("name", ROWS)
def test_a_head_starts_calm(name):
    # Inputs of which ordinary weights would make numbers of a standard deviation of 14.
    row = ROWS[name]
    rng = np.random.default_rng(0)
    x = 10.0 * rng.normal(size=(256, 3)).astype("float32")
    layer = row.make(row.units)
    layer.build((None, 3))
    raw = x @ array(layer.projection.kernel)
    start = 0
    for parameter, size in layer.sizes(row.units).items():
        columns = raw[:, start : start + size]
        is_free = layer.map_of(parameter) == bl.distributions.transforms.Identity()
        if not is_free or parameter in layer.calm:
            assert np.abs(columns).max() < 1.0, parameter
        else:
            assert np.abs(columns).max() > 2.0, parameter
        start += size
    assert start == raw.shape[-1]


def test_a_mixture_starts_as_calm_as_its_components():
    layer = bl.layers.Mixture(bl.layers.NegativeBinomial(), 1, num_components=2)
    layer.build((None, 3))
    kernel = np.abs(array(layer.projection.kernel)).max(axis=0)
    # Logits of the choice, total counts, logits of the components.
    assert np.all(kernel[:2] > 0.02)
    assert np.all(kernel[2:] < 0.02)


def test_the_first_loss_of_a_normal_head_is_that_of_moderate_noise():
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(512, 8)).astype("float32")
    y = x[:, :1]
    model = keras.Sequential(
        [keras.Input((8,)), *[keras.layers.Dense(64) for _ in range(3)]]
    )
    model.add(bl.layers.Normal(1))
    model.compile(loss=bl.losses.NegativeLogLikelihood())
    # The largest is about (|y| + |loc|)^2 / (2 * 0.69^2) in the mean.
    assert model.evaluate(x, y, verbose=0) < 30.0


def test_an_initializer_that_is_given_is_used_as_it_is():
    layer = bl.layers.Normal(2, kernel_initializer="ones")
    layer.build((None, 3))
    np.testing.assert_array_equal(array(layer.projection.kernel), np.ones((3, 4)))


# Extreme inputs.


VECTORS_CLASSES_MIXTURES = [
    "Bernoulli",
    "Categorical",
    "OneHotCategorical",
    "Dirichlet",
    "MultivariateNormalDiag",
    "MultivariateNormalTriL",
    "MultivariateNormalLowRank",
    "MixtureNormal",
    "MixtureLogistic",
    "Mixture",
    "MixtureOfVectors",
]


@pytest.fixture(scope="module")
def extremes():
    """Draws and moments for inputs of +-1e4 and of signs of any combination."""
    rows = {name: ROWS[name] for name in VECTORS_CLASSES_MIXTURES}
    layers = {name: row.make(seed=1) for name, row in rows.items()}
    rng = np.random.default_rng(0)
    x = [
        (1e4 * rng.choice([-1.0, 0.0, 1.0], (32, row.columns))).astype("float32")
        for row in rows.values()
    ]

    def results(*inputs):
        found = {}
        for (name, layer), inputs_of in zip(layers.items(), inputs, strict=True):
            variable = layer(inputs_of)
            draw = ops.cast(variable.value, "float32")
            found[name] = {
                "sample": draw,
                "log_prob": variable.log_prob(draw),
                "mean": variable.mean() if name != "Categorical" else draw,
                # A Dirichlet whose concentrations are below one has none.
                "mode": variable.mode() if "OneHot" in name else draw,
            }
        return found

    return run(results, *x)


@pytest.mark.parametrize("name", VECTORS_CLASSES_MIXTURES)
def test_draws_and_moments_are_finite_for_huge_inputs(extremes, name):
    for kind, values in extremes[name].items():
        assert np.all(np.isfinite(values)), kind


# Grids.


def test_discretize_without_arguments_is_for_images_scaled_to_one():
    layer = bl.layers.Discretize()
    assert (layer.low, layer.high, layer.num_bins) == (0.0, 1.0, 256)
    model = keras.Sequential([bl.layers.MixtureLogistic(3, num_components=2), layer])
    pixels = np.array([[0, 128, 255]], "float32") / 255.0
    log_prob = array(model(np.ones((1, 4), "float32")).log_prob(pixels))
    assert np.all(np.isfinite(log_prob))
    off_the_grid = array(model(np.ones((1, 4), "float32")).log_prob(pixels + 0.5 / 255))
    assert np.all(np.isinf(off_the_grid))
