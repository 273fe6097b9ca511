"""How well a score tells data from elsewhere from data as in training."""

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import shapes
from bayesian_layers.keras_contact import optimized
from bayesian_layers.losses.alignment import align
from bayesian_layers.metrics.histogram import NUM_CELLS, cells_of, sum_by_cell
from bayesian_layers.metrics.scores import check_score, scores_of
from bayesian_layers.metrics.weights import checked, weights_like


class OfScores(keras.metrics.Metric):
    """Base of metrics of scores that should be larger where `y_true` is 1.

    It keeps two histograms of the scores: of the negative, where `y_true` is 0, and of
    the positive.
    """

    def __init__(self, score, name, dtype):
        super().__init__(name=name, dtype=dtype)
        check_score(score)
        self.score = score
        self.negative = self.add_variable((NUM_CELLS,), "zeros", name="negative")
        self.positive = self.add_variable((NUM_CELLS,), "zeros", name="positive")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        scores = scores_of(y_pred, self.score)
        targets = ops.cast(align(y_true, shapes.static(scores)), self.dtype)
        weights = weights_like(scores, y_pred, sample_weight, self.dtype)
        weights = _checked(weights, targets, scores)
        cells = cells_of(scores)
        is_positive = targets > 0.5
        positive = sum_by_cell(ops.where(is_positive, weights, 0.0), cells, NUM_CELLS)
        negative = sum_by_cell(ops.where(is_positive, 0.0, weights), cells, NUM_CELLS)
        self.positive.assign_add(positive)
        self.negative.assign_add(negative)

    def result(self):
        """Returns the metric over all batches: NaN unless both kinds were there."""
        negative, positive = map(ops.convert_to_tensor, (self.negative, self.positive))
        totals = ops.sum(negative), ops.sum(positive)
        both = ops.logical_and(totals[0] > 0.0, totals[1] > 0.0)
        return ops.where(both, self.of_counts(negative, positive, *totals), np.nan)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "score": self.score}


def _checked(weights, targets, scores):
    def message(position):
        target, score = (
            float(ops.reshape(values, (-1,))[position]) for values in (targets, scores)
        )
        return (
            "Expected targets that are 0, or 1 for what is out of distribution, and "
            f"scores that are numbers. Received: the target {target:g} with the score "
            f"{score:g}"
        )

    is_kind = ops.logical_or(ops.equal(targets, 0.0), ops.equal(targets, 1.0))
    is_right = ops.logical_and(is_kind, ops.logical_not(ops.isnan(scores)))
    return checked(weights, is_right, message)


@optimized("up")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class AUROC(OfScores):
    """How probably a score is larger for data from elsewhere than for data as trained.

    P(score of positive > score of negative) + P(they are equal) / 2, the area under the
    receiver operating characteristic: 1 tells all apart, 0.5 is chance. `y_true` is 1
    for what is out of distribution, the positive, and 0 for what is not.

    Only the order of scores counts, so they may be any real numbers. They are counted
    in 2^20 cells that keep this order: scores that differ by less than 1/4096 of their
    size may count as equal, as do those closer to 0 than 2^-64, and those beyond 2^64,
    on either side. The state is two arrays of 2^20 numbers, 8 MB.

    `y_pred` are scores `[B]`, `[B, 1]` or of the shape of `y_true`, larger for what is
    more out of distribution. With `score` it is a `bl.Prediction`, of which that score
    is taken, summed over the outputs of an example:

    - `"entropy"`, and `"max_prob"`, one minus the largest probability: of a classifier,
      also of the random variable of its head, or of its probabilities;
    - `"mutual_information"`: of a classifier;
    - `"epistemic"`, `"aleatoric"`, `"stddev"`: of any prediction.

    The result is NaN unless both kinds of data were there.

    Args:
        score: `None` (the default) if `y_pred` are scores, or the name of one.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.AUROC()
    >>> is_elsewhere = np.array([0, 0, 1, 1])
    >>> float(metric(is_elsewhere, np.array([-3.0, 10.0, 5.0, 200.0])))
    0.75
    """

    def __init__(self, score=None, name="auroc", dtype=None):
        super().__init__(score, name, dtype)

    def of_counts(self, negative, positive, num_negative, num_positive):
        """Returns the area, from the counts of cells and their sums."""
        below = (ops.cumsum(negative) - 0.5 * negative) / num_negative
        return ops.sum(positive * below) / num_positive


@optimized("down")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class FPR95(OfScores):
    """The share of false alarms if 95% of the data from elsewhere are to be found.

    The false positive rate at the highest threshold of the score with a true positive
    rate of 95% or more; a score at the threshold is an alarm. `y_true` is 1 for what is
    out of distribution, the positive, and 0 for what is not.

    `y_pred`, `score` and the resolution of scores are as in `bl.metrics.AUROC`. The
    result is NaN unless both kinds of data were there.

    Args:
        score: `None` (the default) if `y_pred` are scores, or the name of one.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.FPR95()
    >>> is_elsewhere = np.array([0, 0, 1, 1])
    >>> float(metric(is_elsewhere, np.array([-3.0, 10.0, 5.0, 200.0])))
    0.5
    """

    def __init__(self, score=None, name="fpr95", dtype=None):
        super().__init__(score, name, dtype)

    def of_counts(self, negative, positive, num_negative, num_positive):
        """Returns the rate, from the counts of cells and their sums."""
        missed = (ops.cumsum(positive) - positive) / num_positive
        rejected = (ops.cumsum(negative) - negative) / num_negative
        # 5% may be missed, which rounding may make a little more.
        return 1.0 - ops.max(ops.where(missed <= 0.05 + 1e-6, rejected, 0.0))
