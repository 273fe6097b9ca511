"""Temperature scaling of models of every kind."""

import json

import keras
import numpy as np
import pytest
from scipy import special
from sklearn.metrics import log_loss

import bayesian_layers as bl
from bayesian_layers.calibrate.temperature import best_temperature

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)).astype("float32")
LABELS = np.argmax(X + RNG.gumbel(size=X.shape), axis=-1)
ONE_HOT = np.eye(3)[LABELS]
# P(1) = sigmoid of the first column.
COINS = (X[:, :1] + RNG.logistic(size=(200, 1)) > 0.0).astype("int32")
SCALE = 5.0


def model_of(*layers, columns=3):
    """Logits that are five times too large, then layers."""
    scale = keras.layers.Dense(columns, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), scale, *layers])
    scale.set_weights([SCALE * np.eye(3)[:, :columns]])
    return model


# A model, its `from_logits`, its targets, and which of the logits it is of.
MODELS = {
    "logits": (lambda: model_of(), True, LABELS, "classes"),
    "logits, labels [n, 1]": (lambda: model_of(), True, LABELS[:, None], "classes"),
    "logits, one-hot labels": (lambda: model_of(), True, ONE_HOT, "classes"),
    "probabilities": (
        lambda: model_of(keras.layers.Softmax()),
        False,
        LABELS,
        "classes",
    ),
    "Categorical": (
        lambda: model_of(bl.layers.Categorical()),
        None,
        LABELS,
        "classes",
    ),
    "OneHotCategorical": (
        lambda: model_of(bl.layers.OneHotCategorical()),
        None,
        ONE_HOT,
        "classes",
    ),
    "one logit": (lambda: model_of(columns=1), True, COINS, "coin"),
    "one logit, labels [n]": (lambda: model_of(columns=1), True, COINS[:, 0], "coin"),
    "one probability": (
        lambda: model_of(keras.layers.Activation("sigmoid"), columns=1),
        False,
        COINS,
        "coin",
    ),
    "Bernoulli": (
        lambda: model_of(bl.layers.Bernoulli(), columns=1),
        None,
        COINS,
        "coin",
    ),
    "several Bernoulli": (
        lambda: model_of(bl.layers.Bernoulli()),
        None,
        ONE_HOT,
        "coins",
    ),
}


def reference(kind):
    """The temperature of the logits, and the probabilities at it."""
    if kind == "classes":
        temperature = best_temperature(SCALE * X[None], LABELS)
        return temperature, special.softmax(SCALE * X / temperature, axis=-1)
    logits, y = (SCALE * X[:, :1], COINS) if kind == "coin" else (SCALE * X, ONE_HOT)
    pairs = np.stack([np.zeros(logits.size), logits.ravel()], axis=-1)
    temperature = best_temperature(pairs[None], y.ravel().astype(int))
    return temperature, special.expit(logits / temperature)


def assert_close(probs, name):
    """They are those of the reference; float32 has few digits of 1 - p near p = 1."""
    _, expected = reference(MODELS[name][3])
    tolerance = 2e-3 if name == "one probability" else 2e-6
    np.testing.assert_allclose(probs, expected, atol=tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_it_scales_any_classifier_and_makes_a_plain_keras_model_of_it(name, tmp_path):
    make, from_logits, y, kind = MODELS[name]
    calibrated = bl.calibrate.TemperatureScaling(make(), from_logits=from_logits)
    assert calibrated.fit(X, y, verbose=0) is calibrated
    temperature, _ = reference(kind)
    np.testing.assert_allclose(calibrated.temperature, temperature, rtol=1e-4)
    assert_close(calibrated.predict(X, verbose=0), name)

    model = calibrated.to_keras()
    assert not [x for x in model.layers if type(x).__module__.startswith("bayesian")]
    model.save(tmp_path / "model.keras")
    outputs = keras.saving.load_model(tmp_path / "model.keras")(X)
    outputs = keras.ops.convert_to_numpy(outputs)
    if from_logits and kind == "coin":
        outputs = special.expit(outputs)
    elif from_logits:
        outputs = special.softmax(outputs, axis=-1)
    assert_close(outputs, name)


@pytest.fixture(scope="module")
def bayesian():
    random = bl.layers.DenseFlipout(3, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), random])
    random.kernel.assign(SCALE * np.eye(3))
    random.random_weights["kernel"].variables["scale"].assign(np.full((3, 3), 2.0))
    return model


def test_of_a_bayesian_model_each_draw_is_scaled_then_they_are_averaged(bayesian):
    calibrated = bl.calibrate.TemperatureScaling(
        bayesian, from_logits=True, num_samples=8, seed=3
    )
    calibrated.fit(X, LABELS, verbose=0)
    draws = bl.predict(bayesian, X, num_samples=8, seed=3, verbose=0).samples
    assert np.max(np.std(draws, axis=0)) > 1.0
    expected = best_temperature(draws, LABELS)
    np.testing.assert_allclose(calibrated.temperature, expected, rtol=1e-4)
    probs = np.mean(special.softmax(draws / expected, axis=-1), axis=0)
    found = calibrated.predict(X, verbose=0)
    np.testing.assert_allclose(found, probs, atol=1e-5)
    unscaled = np.mean(special.softmax(draws, axis=-1), axis=0)
    assert log_loss(LABELS, probs) < log_loss(LABELS, unscaled) - 0.01


def test_a_prediction_may_be_scaled_instead_of_a_model(bayesian):
    prediction = bl.predict(
        bayesian, X, num_samples=8, seed=3, from_logits=True, verbose=0
    )
    calibrated = bl.calibrate.TemperatureScaling().fit(prediction, LABELS)
    scaled = calibrated.scale(prediction)
    np.testing.assert_array_equal(calibrated.predict(prediction), scaled.probs)
    logits = keras.ops.convert_to_numpy(prediction.distribution.logits)
    log_probs = special.log_softmax(logits / calibrated.temperature, axis=-1)
    expected = special.logsumexp(log_probs, axis=0) - np.log(8)
    expected = np.take_along_axis(expected, LABELS[:, None], axis=-1)[:, 0]
    np.testing.assert_allclose(scaled.log_prob(LABELS), expected, atol=1e-4)
    entropies = -np.sum(np.exp(log_probs) * log_probs, axis=-1)
    np.testing.assert_allclose(scaled.aleatoric, np.mean(entropies, axis=0), atol=1e-5)
    assert np.all(scaled.entropy >= scaled.aleatoric - 1e-6)


def test_steps_of_a_sequence_have_one_temperature():
    model = keras.Sequential([keras.Input((10, 3)), keras.layers.Rescaling(SCALE)])
    calibrated = bl.calibrate.TemperatureScaling(model, from_logits=True)
    calibrated.fit(X.reshape(20, 10, 3), LABELS.reshape(20, 10), verbose=0)
    expected, probs = reference("classes")
    np.testing.assert_allclose(calibrated.temperature, expected, rtol=1e-5)
    found = calibrated.predict(X.reshape(20, 10, 3), verbose=0)
    np.testing.assert_allclose(found, probs.reshape(20, 10, 3), atol=2e-6)


@pytest.mark.parametrize("columns", [1, 3])
def test_probabilities_that_were_rounded_to_0_or_1_are_held_off_them(columns):
    # In float32 most of these are 0 and 1: the labels of some would be impossible.
    activation = keras.layers.Softmax() if columns == 3 else None
    activation = activation or keras.layers.Activation("sigmoid")
    model = model_of(keras.layers.Rescaling(300.0), activation, columns=columns)
    y = LABELS if columns == 3 else COINS
    assert np.any(keras.ops.convert_to_numpy(model(X)) == 0.0)
    calibrated = bl.calibrate.TemperatureScaling(model, from_logits=False)
    probs = calibrated.fit(X, y, verbose=0).predict(X, verbose=0)
    assert calibrated.temperature > 10.0
    assert np.all((probs > 0.0) & (probs < 1.0))
    exported = keras.ops.convert_to_numpy(calibrated.to_keras()(X))
    np.testing.assert_allclose(exported, probs, atol=1e-5)


def test_what_was_fitted_is_kept_by_the_config(bayesian):
    calibrated = bl.calibrate.TemperatureScaling(
        bayesian, from_logits=True, num_samples=4
    )
    calibrated.fit(X, LABELS, verbose=0)
    config = json.dumps(keras.saving.serialize_keras_object(calibrated))
    kept = keras.saving.deserialize_keras_object(json.loads(config))
    assert kept.get_config() == calibrated.get_config()
    assert kept.model is None
    kept.model = bayesian
    expected = calibrated.predict(X, verbose=0)
    np.testing.assert_allclose(kept.predict(X, verbose=0), expected, atol=1e-6)


def test_a_failed_fit_changes_nothing():
    calibrated = bl.calibrate.TemperatureScaling(model_of(), from_logits=True)
    temperature = calibrated.fit(X, LABELS, verbose=0).temperature
    with pytest.raises(ValueError, match="lower it is"):
        calibrated.fit(X, np.argmax(X, axis=-1), verbose=0)
    assert calibrated.temperature == temperature


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (LABELS + 1, "integers from 0 to 2. Received: y from 1 to 3"),
        (LABELS + 0.5, "integers from 0 to 2"),
        (LABELS[1:], "shape of the predictions"),
        (0.5 * ONE_HOT, "one-hot vectors"),
        (np.ones_like(ONE_HOT), "one-hot vectors"),
    ],
)
def test_other_labels_are_refused(y, message):
    calibrated = bl.calibrate.TemperatureScaling(model_of(), from_logits=True)
    with pytest.raises(ValueError, match=message):
        calibrated.fit(X, y, verbose=0)


def test_errors_say_what_to_do(bayesian):
    scaling = bl.calibrate.TemperatureScaling
    with pytest.raises(ValueError, match="was not fitted"):
        _ = scaling(model_of(), from_logits=True).temperature
    with pytest.raises(ValueError, match="from_logits=True"):
        scaling(model_of()).fit(X, LABELS, verbose=0)
    with pytest.raises(ValueError, match="Leave it out"):
        head = model_of(bl.layers.Categorical())
        scaling(head, from_logits=True).fit(X, LABELS, verbose=0)
    with pytest.raises(TypeError, match=r"keras.Model.*Received: 3"):
        scaling(3)
    with pytest.raises(ValueError, match="in the place of x"):
        scaling().fit(X, LABELS)
    stored = bl.predict(model_of(), X, 1, from_logits=True, verbose=0)
    with pytest.raises(ValueError, match="model=None"):
        scaling().fit(stored, LABELS).to_keras()
    with pytest.raises(ValueError, match="from_logits=None"):
        scaling(model_of()).fit(stored, LABELS).to_keras()
    with pytest.raises(ValueError, match="probabilities of classes.*Normal"):
        normal = model_of(bl.layers.Normal(1))
        scaling(normal).fit(stored, LABELS).to_keras()
    with pytest.raises(ValueError, match="to_deterministic"):
        scaling(bayesian, from_logits=True).fit(stored, LABELS).to_keras()
    moments = bl.predict(
        model_of(), X, 1, from_logits=True, store_samples=False, verbose=0
    )
    with pytest.raises(ValueError, match="store_samples=True"):
        scaling().fit(moments, LABELS)
    two = keras.Input((3,))
    two = keras.Model(two, [keras.layers.Dense(2)(two), keras.layers.Dense(2)(two)])
    with pytest.raises(ValueError, match="one output"):
        scaling(two, from_logits=True).fit(X, LABELS, verbose=0)
    with pytest.raises(ValueError, match="one output"):
        scaling(two, from_logits=True).fit(stored, LABELS).to_keras()


def test_logits_that_are_no_numbers_are_refused():
    model = model_of(keras.layers.Rescaling(np.nan))
    with pytest.raises(ValueError, match="finite predictions|to be real"):
        bl.calibrate.TemperatureScaling(model, from_logits=True).fit(
            X, LABELS, verbose=0
        )
