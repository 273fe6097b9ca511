"""What every stochastic output layer has to do, whatever its family."""

import json

import keras
import numpy as np
import pytest
from keras.src.backend import get_keras_mask

import bayesian_layers as bl
from bayesian_layers.layers import outputs
from tests.differentiation import run, values_and_grad
from tests.layers.outputs.table import (
    ROWS,
    array,
    log_prob,
    make,
    parameters_of,
    raw_parameters,
    sequential,
)
from tests.statistics import assert_mean, assert_variance

every_layer = pytest.mark.parametrize("name", ROWS)
BATCH = 6


def test_every_public_layer_is_in_the_table():
    assert set(ROWS) == set(outputs.__all__)


# Densities.


@every_layer
@pytest.mark.parametrize("batch", [(BATCH,), (2, 3)], ids=["rank 2", "rank 3"])
def test_densities_are_those_of_scipy(name, batch):
    row, layer = ROWS[name], make(name)
    x, y = raw_parameters(name, *batch), row.draw_targets(*batch)
    expected = row.log_prob(x.astype("float64"), y)
    # Differences of large numbers have the rounding error of those.
    np.testing.assert_allclose(log_prob(layer, x, y), expected, rtol=1e-4, atol=1e-5)
    variable = layer(x)
    assert isinstance(variable, bl.RandomVariable)
    assert tuple(variable.shape) == (*batch, *row.shape)


@every_layer
def test_densities_and_their_gradients_are_finite_for_huge_inputs(name):
    row, layer = ROWS[name], make(name)
    # All signs of all columns, at a size where exp and softplus over- and underflow.
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * row.columns)).reshape(row.columns, -1)
    x = np.tile(1e4 * signs.T.astype("float32"), (len(row.targets), 1))
    y = np.repeat(np.array(row.targets, row.dtype), signs.shape[1])
    y = np.broadcast_to(y.reshape((-1, *[1] * len(row.shape))), (len(x), *row.shape))
    values, (gradient,) = values_and_grad(lambda x: layer(x).log_prob(y), x)
    assert np.all(np.isfinite(values))
    assert np.all(np.isfinite(gradient))


# Values.


@every_layer
def test_samples_have_the_moments_of_scipy(name):
    row, layer = ROWS[name], make(name, convert="sample", seed=3)
    raw = raw_parameters(name, 1, scale=0.5, seed=1)
    x = np.broadcast_to(raw[0], (4000, row.columns))
    samples = run(lambda x: layer(x).value, x)
    raw = raw[0].astype("float64")
    assert samples.dtype == row.dtype
    assert_mean(samples, row.mean(raw), detect=row.detect)
    assert_variance(samples, row.variance(raw), detect=2.0 * row.detect)


@every_layer
def test_mean_and_mode_are_the_value_and_the_distribution_stays(name):
    row = ROWS[name]
    x = raw_parameters(name, 2)
    for convert in row.conversions:
        variable = make(name, convert=convert)(x)
        distribution = variable.distribution
        expected = array(getattr(distribution, convert)())
        np.testing.assert_array_equal(array(variable), expected)
        assert expected.dtype == row.dtype
        np.testing.assert_allclose(
            array(variable.log_prob(row.draw_targets(2))),
            row.log_prob(x.astype("float64"), row.draw_targets(2)),
            rtol=1e-4,
        )


@every_layer
def test_the_tape_names_the_path_of_the_layer(name):
    layer = make(name, name="head")
    model = keras.Sequential(
        [keras.Input((ROWS[name].columns,)), layer], name="network"
    )
    with bl.tape() as tape:
        model(raw_parameters(name, 2))
    assert list(tape) == [layer.path]
    assert layer.path.endswith("head")


# Arguments.


@every_layer
def test_wrong_arguments_raise_with_what_was_given_and_expected(name):
    with pytest.raises(ValueError, match=r"'sample', 'mean', 'mode'.*'median'"):
        make(name, convert="median")
    for units in (0, -1, 2.0):
        with pytest.raises(ValueError, match=f"positive integer.*units={units}"):
            make(name, units)


@pytest.mark.parametrize("name", [name for name in ROWS if ROWS[name].missing])
def test_a_conversion_that_the_family_lacks_is_refused_at_once(name):
    # A model would be built with it, and fail in training.
    for convert in ROWS[name].missing:
        with pytest.raises(ValueError, match=convert):
            make(name, convert=convert)


@pytest.mark.parametrize("name", [name for name in ROWS if ROWS[name].wrong_columns])
def test_columns_that_fit_no_number_of_outputs_raise_with_both(name):
    row = ROWS[name]
    x = np.zeros((2, row.wrong_columns), "float32")
    pattern = rf"{row.columns}, .*columns.*with {row.wrong_columns}\."
    with pytest.raises(ValueError, match=pattern):
        make(name)(x)
    with pytest.raises(ValueError, match=pattern):
        make(name)(keras.Input((row.wrong_columns,)))
    with pytest.raises(ValueError, match=pattern):
        make(name).compute_output_shape((None, row.wrong_columns))


@every_layer
def test_the_config_survives_json(name):
    layer = make(
        name,
        ROWS[name].units,
        convert="mode",
        seed=4,
        kernel_initializer="he_normal",
        bias_initializer="ones",
        name="head",
    )
    copy = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
    assert copy.get_config() == layer.get_config()
    assert copy.units == ROWS[name].units
    assert (copy.convert, copy.seed, copy.name) == ("mode", 4, "head")


# Shapes and dtypes.


@every_layer
def test_the_spec_is_that_of_the_value(name):
    row = ROWS[name]
    for batch in [(None,), (None, 5)]:
        for units, columns in [(None, row.columns), (row.units, 3)]:
            layer = make(name, units)
            spec = layer(keras.KerasTensor((*batch, columns)))
            assert tuple(spec.shape) == (*batch, *row.shape)
            assert spec.dtype == row.dtype
            assert layer.compute_output_shape((*batch, columns)) == spec.shape


@every_layer
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_in_mixed_precision_the_distribution_is_float32(name, policy):
    row = ROWS[name]
    x = np.ones((2, 3), "float32")
    layer = make(name, row.units, dtype=policy)
    variable = layer(x)
    assert layer.projection.compute_dtype == layer.compute_dtype != "float32"
    assert variable.distribution.parameter_dtype == "float32"
    assert keras.backend.standardize_dtype(variable.dtype) == row.dtype
    assert layer(keras.KerasTensor((None, 3))).dtype == row.dtype
    assert np.all(np.isfinite(array(variable)))


@every_layer
def test_masks_pass_through(name):
    row = ROWS[name]
    x = np.concatenate([np.ones((2, 2, 3)), np.zeros((2, 1, 3))], axis=1)
    masked = keras.layers.Masking()(x.astype("float32"))
    variable = make(name, row.units)(masked)
    assert tuple(variable.shape) == (2, 3, *row.shape)
    np.testing.assert_array_equal(
        array(get_keras_mask(variable)), [[True, True, False]] * 2
    )


# Models.


@pytest.fixture(scope="module", params=ROWS)
def trained(request):
    """The name of a layer, a model with it that was trained, and its old weights."""
    name = request.param
    model = sequential(name, seed=2)
    before = [array(w) for w in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), bl.losses.NegativeLogLikelihood())
    x, y = data(name)
    history = model.fit(x, y, batch_size=BATCH, epochs=2, verbose=0)
    assert np.all(np.isfinite(history.history["loss"]))
    return name, model, before


def data(name):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2 * BATCH, 3)).astype("float32")
    y = np.minimum(ROWS[name].draw_targets(2 * BATCH), 3)
    return x, y


def test_fit_changes_every_weight(trained):
    name, model, before = trained
    assert model.layers[-1].projection.kernel.shape == (4, ROWS[name].columns)
    assert len(before) == 4
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.any(array(weight) != old), weight.path
        assert np.all(np.isfinite(array(weight))), weight.path


def test_a_projection_is_a_dense_layer_before_the_head(trained):
    name, model, _ = trained
    row, (x, y) = ROWS[name], data(name)
    hidden, projection = model.layers[0], model.layers[1].projection
    raw = np.tanh(x @ array(hidden.kernel) + array(hidden.bias))
    raw = raw @ array(projection.kernel) + array(projection.bias)
    np.testing.assert_allclose(
        log_prob(model, x, y), row.log_prob(raw.astype("float64"), y), rtol=1e-3
    )


def test_evaluate_is_the_mean_of_the_log_density(trained):
    name, model, _ = trained
    x, y = data(name)
    values = log_prob(model, x, y).reshape(len(x), -1).sum(axis=1)
    loss = model.evaluate(x, y, batch_size=BATCH, verbose=0)
    np.testing.assert_allclose(loss, -values.mean(), rtol=1e-4)


def test_predict_gives_draws(trained):
    name, model, _ = trained
    x, _ = data(name)
    draws = model.predict(x, batch_size=BATCH, verbose=0)
    assert draws.shape == (2 * BATCH, *ROWS[name].shape)
    assert draws.dtype == ROWS[name].dtype
    assert np.all(np.isfinite(draws))


def test_saved_and_loaded_it_has_equal_distributions(trained, tmp_path):
    name, model, _ = trained
    x, _ = data(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.loss, bl.losses.NegativeLogLikelihood)
    expected, seen = (m(x).distribution for m in (model, loaded))
    assert type(seen) is type(expected)
    for new, old in zip(parameters_of(seen), parameters_of(expected), strict=True):
        np.testing.assert_array_equal(new, old)


def test_a_functional_model_ends_with_the_random_variable(trained):
    name, model, _ = trained
    inputs = keras.Input((3,))
    functional = keras.Model(inputs, model.layers[1](model.layers[0](inputs)))
    x, _ = data(name)
    assert tuple(functional.output_shape) == (None, *ROWS[name].shape)
    variable = functional(x)
    assert isinstance(variable, bl.RandomVariable)
    for new, old in zip(
        parameters_of(variable.distribution),
        parameters_of(model(x).distribution),
        strict=True,
    ):
        np.testing.assert_array_equal(new, old)
