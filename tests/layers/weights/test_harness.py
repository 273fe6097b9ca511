"""What every layer with random weights has to do, whatever its family."""

import inspect
import json

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.table import (
    ELSEWHERE,
    FAMILIES,
    OTHERS,
    ROWS,
    array,
    compiled,
    estimator_of,
    keras_layer,
    make,
    make_built,
    random_weights,
)

every_layer = pytest.mark.parametrize("name", ROWS)


def plain_initializers(name):
    """Arguments that make none of the weights random."""
    parameters = inspect.signature(getattr(bl.layers, name)).parameters
    initializers = {
        key: "zeros" if key == "bias_initializer" else "glorot_uniform"
        for key in parameters
        if key.endswith("_initializer")
    }
    return initializers | {
        key: None for key in parameters if key.endswith("_regularizer")
    }


def random_bias(name):
    """Arguments that make the bias random, where a layer has one."""
    parameters = inspect.signature(getattr(bl.layers, name)).parameters
    if "bias_initializer" not in parameters:
        return {}
    return {"bias_initializer": "trainable_normal"}


def test_every_public_layer_is_in_the_table():
    layers = {
        name
        for name in bl.layers.weights.__all__
        if isinstance(getattr(bl.layers, name), type)
        and issubclass(getattr(bl.layers, name), keras.Layer)
    }
    assert layers == set(ROWS) | set(OTHERS) | set(ELSEWHERE)
    assert {name for name in FAMILIES if f"{name}Reparameterization" in ROWS} == set(
        FAMILIES
    )


@every_layer
def test_signature_is_that_of_keras_with_random_defaults(name):
    ours = inspect.signature(getattr(bl.layers, name)).parameters
    theirs = inspect.signature(getattr(bl.layers, name).keras_counterpart).parameters
    extra = [key for key in ours if key not in theirs]
    assert extra == [key for key in ("seed", "kl_scale") if key not in theirs]
    assert [key for key in ours if key in theirs] == list(theirs)
    known = ("activity",) if "bias" in ROWS[name].kernels else ("activity", "bias")
    for key, parameter in theirs.items():
        weight, _, kind = key.rpartition("_")
        if kind in ("initializer", "regularizer") and weight not in known:
            assert ours[key].default != parameter.default
        else:
            assert ours[key].default == parameter.default


@every_layer
def test_shapes_masking_and_config_are_those_of_keras(name):
    row, layer = ROWS[name], make_built(name)
    reference = keras_layer(layer)
    x = row.inputs()
    assert ops.shape(row.run(layer, x)) == ops.shape(row.run(reference, x))
    assert row.output_shape(layer) == row.output_shape(reference)
    assert layer.supports_masking == reference.supports_masking
    config = layer.get_config()
    assert set(config) - set(reference.get_config()) <= {"seed", "kl_scale"}
    assert {"seed", "kl_scale"} <= set(config)


@every_layer
def test_with_initializers_of_keras_it_is_the_keras_layer(name):
    row = ROWS[name]
    layer = make_built(name, **plain_initializers(name))
    reference = keras_layer(layer)
    row.build(reference)
    reference.set_weights(layer.get_weights())
    x = row.inputs()
    np.testing.assert_allclose(
        array(row.run(layer, x)), array(row.run(reference, x)), atol=1e-6
    )
    assert layer.losses == []
    assert [w.name for w in layer.weights] == [w.name for w in reference.weights]


@every_layer
def test_it_is_the_keras_layer_given_the_weights_that_were_drawn(name):
    row, layer = ROWS[name], make_built(name, **random_bias(name))
    reference = keras_layer(layer)
    row.build(reference)
    x = row.inputs()
    with bl.tape() as tape:
        outputs = row.run(layer, x)
    assert [path.rpartition("/")[2] for path in tape] == [
        w.name for w in reference.weights
    ]
    reference.set_weights([array(value) for value in tape.values()])
    expected = array(row.run(reference, x))
    np.testing.assert_allclose(array(outputs), expected, atol=1e-6)


@every_layer
def test_under_handlers_it_is_one_function_of_its_inputs(name):
    row, layer = ROWS[name], make_built(name)
    x = row.inputs(batch=4)
    with bl.tape() as tape:
        outputs = array(row.run(layer, x))
    with bl.replay(tape):
        reversed_outputs = array(row.run(layer, x[::-1]))[::-1]
        first = array(row.run(layer, x[:1]))
    np.testing.assert_allclose(reversed_outputs, outputs, atol=1e-6)
    np.testing.assert_allclose(first, outputs[:1], atol=1e-6)


@every_layer
def test_without_noise_it_is_the_keras_layer_at_the_mean(name):
    row, layer = ROWS[name], make_built(name)
    for weight in random_weights(layer):
        scale = weight.variables["scale"]
        scale.assign(ops.full(scale.shape, -100.0))
    reference = keras_layer(layer)
    row.build(reference)
    names = {w.name for w in reference.weights}
    reference.set_weights([array(w) for w in layer.weights if w.name in names])
    x = row.inputs()
    # Variational dropout keeps some noise: log(alpha) is clipped to -8 or more.
    tolerance = 0.3 if estimator_of(name) == "VariationalDropout" else 1e-6
    np.testing.assert_allclose(
        array(row.run(layer, x)), array(row.run(reference, x)), atol=tolerance
    )


@every_layer
def test_fit_trains_every_weight_and_the_losses_are_counted_once(name):
    row, layer = ROWS[name], make(name, seed=1, kl_scale=1.0)
    model = compiled(layer, row)
    x = row.inputs(batch=8)
    y = np.ones((8, *model.output_shape[1:]), "float32")
    assert len(model.losses) == len(row.kernels)
    before = [array(w) for w in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        # Softmax does not see what is added to the scores of all keys.
        if not weight.path.endswith("/key/bias"):
            assert np.any(array(weight) != old), weight.path
        assert np.all(np.isfinite(array(weight))), weight.path
    assert len(model.losses) == len(row.kernels)


@every_layer
def test_saved_and_loaded_it_has_equal_weights_and_draws(name, tmp_path):
    row, layer = ROWS[name], make(name, seed=7, name="layer", kl_scale=0.25)
    model = compiled(layer, row)
    model.save(tmp_path / "model.keras")
    loaded, again = (
        keras.saving.load_model(tmp_path / "model.keras") for _ in range(2)
    )
    for copy in (loaded, again):
        for old, new in zip(model.weights, copy.weights, strict=True):
            np.testing.assert_array_equal(array(old), array(new))
    x = row.inputs()
    np.testing.assert_array_equal(
        loaded.predict(x, verbose=0), again.predict(x, verbose=0)
    )
    with bl.tape() as tape:
        expected = array(model(x))
    with bl.replay(tape):
        np.testing.assert_array_equal(array(loaded(x)), expected)
    config = json.loads(json.dumps(layer.get_config()))
    copy = type(layer).from_config(config)
    # Tuples come back from JSON as lists.
    assert json.dumps(copy.get_config()) == json.dumps(layer.get_config())
    assert copy.kl_scale == 0.25


@every_layer
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_in_mixed_precision_scales_and_divergences_are_float32(name, policy):
    row, layer = ROWS[name], make_built(name, dtype=policy)
    outputs = row.run(layer, row.inputs())
    assert keras.backend.standardize_dtype(outputs.dtype) == layer.compute_dtype
    assert np.all(np.isfinite(array(outputs)))
    assert {keras.backend.standardize_dtype(w.dtype) for w in layer.weights} == {
        "float32"
    }
    for loss in layer.losses:
        assert keras.backend.standardize_dtype(loss.dtype) == "float32"


@every_layer
def test_equal_seeds_give_equal_draws(name):
    row = ROWS[name]
    first, second = (make_built(name, seed=5) for _ in range(2))
    second.set_weights(first.get_weights())
    x = row.inputs()
    for _ in range(2):
        np.testing.assert_array_equal(
            array(row.run(first, x)), array(row.run(second, x))
        )
