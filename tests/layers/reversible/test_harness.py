"""What every reversible layer has to do, whatever it computes.

What is computed of a row is computed in one go, and looked at in parts: on JAX most of
the time is compilation.
"""

import functools
import json

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers.layers import reversible
from tests.differentiation import jacobian, run, values_and_grad
from tests.layers.reversible.table import (
    BATCH,
    OTHERS,
    ROWS,
    array,
    key,
    model_of_all,
)

every_layer = pytest.mark.parametrize("name", ROWS)


def test_every_public_layer_is_in_the_table():
    layers = {name.split(",")[0] for name in ROWS}
    assert layers | OTHERS == set(reversible.__all__)


def base_of(row, *batch, **kwargs):
    """A random variable that the layer of a row can transform."""
    distribution = row.base()._broadcast_batch((*batch, *row.shape))
    return bl.RandomVariable(distribution, seed=1, **kwargs)


def tensors(given):
    return {key: ops.convert_to_tensor(value) for key, value in given.items()}


@functools.cache
def computed(name):
    """Inputs, and all that a layer makes of them, as NumPy arrays."""
    row = ROWS[name]
    layer = row.built()
    x, given = row.draw(6), row.draw_context(6)

    def everything(x):
        context = tensors(given)
        y, log_det = layer.forward_and_log_det(x, **context)
        back, back_log_det = layer.reverse_and_log_det(y, **context)
        folded = {name: ops.reshape(c, (3, 2, -1)) for name, c in context.items()}
        by_axes = layer.forward_and_log_det(
            ops.reshape(x, (3, 2, *row.shape)), **folded
        )
        variable = layer(base_of(row, 6, value=x), **context)
        draws, log_probs = variable.sample_and_log_prob(3, seed=2)
        return {
            "called": layer(x, **context),
            "reversed": layer.reverse(y, **context),
            "log_det_jacobian": layer.log_det_jacobian(x, **context),
            "forward": (y, log_det),
            "back": (back, back_log_det),
            "again": layer(back, **context),
            "by_axes": (*by_axes, layer.reverse(by_axes[0], **folded)),
            "value": ops.convert_to_tensor(variable),
            "base_log_prob": base_of(row, 6).log_prob(x),
            "log_prob": (variable.log_prob(variable), variable.log_prob(y)),
            "sampled": (log_probs, variable.log_prob(draws + 0.0)),
            "samples": (draws, variable.sample(4, seed=2)),
        }

    return x, run(everything, x)


def per_example(values):
    return values.reshape(len(values), -1).sum(axis=1)


def close(actual, expected, tolerance=1e-4):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@every_layer
def test_it_leads_back_both_ways(name):
    x, found = computed(name)
    y = found["forward"][0]
    close(found["called"], y, 1e-5)
    close(found["back"][0], x)
    close(found["reversed"], x)
    close(found["again"], y)


@every_layer
def test_both_directions_agree_on_the_log_determinant(name):
    x, found = computed(name)
    log_det = found["forward"][1]
    rank = ROWS[name].built().event_rank
    assert log_det.shape == x.shape[: x.ndim - rank]
    close(found["back"][1], -log_det, 1e-3)
    assert found["log_det_jacobian"].shape == (6,)
    close(found["log_det_jacobian"], per_example(log_det), 1e-5)


@every_layer
def test_log_determinants_are_those_of_the_jacobian(name):
    row = ROWS[name]
    layer = row.built()
    x, given = row.draw(6)[:2], row.draw_context(6)
    context = {name: c[:2] for name, c in given.items()}

    def flat(x):
        y = layer(ops.reshape(x, (2, *row.shape)), **tensors(context))
        return ops.reshape(y, (-1,))

    size = x[0].size
    matrix = jacobian(flat, x.reshape(-1)).astype("float64")
    # Examples do not depend on each other.
    assert not np.any(matrix[:size, size:]) and not np.any(matrix[size:, :size])
    expected = [
        np.linalg.slogdet(block)[1]
        for block in (matrix[:size, :size], matrix[size:, size:])
    ]
    close(computed(name)[1]["log_det_jacobian"][:2], expected, 1e-3)


@every_layer
def test_leading_axes_are_batch_axes(name):
    x, found = computed(name)
    *outputs, back = found["by_axes"]
    for output, reference in zip(outputs, found["forward"], strict=True):
        assert output.shape == (3, 2, *reference.shape[1:])
        close(output.reshape(reference.shape), reference, 1e-5)
    close(back.reshape(x.shape), x, 1e-3)


@every_layer
def test_a_random_variable_goes_in_and_another_comes_out(name):
    _, found = computed(name)
    y, log_det = found["forward"]
    close(found["value"], y, 1e-5)
    expected = per_example(found["base_log_prob"]) - per_example(log_det)
    # Of the value as it was made, and of numbers, which have to be reversed.
    for log_prob in found["log_prob"]:
        close(per_example(log_prob), expected, 1e-3)
    known, reversed_ = found["sampled"]
    assert known.shape[:2] == (3, 6)
    close(known, reversed_, 1e-3)
    draws, more = found["samples"]
    assert draws.shape == (3, *y.shape)
    assert more.shape == (4, *y.shape)


@every_layer
def test_the_output_is_recorded_set_and_transformed_by_its_name(name):
    row = ROWS[name]
    layer, given = row.built(name="flow"), row.draw_context(6)
    base = base_of(row, 6, value=row.draw(6))
    with bl.tape() as tape:
        variable = layer(base, **given)
    assert list(tape) == ["flow"]
    assert isinstance(variable, bl.RandomVariable)
    y = array(variable)
    with bl.condition(flow=y + 0.01):
        np.testing.assert_array_equal(array(layer(base, **given)), y + 0.01)
    close(array(bl.layers.Shift(1.0)(variable)), 1.0 + y, 1e-5)


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.grid])
def test_the_density_integrates_to_one(name):
    row = ROWS[name]
    layer = row.built()
    edges, step = np.linspace(*row.grid, 241, retstep=True, dtype="float32")
    points = edges[:-1] + step / 2
    grid = np.stack(np.meshgrid(points, points), axis=-1).reshape(-1, 2)
    given = {k: v[0] for k, v in row.draw_context(BATCH).items()}

    def log_prob(grid):
        values = layer(base_of(row), **given).log_prob(grid)
        return ops.sum(values, axis=-1) if len(values.shape) == 2 else values

    total = np.sum(np.exp(run(log_prob, grid).astype("float64"))) * step**2
    np.testing.assert_allclose(total, 1.0, atol=2e-2)


@every_layer
def test_gradients_reach_every_weight(name):
    row = ROWS[name]
    layer = row.built()
    x, given = row.draw(6), row.draw_context(6)
    y = computed(name)[1]["forward"][0]
    weights = layer.trainable_variables
    if not weights:
        return

    def total(*values):
        pairs = list(zip(weights, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            variable = layer(base_of(row, 6, value=x), **given)
            density = ops.sum(variable.log_prob(y))
            return density + ops.sum(ops.sin(ops.convert_to_tensor(variable)))

    value, gradients = values_and_grad(total, *map(array, weights))
    assert np.isfinite(value)
    for weight, gradient in zip(weights, gradients, strict=True):
        assert np.all(np.isfinite(gradient)), weight.path
        assert np.any(gradient != 0.0), weight.path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Losses by row, and the log-densities before and after a file."""
    layers = {name: row.built() for name, row in ROWS.items()}
    model = model_of_all(layers)
    data = {key(name): computed(name)[1]["forward"][0] for name in ROWS}
    context = next(row for row in ROWS.values() if row.context).draw_context(6)
    inputs = [np.zeros((6, 1), "float32"), context["context"]]
    losses = {name: bl.losses.NegativeLogLikelihood() for name in data}
    model.compile(keras.optimizers.SGD(1e-3), losses)
    history = model.fit(inputs, data, epochs=3, verbose=0).history
    path = tmp_path_factory.mktemp("reversible") / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)

    def log_probs(model):
        def of_all(*inputs):
            outputs = model(list(inputs))
            return {name: y.log_prob(data[name]) for name, y in outputs.items()}

        return run(of_all, *inputs)

    predicted = model.predict(inputs, verbose=0)
    return history, log_probs(model), log_probs(loaded), predicted


@every_layer
def test_it_is_fitted_by_maximum_likelihood_and_a_file_keeps_it(fitted, name):
    history, before, after, predicted = fitted
    losses = history[f"{key(name)}_loss"]
    assert np.all(np.isfinite(losses))
    if ROWS[name].built().trainable_variables:
        assert losses[-1] < losses[0]
    close(after[key(name)], before[key(name)], 1e-5)
    assert predicted[key(name)].shape == computed(name)[1]["forward"][0].shape


@every_layer
def test_its_config_is_json_and_makes_it_again(name):
    layer = ROWS[name].make(name="layer")
    config = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert type(again) is type(layer)
    assert json.dumps(again.get_config()) == json.dumps(layer.get_config())


@every_layer
def test_symbolic_shapes_are_those_of_numbers(name):
    row = ROWS[name]
    layer = row.built()
    given = {"context": keras.KerasTensor((None, 2))} if row.context else {}
    symbolic = layer(keras.Input(row.shape), **given)
    expected = computed(name)[1]["forward"][0].shape[1:]
    assert tuple(symbolic.shape) == (None, *expected)


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.bad_shape])
def test_shapes_that_do_not_fit_are_refused(name):
    row = ROWS[name]
    layer, given = row.built(), row.draw_context(BATCH)
    bad = np.zeros((BATCH, *row.bad_shape), "float32")
    for use in (layer, layer.reverse, layer.log_det_jacobian):
        with pytest.raises(ValueError, match=r"(?s)expects.*Received"):
            use(bad, **given)


@every_layer
def test_a_context_is_used_or_refused(name):
    row = ROWS[name]
    layer, x = row.built(), row.draw(6)
    if not row.context:
        with pytest.raises(ValueError, match="context"):
            layer(x, context=np.zeros((6, 2), "float32"))
        return
    assert layer.takes_context
    other = array(layer(x, **row.draw_context(6, seed=2)))
    difference = np.abs(computed(name)[1]["forward"][0] - other)
    assert np.all(np.max(difference, axis=-1) > 1e-6)
    with pytest.raises(ValueError, match="context"):
        layer(x)
    with pytest.raises(ValueError, match="context"):
        layer(x, context=np.zeros((6, row.context + 1), "float32"))


@pytest.mark.parametrize("name", [n for n in ROWS if not n.startswith("Sequential")])
def test_half_precision_computes_in_single(name):
    row = ROWS[name]
    layer = row.built(dtype="mixed_bfloat16")
    given = row.draw_context(6)

    def cycle(x):
        y = layer(x, **given)
        return y, layer.reverse(y, **given)

    x = row.draw(6)
    y, back = run(cycle, x)
    assert y.dtype == "float32"
    close(back, x, 1e-3)
