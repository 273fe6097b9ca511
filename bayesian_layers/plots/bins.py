"""Bins of confidence, of which calibration errors are made."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Bins:
    """Bins of equal width over [0, 1], arrays `[num_bins]`.

    A bin holds its lower end, the last one also 1.

    Attributes:
        counts: The number of predictions in each.
        confidence: Their mean confidence; NaN where there are none.
        accuracy: The share of them that is right; NaN where there are none.
    """

    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def edges(self):
        """The ends of the bins, `[num_bins + 1]`."""
        return np.linspace(0.0, 1.0, len(self.counts) + 1)

    @property
    def error(self):
        """The expected calibration error, the mean |accuracy - confidence|."""
        filled = self.counts > 0
        gaps = np.abs(self.accuracy - self.confidence)[filled]
        return float(np.sum(self.counts[filled] * gaps) / np.sum(self.counts))


def confidence_bins(confidence, correct, num_bins):
    """Returns the `Bins` of predictions.

    Args:
        confidence: Their probabilities of being right, `[n]`.
        correct: Whether they are, `[n]`.
        num_bins: The number of bins.
    """
    chosen = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    counts = np.bincount(chosen, minlength=num_bins)

    def mean(values):
        sums = np.bincount(chosen, values, minlength=num_bins)
        return np.divide(sums, counts, out=np.full(num_bins, np.nan), where=counts > 0)

    return Bins(counts, mean(confidence), mean(correct))
