"""Calibration errors: how far probabilities are from frequencies."""

import keras
from keras import ops

from bayesian_layers.keras_contact import optimized
from bayesian_layers.metrics.classes import class_probs, read_classes
from bayesian_layers.metrics.histogram import cell_of, cells_of, sum_by_cell

# No float32 below 1 is nearer to it than this.
NEAREST = 2.0**-24


class CalibrationError(keras.metrics.Metric):
    """Base of calibration errors.

    It keeps, for each cell of a histogram, the weight of what is in it and the gap: the
    weighted sum of the differences between prediction and outcome. A subclass says
    which cell a probability belongs to, and what the gaps of all cells amount to.
    """

    def __init__(self, num_bins, num_cells, name, dtype):
        super().__init__(name=name, dtype=dtype)
        if not (isinstance(num_bins, int) and num_bins > 0):
            raise ValueError(
                "`num_bins` should be a positive integer. "
                f"Received: num_bins={num_bins}"
            )
        self.num_bins = num_bins
        self.mass = self.add_variable((num_cells,), "zeros", name="mass")
        self.gap = self.add_variable((num_cells,), "zeros", name="gap")

    def _equal_width_bins(self, probs):
        bins = ops.cast(ops.floor(probs * self.num_bins), "int32")
        return ops.clip(bins, 0, self.num_bins - 1)

    def _add(self, probs, outcomes, cells, weights):
        gaps = ops.cast(probs, self.dtype) - ops.cast(outcomes, self.dtype)
        gaps = ops.where(ops.equal(weights, 0.0), 0.0, gaps * weights)
        num_cells = self.mass.shape[0]
        mass = sum_by_cell(weights, cells, num_cells)
        gap = sum_by_cell(gaps, cells, num_cells)
        self.mass.assign_add(mass)
        self.gap.assign_add(gap)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "num_bins": self.num_bins}


class ConfidenceError(CalibrationError):
    """Base of calibration errors of the most probable class."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        distribution, labels, weights = read_classes(
            y_true, y_pred, sample_weight, self.dtype
        )
        probs = class_probs(distribution)
        right = ops.equal(ops.cast(ops.argmax(probs, axis=-1), "int32"), labels)
        confidence = ops.max(probs, axis=-1)
        self._add(confidence, right, self._cells(confidence), weights)


@optimized("down")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class ExpectedCalibrationError(ConfidenceError):
    """The gap between confidence and accuracy, over bins of confidence of equal width.

    sum over bins of n_bin / n * |accuracy_bin - confidence_bin|, where the confidence
    is the probability of the most probable class. A probability p is in bin
    floor(p * num_bins), and 1 in the last. With few examples in a bin it is biased
    upwards; compare models on equal data, by equal bins.

    `y_pred` is as in `bl.metrics.Accuracy`: the random variable of a head of classes, a
    `bl.Prediction` of a classifier, or probabilities. A class and its contrary count as
    two classes: the confidence is never below one half then.

    Args:
        num_bins: The number of bins. Defaults to 15.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.ExpectedCalibrationError()
    >>> probs = np.array([[0.75, 0.25], [0.75, 0.25]])
    >>> round(float(metric(np.array([0, 1]), probs)), 4)
    0.25

    Reference: Guo et al. (2017), On calibration of modern neural networks.
    """

    def __init__(self, num_bins=15, name="expected_calibration_error", dtype=None):
        super().__init__(num_bins, num_bins, name, dtype)

    def _cells(self, confidence):
        return self._equal_width_bins(confidence)

    def result(self):
        """Returns the error over all batches."""
        return ops.divide_no_nan(ops.sum(ops.abs(self.gap)), ops.sum(self.mass))


@optimized("down")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class AdaptiveCalibrationError(ConfidenceError):
    """The gap between confidence and accuracy, over bins with equally many examples.

    As `bl.metrics.ExpectedCalibrationError`, but the bins are between quantiles of the
    confidence, the probability of the most probable class: none is empty, and confident
    networks do not have all examples in one.

    Over batches 1 - confidence is counted in cells whose width is at most 1/4096 of it,
    which become bins in the result; a cell on the edge of two is divided between them,
    as by examples of equal confidence. The state is two arrays of 98305 numbers.

    `y_pred` is as in `bl.metrics.Accuracy`: the random variable of a head of classes, a
    `bl.Prediction` of a classifier, or probabilities.

    Args:
        num_bins: The number of bins. Defaults to 15.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.AdaptiveCalibrationError(num_bins=2)
    >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    >>> round(float(metric(np.array([0, 0, 1, 0]), probs)), 4)
    0.15

    Reference: Nguyen & O'Connor (2015), Posterior calibration and exploratory analysis
    for natural language processing models. The error of the same name of Nixon et al.
    (2019) is of all classes.
    """

    def __init__(self, num_bins=15, name="adaptive_calibration_error", dtype=None):
        num_cells = cell_of(1.0) - cell_of(NEAREST) + 1
        super().__init__(num_bins, num_cells, name, dtype)

    def _cells(self, confidence):
        # Away from 1, where confident networks have theirs.
        distance = 1.0 - ops.cast(confidence, "float32")
        return cells_of(ops.clip(distance, NEAREST, 1.0)) - cell_of(NEAREST)

    def result(self):
        """Returns the error over all batches."""
        mass, gap = ops.cumsum(self.mass), ops.cumsum(self.gap)
        total = mass[-1]
        parts = ops.arange(self.num_bins + 1, dtype=self.dtype) / self.num_bins
        edges = total * parts
        cells = ops.searchsorted(mass, edges, side="left")
        cells = ops.minimum(cells, self.mass.shape[0] - 1)
        # Of the cell of an edge, the part that lies beyond it is taken off again.
        of_cell = ops.take(ops.convert_to_tensor(self.mass), cells)
        beyond = ops.divide_no_nan(ops.take(mass, cells) - edges, of_cell)
        beyond = beyond * ops.take(ops.convert_to_tensor(self.gap), cells)
        gaps = ops.diff(ops.take(gap, cells) - beyond)
        return ops.divide_no_nan(ops.sum(ops.abs(gaps)), total)


@optimized("down")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class ClasswiseCalibrationError(CalibrationError):
    """The gap between the probability and the frequency of each class, over bins.

    The mean over classes k of sum over bins of n_bin / n * |frequency of k in the bin -
    mean of p_k in it|, with bins of p_k of equal width. All probabilities count, not
    only the largest.

    `y_pred` is as in `bl.metrics.Accuracy`: the random variable of a head of classes, a
    `bl.Prediction` of a classifier, or probabilities.

    Args:
        num_classes: The number of classes; 2 for `bl.layers.Bernoulli`.
        num_bins: The number of bins. Defaults to 15.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.ClasswiseCalibrationError(num_classes=2)
    >>> probs = np.array([[0.75, 0.25], [0.75, 0.25]])
    >>> round(float(metric(np.array([0, 1]), probs)), 4)
    0.25

    Reference: Kull et al. (2019), Beyond temperature scaling.
    """

    def __init__(
        self, num_classes, num_bins=15, name="classwise_calibration_error", dtype=None
    ):
        if not (isinstance(num_classes, int) and num_classes > 1):
            raise ValueError(
                "`num_classes` should be an integer above 1. "
                f"Received: num_classes={num_classes}"
            )
        super().__init__(num_bins, num_classes * num_bins, name, dtype)
        self.num_classes = num_classes

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        distribution, labels, weights = read_classes(
            y_true, y_pred, sample_weight, self.dtype
        )
        probs = class_probs(distribution)
        if probs.shape[-1] != self.num_classes:
            raise ValueError(
                f"Expected predictions of {self.num_classes} classes, as "
                f"`num_classes` says. Received: {probs.shape[-1]} classes"
            )
        true = ops.one_hot(labels, self.num_classes, dtype=probs.dtype)
        cells = self._equal_width_bins(probs)
        cells = cells + self.num_bins * ops.arange(self.num_classes, dtype="int32")
        weights = ops.broadcast_to(weights[..., None], ops.shape(probs))
        self._add(probs, true, cells, weights)

    def result(self):
        """Returns the mean of the errors of all classes."""
        # Each example is counted once for each class.
        return ops.divide_no_nan(ops.sum(ops.abs(self.gap)), ops.sum(self.mass))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "num_classes": self.num_classes}
