"""What every layer has to do whose draws are of another kind than one of its kernel."""

import json

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.weights.table import OTHERS, array, keras_layer

every_layer = pytest.mark.parametrize("name", OTHERS)


def held(model, x, seed):
    with bl.weights(model, seed=seed):
        return array(model(x))


@every_layer
def test_held_it_is_one_function_of_its_inputs(name):
    row = OTHERS[name]
    model, _ = row.model(name)
    x = row.inputs()
    outputs = held(model, x, 7)
    with bl.weights(model, seed=7):
        np.testing.assert_allclose(array(model(x[::-1]))[::-1], outputs, atol=1e-5)
        np.testing.assert_allclose(array(model(x[:1])), outputs[:1], atol=1e-5)
        predicted = model.predict(x, batch_size=3, verbose=0)
        np.testing.assert_allclose(predicted, outputs, atol=1e-5)
    functions = [held(model, x, seed) for seed in range(8)]
    assert any(np.max(np.abs(f - outputs)) > 1e-3 for f in functions)


@every_layer
def test_a_tape_replays_it(name):
    row = OTHERS[name]
    model, layer = row.model(name)
    x = row.inputs()
    with bl.tape() as tape:
        outputs = array(model(x))
    assert len(tape) == len(layer.random_weights)
    with bl.replay(tape):
        np.testing.assert_allclose(array(model(x[1:])), outputs[1:], atol=1e-5)


@every_layer
def test_at_the_mean_it_is_the_keras_layer(name):
    row = OTHERS[name]
    if not row.is_keras_at_the_mean:
        pytest.skip("has a rule of its own, tested with the layer")
    model, layer = row.model(name)
    reference = keras_layer(layer)
    reference.build((None, *row.input_shape))
    reference.set_weights([array(v) for v in layer._layer_weights])
    x = row.inputs()
    with bl.weights(model, "mean"):
        outputs = array(model(x))
    np.testing.assert_allclose(outputs, array(reference(x)), atol=1e-5)


@every_layer
def test_inference_draws_anew_and_predict_sees_the_spread(name):
    row = OTHERS[name]
    model, _ = row.model(name, seed=3)
    x = row.inputs(batch=2)
    calls = [model.predict_on_batch(x) for _ in range(8)]
    assert (np.max(np.std(calls, axis=0)) > 1e-3) == row.draws_anew
    prediction = bl.predict(model, x, num_samples=8, seed=1, verbose=0)
    assert prediction.samples.shape == (8, *calls[0].shape)
    assert np.max(prediction.epistemic) > 1e-6
    again = bl.predict(model, x[::-1], num_samples=8, seed=1, verbose=0)
    np.testing.assert_allclose(again.samples[:, ::-1], prediction.samples, atol=1e-5)


@every_layer
def test_examples_of_a_batch_see_different_draws(name):
    row = OTHERS[name]
    if not row.by_example:
        pytest.skip("has one draw for a batch")
    model, _ = row.model(name, seed=3)
    x = np.repeat(row.inputs(batch=1), 32, axis=0)
    assert np.max(np.ptp(model.predict_on_batch(x), axis=0)) > 1e-3


@every_layer
def test_fit_trains_every_weight_and_the_losses_are_counted_once(name):
    row = OTHERS[name]
    model, _ = row.model(name, seed=1, kl_scale=0.1)
    # Dropout has no weights of its own.
    model = keras.Sequential([model, keras.layers.Dense(2)])
    x = row.inputs(batch=8)
    y = np.ones((8, *model.output_shape[1:]), "float32")
    assert len(model.losses) == row.divergences
    before = [array(w) for w in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.any(array(weight) != old), weight.path
        assert np.all(np.isfinite(array(weight))), weight.path
    assert len(model.losses) == row.divergences


@every_layer
def test_saved_and_loaded_it_is_the_same_distribution_over_functions(name, tmp_path):
    row = OTHERS[name]
    model, layer = row.model(name, seed=7, name="layer", kl_scale=0.25)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for old, new in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(array(old), array(new))
    x = row.inputs()
    np.testing.assert_allclose(held(loaded, x, 5), held(model, x, 5), atol=1e-6)
    config = json.loads(json.dumps(layer.get_config()))
    copy = type(layer).from_config(config)
    assert json.dumps(copy.get_config()) == json.dumps(layer.get_config())
    assert copy.kl_scale == 0.25


@every_layer
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_in_mixed_precision_divergences_are_float32(name, policy):
    row = OTHERS[name]
    model, layer = row.model(name, dtype=policy)
    outputs = model(row.inputs())
    assert keras.backend.standardize_dtype(outputs.dtype) == layer.compute_dtype
    assert np.all(np.isfinite(array(outputs)))
    with bl.weights(model, seed=1):
        held_outputs = model(row.inputs())
    assert keras.backend.standardize_dtype(held_outputs.dtype) == layer.compute_dtype
    for loss in layer.losses:
        assert keras.backend.standardize_dtype(loss.dtype) == "float32"


@every_layer
def test_equal_seeds_give_equal_draws(name):
    row = OTHERS[name]
    (first, _), (second, _) = (row.model(name, seed=5) for _ in range(2))
    second.set_weights(first.get_weights())
    x = row.inputs()
    for _ in range(2):
        np.testing.assert_array_equal(array(first(x)), array(second(x)))
