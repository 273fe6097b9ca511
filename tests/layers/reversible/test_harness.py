"""What every reversible layer has to do, whatever it computes."""

import json

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers.layers import reversible
from tests.differentiation import jacobian, run, values_and_grad
from tests.layers.reversible.table import BATCH, OTHERS, ROWS, array, model_of

every_layer = pytest.mark.parametrize("name", ROWS)
with_weights = pytest.mark.parametrize(
    "name", [name for name, row in ROWS.items() if row.built().trainable_variables]
)


def test_every_public_layer_is_in_the_table():
    layers = {name.split(",")[0] for name in ROWS}
    assert layers | OTHERS == set(reversible.__all__)


def base_of(row, *batch):
    """A random variable that the layer of a row can transform."""
    base = row.base()
    shape = (*batch, *row.shape)
    return bl.RandomVariable(base._broadcast_batch(shape), seed=1)


def tensors(given):
    return {key: ops.convert_to_tensor(value) for key, value in given.items()}


@every_layer
def test_it_leads_back_both_ways(name):
    row = ROWS[name]
    layer = row.built()
    x, given = row.draw(BATCH), row.draw_context(BATCH)

    def cycle(x):
        y = layer(x, **given)
        back = layer.reverse(y, **given)
        return y, back, layer(back, **given)

    y, back, again = run(cycle, x)
    np.testing.assert_allclose(back, x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(again, y, rtol=1e-4, atol=1e-4)


@every_layer
def test_log_determinants_are_those_of_the_jacobian(name):
    row = ROWS[name]
    layer = row.built()
    x, given = row.draw(BATCH), row.draw_context(BATCH)
    expected = []
    for i in range(2):
        arguments = {key: value[i : i + 1] for key, value in given.items()}

        def flat(x, arguments=arguments):
            y = layer(ops.reshape(x, (1, *row.shape)), **arguments)
            return ops.reshape(y, (-1,))

        matrix = jacobian(flat, x[i].reshape(-1))
        expected.append(np.linalg.slogdet(matrix.astype("float64"))[1])
    log_det = array(layer.log_det_jacobian(x, **given))
    assert log_det.shape == (BATCH,)
    np.testing.assert_allclose(log_det[:2], expected, rtol=1e-3, atol=1e-4)


@every_layer
def test_both_directions_agree_on_the_log_determinant(name):
    row = ROWS[name]
    layer = row.built()
    x, given = row.draw(BATCH), row.draw_context(BATCH)

    def both(x):
        y, forward = layer.forward_and_log_det(x, **tensors(given))
        return forward, layer.reverse_and_log_det(y, **tensors(given))[1]

    forward, backward = run(both, x)
    assert forward.shape == x.shape[: x.ndim - layer.event_rank]
    np.testing.assert_allclose(backward, -forward, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.grid])
def test_the_density_integrates_to_one(name):
    row = ROWS[name]
    layer = row.built()
    low, high = row.grid
    edges, step = np.linspace(low, high, 241, retstep=True, dtype="float32")
    points = edges[:-1] + step / 2
    grid = np.stack(np.meshgrid(points, points), axis=-1).reshape(-1, 2)
    given = {k: v[0] for k, v in row.draw_context(BATCH).items()}

    def log_prob(grid):
        values = layer(base_of(row), **given).log_prob(grid)
        return ops.sum(values, axis=-1) if len(values.shape) == 2 else values

    total = np.sum(np.exp(run(log_prob, grid).astype("float64"))) * step**2
    np.testing.assert_allclose(total, 1.0, atol=2e-2)


@with_weights
def test_gradients_reach_every_weight(name):
    row = ROWS[name]
    layer = row.built()
    given = row.draw_context(BATCH)
    y = array(layer(row.draw(BATCH), **given))
    weights = layer.trainable_variables

    def total(*values):
        with keras.StatelessScope(
            state_mapping=list(zip(weights, values, strict=True))
        ):
            variable = layer(base_of(row, BATCH), **given)
            density = ops.sum(variable.log_prob(y))
            return density + ops.sum(ops.sin(ops.convert_to_tensor(variable)))

    value, gradients = values_and_grad(total, *map(array, weights))
    assert np.isfinite(value)
    for weight, gradient in zip(weights, gradients, strict=True):
        assert np.all(np.isfinite(gradient)), weight.path
        assert np.any(gradient != 0.0), weight.path


@every_layer
def test_a_random_variable_goes_in_and_another_comes_out(name):
    row = ROWS[name]
    layer = row.built(name="flow")
    given = row.draw_context(BATCH)
    base = base_of(row, BATCH)
    with bl.tape() as tape:
        variable = layer(base, **given)
    assert list(tape) == ["flow"]
    assert isinstance(variable, bl.RandomVariable)
    x, y = array(base), array(variable)
    np.testing.assert_allclose(y, array(layer(x, **given)), rtol=1e-5, atol=1e-5)
    elements = base.distribution.log_prob(x)
    log_det = array(layer.log_det_jacobian(x, **given))
    expected = array(elements).reshape(BATCH, -1).sum(axis=1) - log_det
    # Of the value as it was made, and of a number, which has to be reversed.
    for value in (variable, y):
        log_prob = array(variable.log_prob(value)).reshape(BATCH, -1).sum(axis=1)
        np.testing.assert_allclose(log_prob, expected, rtol=1e-3, atol=1e-3)
    draws, log_probs = variable.sample_and_log_prob(3, seed=2)
    assert tuple(draws.shape) == (3, *y.shape)
    np.testing.assert_allclose(
        array(variable.log_prob(array(draws))), array(log_probs), rtol=1e-3, atol=1e-3
    )
    assert tuple(variable.sample(4, seed=2).shape) == (4, *y.shape)
    twice = bl.layers.Affine(1.0, 2.0)(variable)
    np.testing.assert_allclose(array(twice), 1.0 + 2.0 * y, rtol=1e-5, atol=1e-5)
    shift = array(twice.log_prob(twice)).sum() - array(variable.log_prob(y)).sum()
    np.testing.assert_allclose(shift, -y.size * np.log(2.0), rtol=1e-3, atol=1e-2)
    with bl.condition(flow=y + 0.01):
        np.testing.assert_array_equal(array(layer(base, **given)), y + 0.01)


@every_layer
def test_it_is_fitted_by_maximum_likelihood_and_a_file_keeps_it(name, tmp_path):
    row = ROWS[name]
    layer = row.built()
    model = model_of(layer, row)
    given = row.draw_context(BATCH)
    data = array(layer(row.draw(BATCH), **given))
    inputs = [row.draw(BATCH), *given.values()]
    inputs = inputs if row.context else inputs[0]
    model.compile(keras.optimizers.SGD(1e-3), bl.losses.NegativeLogLikelihood())
    if layer.trainable_variables:
        losses = model.fit(inputs, data, epochs=3, verbose=0).history["loss"]
        assert np.all(np.isfinite(losses))
        assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        array(loaded(inputs).log_prob(data)),
        array(model(inputs).log_prob(data)),
        rtol=1e-5,
        atol=1e-5,
    )
    assert model.predict(inputs, verbose=0).shape == data.shape


@every_layer
def test_its_config_is_json_and_makes_it_again(name):
    layer = ROWS[name].make(name="layer")
    config = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert type(again) is type(layer)
    assert json.dumps(again.get_config()) == json.dumps(layer.get_config())


@every_layer
def test_leading_axes_are_batch_axes(name):
    row = ROWS[name]
    layer = row.built()
    x, given = row.draw(6), row.draw_context(6)
    expected = run(lambda x: layer.forward_and_log_det(x, **tensors(given)), x)
    split = {key: value.reshape(3, 2, -1) for key, value in given.items()}

    def both(x):
        y, log_det = layer.forward_and_log_det(x, **tensors(split))
        return y, log_det, layer.reverse(y, **split)

    *outputs, back = run(both, x.reshape(3, 2, *row.shape))
    for output, reference in zip(outputs, expected, strict=True):
        assert output.shape == (3, 2, *reference.shape[1:])
        output = output.reshape(reference.shape)
        np.testing.assert_allclose(output, reference, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(back.reshape(x.shape), x, rtol=1e-3, atol=1e-3)
    symbolic = layer.compute_output_spec(keras.KerasTensor((None, *row.shape)))
    assert symbolic.shape == (None, *expected[0].shape[1:])


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
    layer, x = row.built(), row.draw(BATCH)
    if not row.context:
        with pytest.raises(ValueError, match="context"):
            layer(x, context=np.zeros((BATCH, 2), "float32"))
        return
    assert layer.takes_context
    one, two = row.draw_context(BATCH), row.draw_context(BATCH, seed=2)
    y = array(layer(x, **one))
    assert np.all(np.any(np.abs(y - array(layer(x, **two))) > 1e-6, axis=-1))
    with pytest.raises(ValueError, match="context"):
        layer(x)
    with pytest.raises(ValueError, match="context"):
        layer(x, context=np.zeros((BATCH, row.context + 1), "float32"))


@every_layer
def test_half_precision_computes_in_single(name):
    row = ROWS[name]
    if name.startswith("Sequential"):
        pytest.skip("A model has no policy of its own.")
    layer = row.built(dtype="mixed_bfloat16")
    x, given = row.draw(BATCH), row.draw_context(BATCH)
    y = layer(x, **given)
    assert keras.backend.standardize_dtype(y.dtype) == "float32"
    back = array(layer.reverse(y, **given))
    np.testing.assert_allclose(back, x, rtol=1e-3, atol=1e-3)
