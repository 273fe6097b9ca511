"""Posteriors by flows: their divergence, their weights, and what they can be."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from tests.differentiation import run
from tests.initializers.checks import assert_saves_and_loads, dense, dense_model
from tests.layers.weights.table import array
from tests.statistics import assert_mean


def affine(**kwargs):
    return dense(
        kernel_initializer=bl.initializers.TrainableFlow(bl.layers.Affine(), **kwargs)
    )


def moved(layer):
    """Moves all weights away from where they start."""
    rng = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign(array(variable) + 0.3 * rng.normal(size=variable.shape))
    return layer


def normal_of(layer):
    """The mean and standard deviation of the elements of an affine flow's kernel."""
    scale = np.logaddexp(0.0, array(layer.random_weights["kernel"].variables["scale"]))
    shift = array(layer.kernel_flow.shift).reshape(3, 2)
    stddev = scale * np.exp(array(layer.kernel_flow.log_scale).reshape(3, 2))
    return array(layer.kernel) + scale * shift, stddev


def test_the_density_of_an_affine_flow_is_that_of_the_normal_distribution():
    layer = moved(affine())
    posterior = layer.random_weights["kernel"].posterior
    x = np.random.default_rng(1).normal(size=(4, 3, 2)).astype("float32")
    expected = stats.norm(*normal_of(layer)).logpdf(x).sum(axis=(1, 2))
    np.testing.assert_allclose(run(posterior.log_prob, x), expected, rtol=1e-4)
    draws, log_probs = run(lambda: posterior.sample_and_log_prob(3, seed=1))
    expected = stats.norm(*normal_of(layer)).logpdf(draws).sum(axis=(1, 2))
    np.testing.assert_allclose(log_probs, expected, rtol=1e-4)


def test_the_divergence_is_on_average_that_of_the_normal_distribution():
    """400 draws show an error of half of its standard deviation."""
    layer = moved(affine())
    mean, stddev = normal_of(layer)
    expected = np.sum(0.5 * (mean**2 + stddev**2 - 1.0) - np.log(stddev))
    draws = np.array([array(bl.total_kl(layer)) for _ in range(400)])
    assert len(np.unique(draws)) > 390  # Some of 400 may be equal in float32.
    assert_mean(draws[:, None], [expected], detect=[draws.std() / 2.0])


def test_the_divergence_runs_the_flow_forward_only():
    class OneWay(bl.layers.Affine):
        def reverse_and_log_det(self, y):
            raise AssertionError("reversed")

    layer = dense(kernel_initializer=bl.initializers.TrainableFlow(OneWay()))
    assert np.isfinite(array(bl.total_kl(layer)))


@pytest.mark.parametrize(
    "flow",
    [
        lambda: None,
        lambda: bl.Sequential(
            [
                bl.layers.RealNVP(keras.layers.Dense(4, activation="tanh")),
                bl.layers.InvertibleConv1x1(),
            ]
        ),
    ],
)
def test_a_flow_with_weights_is_trained_saved_and_loaded(flow, tmp_path):
    posterior = bl.initializers.TrainableFlow(flow())
    model = dense_model(kernel_initializer=posterior)
    layer = model.layers[-1]
    trained = {id(variable) for variable in layer.kernel_flow.trainable_variables}
    assert trained and trained <= {id(v) for v in model.trainable_variables}
    before = [array(v) for v in model.trainable_variables]
    bl.scale_kl(model, dataset_size=1)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    model.fit(x, x[:, :2], batch_size=4, epochs=2, verbose=0)
    changed = [
        np.any(array(v) != old)
        for v, old in zip(model.trainable_variables, before, strict=True)
    ]
    # The first layer of a MADE that starts at zero at its end waits for one step.
    assert np.all(changed)
    loaded = assert_saves_and_loads(model, tmp_path / "model.keras")
    weights = [m.layers[-1].random_weights["kernel"] for m in (model, loaded)]
    one, two = (run(lambda w=w: w.posterior.sample(seed=1)) for w in weights)
    np.testing.assert_array_equal(one, two)
    prediction = bl.predict(model, x, num_samples=3, seed=1, verbose=0)
    again = bl.predict(loaded, x, num_samples=3, seed=1, verbose=0)
    np.testing.assert_allclose(prediction.mean, again.mean, atol=1e-5)


def test_each_weight_has_a_flow_of_its_own():
    posterior = bl.initializers.TrainableFlow(bl.layers.Affine())
    layer = dense(kernel_initializer=posterior, bias_initializer=posterior)
    assert layer.kernel_flow is not layer.bias_flow
    assert tuple(layer.kernel_flow.shift.shape) == (6,)
    assert tuple(layer.bias_flow.shift.shape) == (2,)
    assert not posterior.flow.built


def test_the_divergence_stays_while_the_flow_is_trained():
    layer = affine()
    for variable in layer.random_weights["kernel"].variables.values():
        variable.trainable = False
    assert len(layer.losses) == 1
    layer.kernel_flow.trainable = False
    assert layer.losses == []


def test_it_is_held_at_a_draw_and_seen_on_a_tape():
    layer = affine()
    x = np.ones((4, 3), "float32")
    with bl.weights(layer, seed=3):
        np.testing.assert_array_equal(array(layer(x)), array(layer(x)))
    with bl.tape() as tape:
        layer(x)
    assert list(tape) == [f"{layer.name}/kernel"]
    assert tuple(next(iter(tape.values())).shape) == (3, 2)


def test_what_is_no_flow_of_vectors_is_refused():
    with pytest.raises(TypeError, match="`flow` should be a reversible layer"):
        bl.initializers.TrainableFlow(keras.layers.Dense(3))
    reshape = bl.initializers.TrainableFlow(bl.layers.Reshape((3, 2)))
    with pytest.raises(ValueError, match="should keep vectors of 6 elements"):
        dense(kernel_initializer=reshape)
    flow = bl.initializers.TrainableFlow(bl.layers.Affine())
    with pytest.raises(ValueError, match="symmetric"):
        layer = bl.layers.DenseFlipout(2, kernel_initializer=flow)
        layer.build((None, 3))


def test_two_modes_can_be_told():
    """What no normal distribution has: mass on both sides of a gap."""
    flow = bl.Sequential([bl.layers.Scale(8.0), bl.layers.Tanh()])
    layer = dense(kernel_initializer=bl.initializers.TrainableFlow(flow))
    posterior = layer.random_weights["kernel"].posterior
    at = array(layer.kernel)
    scale = np.logaddexp(0.0, -3.0)
    middle, side = (
        float(ops.convert_to_numpy(posterior.log_prob(at + scale * shift)))
        for shift in (0.0, 0.9)
    )
    # d/dx tanh(8 x) is 8 at 0, and 8 (1 - 0.81) where tanh is 0.9.
    z = np.arctanh(0.9) / 8.0
    expected = 6.0 * (stats.norm.logpdf(z) - stats.norm.logpdf(0.0) - np.log(0.19))
    np.testing.assert_allclose(side - middle, expected, rtol=1e-3)
