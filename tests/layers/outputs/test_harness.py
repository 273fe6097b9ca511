"""What every stochastic output layer has to do, whatever its family.

What is computed is computed for all rows of the table at once, and looked at row by
row: on JAX most of the time is compilation.
"""

import json

import keras
import numpy as np
import pytest
from keras.src.backend import get_keras_mask

import bayesian_layers as bl
from bayesian_layers.layers import outputs
from tests.differentiation import run, shapes_of, values_and_grad
from tests.layers.outputs.table import OTHERS, ROWS, array, model_of
from tests.statistics import assert_mean, assert_variance

every_layer = pytest.mark.parametrize("name", ROWS)
BATCH = 6
DRAWS = 4000


def test_every_public_layer_is_in_the_table():
    assert {row.layer for row in ROWS.values()} | OTHERS == set(outputs.__all__)


def of_all_rows(function, *inputs):
    """The results of `function(row, layer, *inputs)` by name, compiled in one."""
    layers = {name: row.make(seed=3) for name, row in ROWS.items()}
    arguments = [x[name] for x in inputs for name in ROWS]

    def of_all(*arguments):
        columns = np.array(range(len(arguments))).reshape(len(inputs), len(ROWS))
        return {
            name: function(ROWS[name], layers[name], *(arguments[i] for i in indices))
            for name, indices in zip(ROWS, columns.T, strict=True)
        }

    return run(of_all, *arguments)


# Densities.


@pytest.fixture(scope="module")
def log_probs():
    x = {name: row.raw(2, 3) for name, row in ROWS.items()}
    y = {name: row.draw_targets(2, 3) for name, row in ROWS.items()}
    return x, y, of_all_rows(lambda row, layer, x, y: layer(x).log_prob(y), x, y)


@every_layer
def test_densities_are_those_of_scipy(log_probs, name):
    x, y, values = (part[name] for part in log_probs)
    expected = ROWS[name].log_prob(x.astype("float64"), y)
    # Differences of large numbers have the rounding error of those.
    np.testing.assert_allclose(values, expected, rtol=2e-4, atol=1e-5)


def signs(columns):
    """Sixteen rows of +1 and -1, all equal ones among them."""
    rng = np.random.default_rng(0)
    rows = rng.choice([-1.0, 1.0], (16, columns))
    rows[0], rows[1] = 1.0, -1.0
    return rows.astype("float32")


@pytest.fixture(scope="module")
def extremes():
    """log p and its gradient for inputs where exp and softplus over- and underflow."""
    layers = {name: row.make() for name, row in ROWS.items()}
    x = {name: 1e4 * signs(row.columns) for name, row in ROWS.items()}
    y = {name: row.draw_targets(16) for name, row in ROWS.items()}

    def log_prob(*arguments):
        return keras.ops.concatenate(
            [
                keras.ops.reshape(layers[name](x).log_prob(y[name]), (-1,))
                for name, x in zip(ROWS, arguments, strict=True)
            ]
        )

    values, gradients = values_and_grad(log_prob, *x.values())
    sizes = [row.log_prob(0.0 * x[n], y[n]).size for n, row in ROWS.items()]
    values = np.split(values, np.cumsum(sizes)[:-1])
    return dict(zip(ROWS, zip(values, gradients, strict=True), strict=True))


@every_layer
def test_densities_and_their_gradients_are_finite_for_huge_inputs(extremes, name):
    values, gradient = extremes[name]
    assert np.all(np.isfinite(values))
    assert np.all(np.isfinite(gradient))


# Values.


def example(name):
    row = ROWS[name]
    raw = row.raw(scale=0.5, seed=1) if row.example is None else row.example
    return np.asarray(raw, "float32")


@pytest.fixture(scope="module")
def samples():
    x = {n: np.tile(example(n), (DRAWS, 1)) for n in ROWS}
    return of_all_rows(lambda row, layer, x: layer(x).value, x)


@every_layer
def test_samples_have_the_moments_of_scipy(samples, name):
    row, draws = ROWS[name], samples[name]
    raw = example(name).astype("float64")
    assert draws.shape == (DRAWS, *row.shape)
    assert draws.dtype == row.dtype
    # Errors of the mean of 0.15 standard deviations, and of half of the variance.
    variance = np.asarray(row.variance(raw))
    assert_mean(draws, row.mean(raw), detect=0.15 * np.sqrt(variance))
    assert_variance(draws, variance, detect=0.5 * variance)


@pytest.fixture(scope="module")
def converted():
    """The values of a layer by `convert`, and what the distribution says of it."""

    def of_row(row, _, x, y):
        results = {}
        for convert in row.conversions:
            variable = row.make(convert=convert)(x)
            expected = getattr(variable.distribution, convert)()
            results[convert] = (variable.value, expected, variable.log_prob(y))
        return results

    x = {name: row.raw(2, 3) for name, row in ROWS.items()}
    y = {name: row.draw_targets(2, 3) for name, row in ROWS.items()}
    return of_all_rows(of_row, x, y)


@every_layer
def test_mean_and_mode_are_the_value_and_the_distribution_stays(
    converted, log_probs, name
):
    row = ROWS[name]
    assert set(converted[name]) == set(row.conversions)
    for value, expected, log_prob in converted[name].values():
        assert value.shape == (2, 3, *row.shape)
        assert value.dtype == row.dtype
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        np.testing.assert_allclose(log_prob, log_probs[2][name], rtol=1e-5, atol=1e-6)
    if "mean" in row.conversions:
        raw = log_probs[0][name][0].astype("float64")
        means = np.array([row.mean(columns) for columns in raw])
        np.testing.assert_allclose(converted[name]["mean"][0][0], means, rtol=1e-3)


@every_layer
def test_the_tape_names_the_path_of_the_layer(name):
    row = ROWS[name]
    layer = row.make(name="head")
    model = keras.Sequential([keras.Input((row.columns,)), layer], name="network")

    def names():
        with bl.tape() as tape:
            model(row.raw(2))
        assert list(tape) == [layer.path]
        return [tape[layer.path].value]

    assert shapes_of(names) == [(2, *row.shape)]
    assert layer.path.endswith("head")


# Arguments.


@every_layer
def test_wrong_arguments_raise_with_what_was_given_and_expected(name):
    row = ROWS[name]
    conversions = ("sample", *row.conversions)
    for convert in {"mean", "mode", "median"} - set(conversions):
        with pytest.raises(ValueError) as error:
            row.make(convert=convert)
        for word in (*conversions, convert):
            assert repr(word) in str(error.value)
    for units in (0, -1, 2.0):
        with pytest.raises(ValueError, match=f"positive integer.*units={units}"):
            row.make(units)


@pytest.mark.parametrize("name", [name for name in ROWS if ROWS[name].wrong_columns])
def test_columns_that_fit_no_number_of_outputs_raise_with_both(name):
    row = ROWS[name]
    pattern = rf"{row.columns}, .*columns.*with {row.wrong_columns}\."
    shape = (None, row.wrong_columns)
    with pytest.raises(ValueError, match=pattern):
        row.make()(np.zeros((2, row.wrong_columns), "float32"))
    with pytest.raises(ValueError, match=pattern):
        row.make()(keras.Input(shape[1:]))
    with pytest.raises(ValueError, match=pattern):
        row.make().compute_output_shape(shape)


@every_layer
def test_the_config_survives_json(name):
    row = ROWS[name]
    layer = row.make(
        row.units,
        convert=row.conversions[0],
        seed=4,
        kernel_initializer="he_normal",
        bias_initializer="ones",
        name="head",
    )
    copy = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
    assert json.dumps(copy.get_config()) == json.dumps(layer.get_config())
    assert (copy.units, copy.convert) == (row.units, row.conversions[0])
    assert (copy.seed, copy.name) == (4, "head")


# Shapes and dtypes.


@every_layer
def test_the_spec_is_that_of_the_value(name):
    row = ROWS[name]
    for batch in [(None,), (None, 5)]:
        for units, columns in [(None, row.columns), (row.units, 3)]:
            layer = row.make(units)
            spec = layer(keras.KerasTensor((*batch, columns)))
            assert tuple(spec.shape) == (*batch, *row.shape)
            assert spec.dtype == row.dtype
            assert tuple(layer.compute_output_shape((*batch, columns))) == spec.shape


POLICIES = ("mixed_bfloat16", "mixed_float16")


@pytest.fixture(scope="module")
def mixed():
    """By policy log p, and by name the dtypes of distributions and of specs."""
    dtypes = {}

    def of_row(row, _, x, y):
        values = {}
        for policy in POLICIES:
            layer = row.make(row.units, dtype=policy)
            variable = layer(x)
            values[policy] = variable.log_prob(y)
            dtypes.setdefault(row.layer, []).append(
                (
                    variable.distribution.parameter_dtype,
                    keras.backend.standardize_dtype(variable.dtype),
                    layer(keras.KerasTensor((None, 3))).dtype,
                    layer.projection.compute_dtype,
                )
            )
        return values

    x = {name: np.ones((2, 3), "float32") for name in ROWS}
    y = {name: row.draw_targets(2) for name, row in ROWS.items()}
    return of_all_rows(of_row, x, y), dtypes


@every_layer
def test_in_mixed_precision_the_distribution_is_float32(mixed, name):
    row, (values, dtypes) = ROWS[name], mixed
    for policy, found in zip(POLICIES, dtypes[row.layer], strict=False):
        half = policy.removeprefix("mixed_")
        assert found == ("float32", row.dtype, row.dtype, half)
        assert values[name][policy].dtype == "float32"
        assert np.all(np.isfinite(values[name][policy]))


def test_masks_pass_through():
    x = np.concatenate([np.ones((2, 2, 3)), np.zeros((2, 1, 3))], axis=1)

    def of_row(row, _, x):
        variable = row.make(row.units)(keras.layers.Masking()(x))
        assert tuple(variable.shape) == (2, 3, *row.shape)
        return get_keras_mask(variable)

    masks = of_all_rows(of_row, dict.fromkeys(ROWS, x.astype("float32")))
    for name in ROWS:
        np.testing.assert_array_equal(masks[name], [[True, True, False]] * 2, name)


# Models.

# In two models: before `fit` on torch Keras computes losses without numbers, and if one
# of them needs some (that of StudentT does), all of them with whatever is in memory:
# the Cholesky factor of a low-rank covariance then raises.
GROUPS = (
    [name for name, row in ROWS.items() if row.targets.ndim == 1],
    [name for name, row in ROWS.items() if row.targets.ndim == 2],
)


def data(names=ROWS):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2 * BATCH, 3)).astype("float32")
    # Moderate targets, for gradients that do not explode.
    y = {name: np.minimum(ROWS[name].draw_targets(2 * BATCH), 3) for name in names}
    return x, y


def train(names):
    """A model, trained, and its weights before, by path."""
    model = model_of(names, seed=2)
    before = {w.path: array(w) for w in model.trainable_weights}
    # On TensorFlow XLA cannot draw counts.
    is_tensorflow = keras.backend.backend() == "tensorflow"
    model.compile(
        keras.optimizers.SGD(0.01),
        {name: bl.losses.NegativeLogLikelihood() for name in names},
        jit_compile=False if is_tensorflow else "auto",
    )
    history = model.fit(*data(names), batch_size=BATCH, epochs=2, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    return model, before


@pytest.fixture(scope="module")
def trained():
    return [train(names) for names in GROUPS]


@pytest.fixture(scope="module")
def models(trained):
    return [model for model, _ in trained]


def merged(results):
    return {name: value for result in results for name, value in result.items()}


def log_probs_of(model):
    """log p of the data, of each head, by the model."""
    names = list(model.output)
    x, y = data(names)

    def log_prob(x, *targets):
        outputs = model(x)
        return {n: outputs[n].log_prob(t) for n, t in zip(names, targets, strict=True)}

    return run(log_prob, x, *(y[name] for name in names))


@pytest.fixture(scope="module")
def trained_log_probs(models):
    return merged(map(log_probs_of, models))


@every_layer
def test_fit_changes_every_weight_of_the_projection(trained, name):
    ((model, before),) = [pair for pair in trained if name in pair[0].output]
    layer = model.get_layer(name)
    assert layer.projection.kernel.shape == (4, ROWS[name].columns)
    assert len(layer.trainable_weights) == 2
    for weight in layer.trainable_weights:
        # A gradient may happen to be too small for one number, not for a column.
        changed = np.atleast_2d(array(weight) != before[weight.path])
        assert np.all(np.any(changed, axis=0)), weight.path
        assert np.all(np.isfinite(array(weight))), weight.path


@every_layer
def test_a_projection_is_a_dense_layer_before_the_head(models, trained_log_probs, name):
    (model,) = [model for model in models if name in model.output]
    x, y = data()
    hidden, projection = model.layers[1], model.get_layer(name).projection
    raw = np.tanh(x @ array(hidden.kernel) + array(hidden.bias))
    raw = raw @ array(projection.kernel) + array(projection.bias)
    expected = ROWS[name].log_prob(raw.astype("float64"), y[name])
    np.testing.assert_allclose(trained_log_probs[name], expected, rtol=1e-3, atol=1e-4)


@pytest.fixture(scope="module")
def logs(models):
    return merged(
        model.evaluate(
            *data(model.output), batch_size=BATCH, verbose=0, return_dict=True
        )
        for model in models
    )


@every_layer
def test_evaluate_is_the_mean_of_the_log_density(trained_log_probs, logs, name):
    values = trained_log_probs[name].reshape(2 * BATCH, -1).sum(axis=1)
    np.testing.assert_allclose(logs[f"{name}_loss"], -values.mean(), rtol=1e-4)


# Samplers take long to compile: here some that differ in kind, above all of them.
PREDICTED = [
    "Normal",
    "Poisson",
    "Categorical",
    "OneHotCategorical",
    "MultivariateNormalTriL",
    "MultivariateNormalLowRank",
    "MixtureNormal",
    "MixtureOfVectors",
]


@pytest.fixture(scope="module")
def predicting(models):
    """The trained models, with some of their outputs."""
    return [
        keras.Model(
            model.input, {n: y for n, y in model.output.items() if n in PREDICTED}
        )
        for model in models
    ]


@pytest.fixture(scope="module")
def draws(predicting):
    x, _ = data()
    if keras.backend.backend() == "tensorflow":
        for model in predicting:
            model.compile(jit_compile=False)
    return merged(model.predict(x, batch_size=BATCH, verbose=0) for model in predicting)


@pytest.mark.parametrize("name", PREDICTED)
def test_predict_gives_draws(draws, name):
    assert draws[name].shape == (2 * BATCH, *ROWS[name].shape)
    assert draws[name].dtype == ROWS[name].dtype
    assert np.all(np.isfinite(draws[name]))


@pytest.fixture(scope="module")
def predictions(predicting):
    x, _ = data()
    return merged(
        bl.predict(model, x, num_samples=2, batch_size=BATCH, verbose=0)
        for model in predicting
    )


@pytest.mark.parametrize("name", PREDICTED)
def test_the_prediction_is_the_distribution_of_the_head(
    predictions, trained_log_probs, name
):
    # The weights are known, and so all draws of them equal.
    _, y = data()
    log_probs = trained_log_probs[name].reshape(2 * BATCH, -1).sum(axis=1)
    np.testing.assert_allclose(
        predictions[name].log_prob(y[name]), log_probs, rtol=1e-4, atol=1e-5
    )


@pytest.fixture(scope="module")
def loaded_log_probs(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    results = []
    for number, model in enumerate(models):
        model.save(folder / f"{number}.keras")
        loaded = keras.saving.load_model(folder / f"{number}.keras")
        for loss in loaded.loss.values():
            assert isinstance(loss, bl.losses.NegativeLogLikelihood)
        results.append(log_probs_of(loaded))
    return merged(results)


@every_layer
def test_saved_and_loaded_it_has_equal_distributions(
    loaded_log_probs, trained_log_probs, name
):
    np.testing.assert_allclose(
        loaded_log_probs[name], trained_log_probs[name], rtol=1e-6, atol=1e-6
    )
