"""Conformal intervals and sets of models of every kind."""

import json
import warnings

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers.calibrate.predictions import has_random_draws
from tests.calibrate import predictions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype("float32")
Y = X[:, :1] + RNG.normal(size=(60, 1))
CLASSES = np.argmax(X + RNG.gumbel(size=X.shape), axis=-1)
NEW = RNG.normal(size=(7, 3)).astype("float32")
RANK = 55  # ceil(61 * 0.9)


def sequential(*layers):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((3,)), *layers])


@pytest.fixture(scope="module")
def plain():
    return sequential(keras.layers.Dense(1))


@pytest.fixture(scope="module")
def normal():
    """A Bayesian model with a head."""
    return sequential(bl.layers.DenseFlipout(4), bl.layers.Normal(1))


@pytest.fixture(scope="module")
def classifier():
    return sequential(keras.layers.Dense(3))


def ranked(scores):
    return np.sort(scores, axis=0)[RANK - 1]


@pytest.mark.parametrize("y", [Y, Y[:, 0], Y[:, 0].tolist()], ids=["[n, 1]", "[n]", ""])
def test_of_a_plain_model_intervals_are_around_its_outputs(plain, y):
    conformal = bl.calibrate.ConformalIntervals(plain, coverage=0.9)
    assert conformal.fit(X, y, verbose=0) is conformal
    outputs, new = plain.predict(X, verbose=0), plain.predict(NEW, verbose=0)
    expected = ranked(np.abs(Y - outputs))
    np.testing.assert_allclose(conformal.threshold, expected, rtol=1e-5)
    low, high = conformal.interval(NEW, verbose=0)
    np.testing.assert_allclose(low, new - expected, atol=1e-5)
    np.testing.assert_allclose(high, new + expected, atol=1e-5)


def test_normalized_intervals_are_as_wide_as_the_stddev(normal):
    conformal = bl.calibrate.ConformalNormalizedIntervals(
        normal, num_samples=5, seed=1
    ).fit(X, Y, verbose=0)
    held_out, new = (
        bl.predict(normal, x, num_samples=5, seed=1, verbose=0) for x in (X, NEW)
    )
    expected = ranked(np.abs(Y - held_out.mean) / held_out.stddev)
    np.testing.assert_allclose(conformal.threshold, expected, rtol=1e-5)
    low, high = conformal.interval(NEW, verbose=0)
    np.testing.assert_allclose(low, new.mean - expected * new.stddev, atol=1e-4)
    np.testing.assert_allclose(high, new.mean + expected * new.stddev, atol=1e-4)


def test_quantile_intervals_are_predictive_intervals_made_wider(normal):
    conformal = bl.calibrate.ConformalQuantileIntervals(
        normal, coverage=0.9, num_samples=5, seed=1
    ).fit(X, Y, verbose=0)
    held_out, new = (
        bl.predict(normal, x, num_samples=5, seed=1, verbose=0).interval(0.9)
        for x in (X, NEW)
    )
    expected = ranked(np.maximum(held_out[0] - Y, Y - held_out[1]))
    np.testing.assert_allclose(conformal.threshold, expected, rtol=1e-4)
    low, high = conformal.interval(NEW, verbose=0)
    np.testing.assert_allclose(low, new[0] - expected, atol=1e-4)
    np.testing.assert_allclose(high, new[1] + expected, atol=1e-4)


def test_of_a_plain_model_two_columns_are_quantiles():
    ends = np.sort(RNG.normal(size=(60, 2)), axis=-1)
    conformal = bl.calibrate.ConformalQuantileIntervals()
    conformal.fit(predictions.of_values(ends), Y)
    expected = ranked(np.maximum(ends[:, 0] - Y[:, 0], Y[:, 0] - ends[:, 1]))
    assert conformal.threshold == expected
    low, high = conformal.interval(predictions.of_values(ends[:7]))
    assert low.shape == high.shape == (7,)
    np.testing.assert_allclose(high - low, np.diff(ends[:7])[:, 0] + 2.0 * expected)


def test_ends_that_pass_each_other_meet_halfway():
    wide = predictions.of_values(np.tile([-5.0, 5.0], (60, 1)))
    conformal = bl.calibrate.ConformalQuantileIntervals().fit(wide, np.zeros(60))
    assert conformal.threshold == -5.0
    low, high = conformal.interval(predictions.of_values(np.array([[1.0, 4.0]])))
    assert low == high == 2.5


def test_each_output_has_a_threshold_of_its_own():
    values, y = RNG.normal(size=(2, 60, 2, 3))
    conformal = bl.calibrate.ConformalIntervals().fit(predictions.of_values(values), y)
    np.testing.assert_array_equal(conformal.threshold, ranked(np.abs(y - values)))


@pytest.mark.parametrize("y", [CLASSES, CLASSES[:, None], np.eye(3)[CLASSES]])
def test_sets_hold_the_probable_classes(classifier, y):
    conformal = bl.calibrate.ConformalSets(classifier, from_logits=True)
    conformal.fit(X, y, verbose=0)
    probs, new = (
        bl.predict(classifier, x, 1, from_logits=True, verbose=0).probs
        for x in (X, NEW)
    )
    expected = ranked(1.0 - probs[np.arange(60), CLASSES])
    np.testing.assert_allclose(conformal.threshold, expected, rtol=1e-5)
    sets = conformal.sets(NEW, verbose=0)
    assert sets.dtype == bool
    np.testing.assert_array_equal(sets, new >= 1.0 - expected)


def test_adaptive_sets_take_classes_from_the_most_probable_on():
    """Against a loop, for the random numbers of the seeds."""
    probs, new = RNG.dirichlet(np.ones(4), size=60), RNG.dirichlet(np.ones(4), size=9)
    classes = RNG.integers(4, size=60)

    def score(p, label, u):
        return sum(q for q in p if q > p[label]) + u * p[label]

    conformal = bl.calibrate.ConformalAdaptiveSets(seed=5)
    conformal.fit(predictions.of_classes(probs), classes)
    u = np.random.default_rng([5, 0]).random(60)
    expected = ranked([score(*row) for row in zip(probs, classes, u, strict=True)])
    np.testing.assert_allclose(conformal.threshold, expected)
    sets = conformal.sets(predictions.of_classes(new), seed=6)
    u = np.random.default_rng([6, 1]).random(9)
    scores = [[score(p, k, v) for k in range(4)] for p, v in zip(new, u, strict=True)]
    np.testing.assert_array_equal(sets, np.array(scores) <= expected)


def test_adaptive_sets_have_new_random_numbers_at_each_call():
    prediction = predictions.of_classes(RNG.dirichlet(np.ones(4), size=60))
    conformal = bl.calibrate.ConformalAdaptiveSets(seed=5)
    conformal.fit(prediction, RNG.integers(4, size=60))
    keras.utils.set_random_seed(1)
    sets = [conformal.sets(prediction) for _ in range(2)]
    keras.utils.set_random_seed(1)
    assert np.any(sets[0] != sets[1])
    np.testing.assert_array_equal(sets[0], conformal.sets(prediction))


@pytest.mark.parametrize("cls", ["ConformalSets", "ConformalAdaptiveSets"])
def test_of_zeros_and_ones_there_are_two_classes(cls):
    probs, y = RNG.uniform(size=(60, 1)), RNG.integers(2, size=60)
    both = np.concatenate([1.0 - probs, probs], axis=-1)
    found = [
        getattr(bl.calibrate, cls)(seed=1).fit(prediction, y)
        for prediction in (
            predictions.of_zeros_and_ones(probs),
            predictions.of_classes(both),
        )
    ]
    assert found[0].threshold == found[1].threshold
    seed = {"seed": 2} if cls == "ConformalAdaptiveSets" else {}
    sets = found[0].sets(predictions.of_zeros_and_ones(probs), **seed)
    expected = found[1].sets(predictions.of_classes(both), **seed)
    np.testing.assert_array_equal(sets, expected)


CLASSES_OF_OBJECTS = [
    bl.calibrate.ConformalIntervals,
    bl.calibrate.ConformalNormalizedIntervals,
    bl.calibrate.ConformalQuantileIntervals,
    bl.calibrate.ConformalSets,
    bl.calibrate.ConformalAdaptiveSets,
]


@pytest.mark.parametrize("cls", CLASSES_OF_OBJECTS)
def test_what_was_fitted_is_kept_by_the_config(cls):
    if "Sets" in cls.__name__:
        prediction, y = predictions.of_classes(RNG.dirichlet(np.ones(3), 60)), CLASSES
        arguments = {"from_logits": False}
    else:
        values = RNG.normal(size=(60, 2, 2))
        prediction, y = predictions.of_normals(values, np.ones_like(values)), values + 1
        arguments = {}
        if cls is bl.calibrate.ConformalQuantileIntervals:
            prediction, y = predictions.of_values(values), values[..., 0]
    arguments |= {"coverage": 0.8, "num_samples": 3, "seed": 4}
    conformal = cls(**arguments)
    before = _kept(conformal)
    with pytest.raises(ValueError, match="was not fitted"):
        _ = before.threshold
    conformal.fit(prediction, y)
    kept = _kept(conformal)
    assert kept.get_config() == conformal.get_config()
    assert {name: kept.get_config()[name] for name in arguments} == arguments
    method, seed = "interval", {}
    if "Sets" in cls.__name__:
        method = "sets"
    if cls is bl.calibrate.ConformalAdaptiveSets:
        seed = {"seed": 1}
    expected = getattr(conformal, method)(prediction, **seed)
    np.testing.assert_array_equal(getattr(kept, method)(prediction, **seed), expected)


def _kept(conformal):
    config = json.dumps(keras.saving.serialize_keras_object(conformal))
    return keras.saving.deserialize_keras_object(json.loads(config))


def test_new_data_is_predicted_by_the_draws_of_held_out_data(normal):
    conformal = bl.calibrate.ConformalIntervals(normal, num_samples=5)
    conformal.fit(X, Y, verbose=0)
    low, high = conformal.interval(NEW, verbose=0)
    same = bl.predict(normal, NEW, num_samples=5, seed=conformal.seed, verbose=0)
    np.testing.assert_allclose(conformal.interval(same)[0], low, atol=1e-6)
    np.testing.assert_allclose(0.5 * (low + high), same.mean, atol=1e-5)
    for arguments in ({"seed": conformal.seed + 1}, {"num_samples": 4}):
        arguments = {"seed": conformal.seed, "num_samples": 5} | arguments
        other = bl.predict(normal, NEW, verbose=0, **arguments)
        with pytest.warns(UserWarning, match="same draws of the weights"):
            conformal.interval(other)


@pytest.mark.parametrize("with_model", [True, False])
def test_draws_of_a_model_that_is_not_random_are_all_the_same(plain, with_model):
    conformal = bl.calibrate.ConformalIntervals(plain if with_model else None)
    count = 100 if with_model else 1
    conformal.fit(predictions.of_values(X[:, :1], 1, seed=1), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conformal.interval(predictions.of_values(NEW[:, :1], count, seed=2))


def after_a_head(function):
    inputs = keras.Input((3,))
    return keras.Model(inputs, function(bl.layers.Normal(2)(inputs)))


def test_several_models_predict_together(plain):
    other = sequential(keras.layers.Dense(1, kernel_initializer="ones"))
    conformal = bl.calibrate.ConformalIntervals([plain, other]).fit(X, Y, verbose=0)
    low, high = conformal.interval(NEW, verbose=0)
    expected = 0.5 * (plain.predict(NEW, verbose=0) + other.predict(NEW, verbose=0))
    np.testing.assert_allclose(0.5 * (low + high), expected, atol=1e-5)


# Models, and whether their predictions differ from draw to draw.
DRAWS = {
    "plain": (
        lambda: sequential(keras.layers.Dense(1), keras.layers.Dropout(0.5)),
        False,
    ),
    "head": (lambda: sequential(keras.layers.Dense(2), bl.layers.Normal(1)), False),
    "random weights": (lambda: sequential(bl.layers.DenseFlipout(1)), True),
    "head of random weights": (
        lambda: sequential(bl.layers.DenseFlipout(2), bl.layers.Normal(1)),
        True,
    ),
    "head in the middle": (lambda: after_a_head(keras.layers.Dense(1)), True),
    "operation on a head": (lambda: after_a_head(lambda drawn: 2.0 * drawn), True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_what_differs_from_draw_to_draw_is_known(name):
    make, is_random = DRAWS[name]
    assert has_random_draws(make()) is is_random


@pytest.mark.parametrize(("name", "count"), [("head", 1), ("random weights", 100)])
def test_what_is_not_random_is_predicted_by_one_draw(name, count):
    make, _ = DRAWS[name]
    conformal = bl.calibrate.ConformalIntervals(make(), seed=1).fit(X, Y, verbose=0)
    assert conformal.get_config()["fitted"]["draws"][0] == count


REFUSED = {
    "few examples": (
        bl.calibrate.ConformalIntervals(coverage=0.95),
        predictions.of_values(Y[:18]),
        Y[:18],
        "needs at least 19 held-out examples. Received: 18",
    ),
    "classes": (
        bl.calibrate.ConformalIntervals(),
        predictions.of_classes(np.full((60, 3), 1 / 3)),
        Y,
        "ConformalSets",
    ),
    "numbers": (
        bl.calibrate.ConformalSets(),
        predictions.of_values(X),
        CLASSES,
        "is for classifiers",
    ),
    "several classes each": (
        bl.calibrate.ConformalSets(),
        predictions.of_zeros_and_ones(np.full((60, 3), 0.5)),
        np.zeros((60, 3)),
        r"one output of classes.*\(60, 3\)",
    ),
    "steps": (
        bl.calibrate.ConformalSets(),
        predictions.of_classes(np.full((60, 4, 3), 1 / 3)),
        np.zeros((60, 4)),
        r"one output of classes.*\(60, 4, 3\)",
    ),
    "no uncertainty": (
        bl.calibrate.ConformalNormalizedIntervals(),
        predictions.of_values(Y),
        Y,
        "for 60 of 60 outputs",
    ),
    "one quantile": (
        bl.calibrate.ConformalQuantileIntervals(),
        predictions.of_values(Y),
        Y,
        r"last axis of size 2.*\(60, 1\)",
    ),
    "predictions that are no numbers": (
        bl.calibrate.ConformalIntervals(),
        predictions.of_values(np.full((60, 1), np.nan)),
        Y,
        "with 60 numbers that are not",
    ),
    "probabilities that are no numbers": (
        bl.calibrate.ConformalSets(),
        predictions.of_classes(np.full((60, 3), np.nan)),
        CLASSES,
        "180 numbers that are not",
    ),
    "targets that are no numbers": (
        bl.calibrate.ConformalIntervals(),
        predictions.of_values(Y),
        np.full_like(Y, np.inf),
        "finite scores.* 60 of them",
    ),
    "other targets": (
        bl.calibrate.ConformalIntervals(),
        predictions.of_values(Y),
        Y[1:],
        r"shape of the predictions.*\(59, 1\)",
    ),
    "other labels": (
        bl.calibrate.ConformalSets(),
        predictions.of_classes(np.full((60, 3), 1 / 3)),
        CLASSES - 1,
        "integers from 0 to 2. Received: y from -1 to 1",
    ),
    "no prediction": (bl.calibrate.ConformalIntervals(), X, Y, "in the place of x"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_calibrated_is_refused(name):
    conformal, prediction, y, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        conformal.fit(prediction, y)
    with pytest.raises(ValueError, match="was not fitted"):
        _ = conformal.threshold
