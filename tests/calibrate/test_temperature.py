"""The temperature of the highest likelihood, against SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.metrics import log_loss

from bayesian_layers.calibrate.temperature import best_temperature


def simulated(draws=1, count=300, classes=4, scale=3.0, seed=0):
    """Logits `[draws, n, classes]` that are `scale` times too large, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(count, classes))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1)
    noise = 0.7 * rng.normal(size=(draws, count, classes)) * (draws > 1)
    return (scale * (logits + noise)).astype("float32"), labels


def mean_probs(logits, temperature):
    logits = logits.astype("float64") / temperature
    return np.mean(special.softmax(logits, axis=-1), axis=0)


def best_of_scipy(logits, labels, low, high):
    def loss(log_temperature):
        probs = mean_probs(logits, np.exp(log_temperature))
        return -np.mean(np.log(probs[np.arange(len(labels)), labels]))

    bounds = (np.log(low), np.log(high))
    found = optimize.minimize_scalar(
        loss, bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )
    return np.exp(found.x)


@pytest.mark.parametrize("draws", [1, 7])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("scale", [1e-6, 0.5, 1.0, 20.0, 1e6])
def test_it_is_that_of_scipy(draws, classes, scale):
    logits, labels = simulated(draws, classes=classes, scale=scale)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        temperature = best_temperature(logits, labels)
    expected = best_of_scipy(logits, labels, 0.1 * scale, 10.0 * scale)
    # Where the loss is flat, its values tell a minimum to half their digits.
    np.testing.assert_allclose(temperature, expected, rtol=1e-6)


@pytest.mark.parametrize("draws", [1, 7])
def test_no_temperature_has_a_lower_log_loss(draws):
    logits, labels = simulated(draws)
    temperature = best_temperature(logits, labels)
    least = log_loss(labels, mean_probs(logits, temperature))
    for factor in (0.1, 0.9, 0.999, 1.001, 1.1, 10.0):
        assert least < log_loss(labels, mean_probs(logits, factor * temperature))


def test_blocks_of_examples_change_nothing(monkeypatch):
    logits, labels = simulated(draws=3)
    expected = best_temperature(logits, labels)
    monkeypatch.setattr("bayesian_layers.calibrate.temperature.BLOCK_BYTES", 700)
    np.testing.assert_allclose(best_temperature(logits, labels), expected, rtol=1e-9)


def test_a_constant_in_the_logits_of_an_example_changes_nothing():
    logits, labels = simulated()
    shift = 1000.0 * np.arange(len(labels))[:, None]
    shifted = logits.astype("float64") + shift
    expected = best_temperature(logits, labels)
    np.testing.assert_allclose(best_temperature(shifted, labels), expected, rtol=1e-6)


def test_one_example_that_is_far_off_does_not_hide_the_minimum():
    logits, labels = simulated()
    logits[0, 0] = 0.0
    logits[0, 0, labels[0]] = 1e20
    expected = best_of_scipy(logits[:, 1:], labels[1:], 0.3, 30.0)
    np.testing.assert_allclose(best_temperature(logits, labels), expected, rtol=1e-6)


@pytest.mark.parametrize("draws", [1, 7])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_model_that_is_always_right_has_no_best_temperature(draws, scale):
    logits, _ = simulated(draws, scale=scale)
    logits = np.repeat(logits[:1], draws, axis=0)
    with pytest.raises(ValueError, match=r"lower it is.*300 labels"):
        best_temperature(logits, np.argmax(logits[0], axis=-1))


def test_draws_of_which_one_is_always_right_may_have_no_best_temperature():
    labels = np.random.default_rng(0).integers(3, size=50)
    right = np.eye(3)[labels]
    # The likelihood is (1 / 3 + softmax) / 2: it does not reach its supremum, 2 / 3.
    with pytest.raises(ValueError, match="lower it is"):
        best_temperature(np.stack([right, np.zeros_like(right)]), labels)


@pytest.mark.parametrize("seed", [1, 3, 23, 26, 30])
def test_of_several_minima_of_a_mixture_it_is_the_lowest(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(2, 4, 3)) * np.exp(2.0 * rng.normal(size=(2, 4, 1)))
    labels = rng.integers(3, size=4)

    def loss(temperature):
        probs = mean_probs(logits, temperature)
        return log_loss(labels, probs, labels=range(3))

    losses = np.array([loss(t) for t in np.geomspace(1e-3, 1e3, 300)])
    inner = losses[1:-1]
    assert np.sum((inner < losses[:-2]) & (inner < losses[2:])) == 2
    assert loss(best_temperature(logits, labels)) <= np.min(losses)


@pytest.mark.parametrize("draws", [1, 7])
def test_a_model_no_better_than_chance_has_no_best_temperature(draws):
    logits, labels = simulated(draws)
    with pytest.raises(ValueError, match=r"no better than chance.*300 labels"):
        best_temperature(-logits, labels)


def test_logits_that_are_all_the_same_have_no_best_temperature():
    with pytest.raises(ValueError, match="same for all classes"):
        best_temperature(np.full((1, 9, 3), 2.0), np.zeros(9, int))
