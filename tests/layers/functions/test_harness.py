"""Every public layer of the room of functions, through what Keras does with layers."""

import json
import warnings

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.layers.functions.processes import array, gradients
from tests.layers.functions.table import ELSEWHERE, LAYERS, ROWS

each_row = pytest.mark.parametrize("name", ROWS)


def distribution_at_the_mean(model, x):
    """What a model says of inputs where its function is the mean."""
    with bl.weights(model, "mean"):
        return model(x).distribution


def moment(distribution):
    """A number for each output that tells two distributions apart."""
    has_mean = hasattr(distribution, "_mean") and not hasattr(distribution, "probs")
    return array(distribution.mean() if has_mean else distribution.probs)


def train(model, row, **kwargs):
    bl.scale_kl(model, dataset_size=len(row.inputs))
    model.compile(keras.optimizers.SGD(1e-3), row.loss())
    with warnings.catch_warnings():
        # Of exact processes that are trained while they are conditioned.
        warnings.filterwarnings("ignore", message=".*it has seen the targets")
        return model.fit(
            row.inputs, row.targets, batch_size=len(row.inputs), verbose=0, **kwargs
        )


def test_every_public_layer_has_a_row():
    rows = {name.split(",")[0] for name in ROWS} | set(ELSEWHERE)
    assert set(LAYERS) == rows


@each_row
def test_symbolic_and_eager_shapes_agree(name):
    row = ROWS[name]
    model, _ = row.model(seed=0)
    outputs = model(row.inputs)
    symbolic = model.outputs[0]
    assert tuple(symbolic.shape) == (None, *outputs.shape[1:])
    dtypes = [keras.backend.standardize_dtype(y.dtype) for y in (symbolic, outputs)]
    assert dtypes[0] == dtypes[1]


@each_row
def test_gradients_reach_every_weight_and_each_divergence_counts_once(name):
    row = ROWS[name]
    model, layer = row.model(seed=0)
    assert len(layer.losses) == row.divergences
    rng = np.random.default_rng(1)
    for variable in layer.trainable_variables:
        # Away from the prior, where divergences have no gradient.
        noise = 0.1 * rng.normal(size=variable.shape)
        variable.assign(array(variable) + noise.astype("float32"))
    loss = row.loss()

    def total():
        divergence = bl.total_kl(model) / len(row.inputs)
        return loss(row.targets, model(row.inputs)) + divergence

    value, found = gradients(layer, total)
    assert np.isfinite(value)
    for weight, gradient in found.items():
        assert np.all(np.isfinite(gradient)), weight
        assert np.any(gradient != 0.0), weight


@each_row
def test_it_trains_and_a_file_keeps_it(name, tmp_path):
    row = ROWS[name]
    model, _ = row.model(seed=0)
    history = train(model, row, epochs=2)
    losses = history.history["loss"]
    assert np.all(np.isfinite(losses))
    assert losses[0] != losses[1]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = moment(distribution_at_the_mean(model, row.inputs))
    found = moment(distribution_at_the_mean(loaded, row.inputs))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@each_row
def test_its_config_is_json_and_makes_it_again(name):
    layer = ROWS[name].make(seed=0, name="layer")
    config = layer.get_config()
    again = type(layer).from_config(json.loads(json.dumps(config)))
    assert json.dumps(again.get_config()) == json.dumps(config)


@each_row
def test_prediction_holds_functions(name):
    row = ROWS[name]
    model, _ = row.model(seed=0)
    prediction = bl.predict(model, row.inputs, num_samples=3, seed=1, verbose=0)
    backwards = bl.predict(
        model, row.inputs[::-1], num_samples=3, seed=1, batch_size=4, verbose=0
    )
    expected = prediction.mean if not prediction.is_classifier else prediction.probs
    found = backwards.mean if not backwards.is_classifier else backwards.probs
    np.testing.assert_allclose(found[::-1], expected, atol=1e-4)


@each_row
def test_half_precision_computes_in_single(name):
    row = ROWS[name]
    layers = [keras.Input(row.inputs.shape[1:]), *row.before()]
    layers += [row.make(seed=0, dtype="mixed_bfloat16"), *row.after()]
    model = keras.Sequential(layers)
    distribution = model(row.inputs).distribution
    assert distribution.parameter_dtype == "float32"
    log_prob = array(distribution.log_prob(row.targets))
    assert np.all(np.isfinite(log_prob))
