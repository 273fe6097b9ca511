"""AUROC and FPR95, against scikit-learn."""

import keras
import numpy as np
import pytest
from keras import ops
from sklearn.metrics import roc_auc_score

import bayesian_layers as bl
from bayesian_layers.metrics.histogram import NUM_CELLS, cell_of, cells_of
from bayesian_layers.prediction.moments import Moments
from tests.layers.outputs.table import array
from tests.metrics import references
from tests.metrics.table import no_loss

RNG = np.random.default_rng(3)
FLAGS = RNG.integers(0, 2, 500)
DISTRIBUTIONS = {
    "around a large number": RNG.normal(-1000.0 + FLAGS, 2.0),
    "of all sizes": RNG.standard_cauchy(500) ** 5 + FLAGS,
    "close to 0": np.exp(-20.0 * RNG.uniform(size=500) - 3.0 * FLAGS),
    "with ties": RNG.integers(-3, 4, 500) + FLAGS,
    "infinite": np.where(RNG.uniform(size=500) < 0.3, np.inf, FLAGS),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_they_are_those_of_scikit_learn_up_to_the_resolution(name):
    scores = DISTRIBUTIONS[name].astype("float32")
    result = float(bl.metrics.AUROC()(FLAGS, scores))
    # Pairs that may count as equal, by half of each.
    positive, negative = scores[FLAGS == 1][:, None], scores[FLAGS == 0]
    size = np.maximum(np.abs(positive), np.abs(negative))
    with np.errstate(invalid="ignore"):
        distance = np.abs(positive - negative)
    close = (distance > 0) & (distance < size / 4096)
    finite = np.nan_to_num(scores, posinf=1e30)
    np.testing.assert_allclose(
        result, roc_auc_score(FLAGS, finite), atol=0.5 * close.mean() + 1e-5
    )
    assert close.mean() < 0.2
    result = float(bl.metrics.FPR95()(FLAGS, scores))
    # The threshold may be wrong by the scores of its cell.
    expected = references.fpr95(FLAGS, finite)
    np.testing.assert_allclose(
        result,
        expected,
        atol=close.mean(axis=1).max() + close.mean(axis=0).max() + 1e-5,
    )


def test_cells_are_in_the_order_of_numbers():
    numbers = RNG.standard_cauchy(2000) ** RNG.choice([1, 3, 9, 15], 2000)
    numbers = np.r_[numbers, 0.0, 1e-30, -1e-30, 1e30, -1e30, np.inf, -np.inf]
    numbers = np.sort(numbers.astype("float32"))
    cells = array(cells_of(numbers))
    assert np.all(np.diff(cells) >= 0)
    assert cells.min() == 0 and cells.max() == NUM_CELLS - 1
    told = (np.abs(numbers) > 2.0**-64) & (np.abs(numbers) < 2.0**64)
    numbers, cells = numbers[told], cells[told]
    apart = np.diff(numbers) > np.maximum(*np.abs([numbers[1:], numbers[:-1]])) / 4096
    assert apart.sum() > 1000
    assert np.all(np.diff(cells)[apart] > 0)
    assert int(cells_of(0.0)) == int(cells_of(-0.0))
    assert [cell_of(x) for x in (0.3, 7.0)] == array(cells_of([0.3, 7.0])).tolist()


def test_without_both_kinds_there_is_no_number():
    for metric in (bl.metrics.AUROC(), bl.metrics.FPR95()):
        assert np.isnan(float(metric.result()))
        assert np.isnan(float(metric(np.ones(3), np.arange(3.0))))
        assert np.isfinite(float(metric(np.zeros(3), np.arange(3.0))))


def test_what_has_no_weight_may_be_anything():
    scores = DISTRIBUTIONS["with ties"].astype("float32")
    weights = np.ones(500, "float32")
    weights[0] = 0.0
    bad = scores.copy()
    bad[0] = np.nan
    result = float(bl.metrics.AUROC()(np.r_[7, FLAGS[1:]], bad, weights))
    np.testing.assert_allclose(result, roc_auc_score(FLAGS[1:], scores[1:]), rtol=1e-4)


def test_what_is_wrong_in_a_compiled_function_gives_no_number():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Identity()])
    model.compile(loss=no_loss, metrics=[bl.metrics.AUROC(), bl.metrics.FPR95()])
    x = np.arange(4.0)[:, None]
    y = np.array([0.0, 1.0, 2.0, 0.0])
    try:
        logs = model.evaluate(x, y, verbose=0, return_dict=True)
    except ValueError as error:
        # Where the numbers can be looked at.
        assert keras.backend.backend() == "torch"
        assert "the target 2 with the score 2" in str(error)
    else:
        assert np.isnan(logs["auroc"]) and np.isnan(logs["fpr95"])


def classifier():
    probs = RNG.dirichlet(np.ones(3), size=(4, 500)).astype("float32")
    draws = bl.distributions.Categorical(probs=probs)
    totals = {"mean": probs.mean(axis=0), "entropy": array(draws.entropy()).sum(axis=0)}
    return bl.Prediction(Moments(bl.distributions.Categorical, 4, totals), draws)


def numbers():
    totals = {
        "mean": RNG.normal(size=(500, 2)),
        "squares": RNG.uniform(size=(500, 2)),
        "variance": RNG.uniform(size=(500, 2)),
    }
    return bl.Prediction(Moments(bl.distributions.Normal, 4, totals))


SCORES = {
    "entropy": (classifier, lambda p: p.entropy),
    "max_prob": (classifier, lambda p: 1.0 - p.probs.max(axis=1)),
    "mutual_information": (classifier, lambda p: p.mutual_information),
    "epistemic": (numbers, lambda p: p.epistemic.sum(axis=1)),
    "aleatoric": (numbers, lambda p: p.aleatoric.sum(axis=1)),
    "stddev": (numbers, lambda p: p.stddev.sum(axis=1)),
}


@pytest.mark.parametrize("score", SCORES)
def test_a_score_of_a_prediction_is_taken_by_its_name(score):
    make, reference = SCORES[score]
    prediction = make()
    result = float(bl.metrics.AUROC(score)(FLAGS, prediction))
    expected = roc_auc_score(FLAGS, reference(prediction))
    np.testing.assert_allclose(result, expected, atol=1e-3)


@pytest.mark.parametrize("score", ["entropy", "max_prob"])
def test_scores_of_classes_are_of_heads_and_probabilities_too(score):
    prediction = classifier()
    expected = float(bl.metrics.AUROC(score)(FLAGS, prediction))
    probs = prediction.probs
    head = bl.RandomVariable(bl.distributions.Categorical(probs=probs))
    for y_pred in (probs, head):
        result = float(bl.metrics.AUROC(score)(FLAGS, y_pred))
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_small_probabilities_of_other_classes_are_told_apart():
    # Of the largest, 1 - 1e-8 and 1 - 1e-9, float32 knows nothing.
    rest = np.array([1e-9, 1e-8, 1e-9, 1e-8], "float32")
    probs = np.stack([1.0 - rest, rest], axis=1)
    result = bl.metrics.AUROC("max_prob")(np.array([0, 1, 0, 1]), probs)
    assert float(result) == 1.0


def test_errors_name_the_scores():
    with pytest.raises(ValueError, match="'entropy'.*Received: score='energy'"):
        bl.metrics.AUROC("energy")
    with pytest.raises(TypeError, match="score='entropy'.*score=None"):
        bl.metrics.AUROC().update_state(FLAGS, classifier())
    with pytest.raises(TypeError, match="'epistemic' is of a `bl.Prediction`"):
        bl.metrics.AUROC("epistemic").update_state(FLAGS, ops.ones((500, 3)) / 3)
    with pytest.raises(ValueError, match="`entropy`|`probs` is for classifiers"):
        bl.metrics.AUROC("entropy").update_state(FLAGS, numbers())
