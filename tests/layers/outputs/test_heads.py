"""Claims about single output layers: numbers that their documentation states."""

import keras
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss

import bayesian_layers as bl
from tests.layers.outputs.table import array, log_prob


def test_a_normal_takes_locations_first_and_softplus_of_scales_second():
    raw = np.array([[1.0, -2.0, 0.0, 50.0], [0.0, 0.0, -50.0, 1.0]], "float32")
    distribution = bl.layers.Normal()(raw).distribution
    np.testing.assert_allclose(array(distribution.mean()), raw[:, :2])
    # log(2), a number that softplus leaves, the floor, log(1 + e).
    np.testing.assert_allclose(
        array(distribution.stddev()),
        [[np.log(2.0) + 1e-5, 50.0], [1e-5, 1.3132617 + 1e-5]],
        rtol=1e-5,
    )


def test_a_normal_head_predicts_a_constant_with_its_noise():
    # Trained on noise alone, it finds the mean and the standard deviation of the data.
    y = stats.norm(3.0, 0.5).ppf((np.arange(64) + 0.5) / 64).astype("float32")
    x = np.zeros((150 * 64, 1), "float32")
    model = keras.Sequential([keras.Input((1,)), bl.layers.Normal(1)])
    model.compile(keras.optimizers.Adam(0.3), bl.losses.NegativeLogLikelihood())
    model.fit(x, np.tile(y, 150), batch_size=64, shuffle=False, verbose=0)
    distribution = model(x[:1]).distribution
    np.testing.assert_allclose(array(distribution.mean())[0, 0], y.mean(), atol=0.02)
    np.testing.assert_allclose(array(distribution.stddev())[0, 0], y.std(), rtol=0.03)


def test_a_categorical_has_the_log_loss_of_scikit_learn():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 3)).astype("float32")
    y = np.array([0, 1, 2, 2, 1, 0])
    probs = array(bl.layers.Categorical()(logits).distribution.probs)
    values = log_prob(bl.layers.Categorical(), logits, y)
    np.testing.assert_allclose(-values.mean(), log_loss(y, probs), rtol=1e-5)


@pytest.mark.parametrize("convert", ["mean", "mode"])
def test_metrics_of_keras_see_the_converted_value(convert):
    model = keras.Sequential([keras.Input((2,)), bl.layers.Normal(convert=convert)])
    model.compile(loss=bl.losses.NegativeLogLikelihood(), metrics=["mae"])
    x = np.array([[1.0, 0.0], [3.0, 1.0]], "float32")
    logs = model.evaluate(x, np.array([2.0, 5.0]), verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["mae"], 1.5, rtol=1e-6)


def test_the_next_layer_sees_the_converted_value():
    model = keras.Sequential(
        [
            keras.Input((2,)),
            bl.layers.Normal(convert="mean"),
            keras.layers.Rescaling(10.0),
        ]
    )
    outputs = model.predict(np.array([[1.0, 0.0], [3.0, 1.0]], "float32"), verbose=0)
    np.testing.assert_allclose(outputs, [[10.0], [30.0]])


def test_equal_seeds_give_equal_draws_and_one_layer_new_ones_each_time():
    x = np.zeros((4, 2), "float32")
    first, second = (bl.layers.Normal(seed=1) for _ in range(2))
    draws = [[array(layer(x)) for _ in range(2)] for layer in (first, second)]
    np.testing.assert_array_equal(draws[0], draws[1])
    # Four numbers that agree in all bits have a probability below 1e-20.
    assert np.all(draws[0][0] != draws[0][1])
