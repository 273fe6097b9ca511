"""The quantile of split conformal prediction."""

import math
from fractions import Fraction

import numpy as np


def conformal_quantile(scores: np.ndarray, coverage: float) -> np.ndarray:
    """The threshold that the score of a new example keeps to with a given probability.

    The scores of n held-out examples and of a new one are exchangeable: the new one is
    equally probably at each of the n + 1 places in their order. So it is at most the
    k-th smallest of the n,

        k = ceil((n + 1) coverage),

    with a probability of at least `coverage`; and of at most `coverage + 1 / (n + 1)`
    if no two scores are equal. For scores of your own: what is predicted is the set of
    all y with a score of at most the threshold.

    Args:
        scores: Numbers `[n, ...]`, the worse the prediction the larger; further axes
            are scores apart from each other.
        coverage: A number between 0 and 1.

    Returns:
        The threshold, an array `[...]`.

    Raises:
        ValueError: If there are too few scores for the coverage: k would exceed n.

    Example:
    >>> float(bl.calibrate.conformal_quantile(np.arange(1.0, 20.0), 0.9))
    18.0
    """
    check_coverage(coverage)
    scores = np.asarray(scores, "float64")
    if scores.ndim == 0 or not np.all(np.isfinite(scores)):
        raise ValueError(
            "Expected finite scores, an array of one or more axes. Received: shape "
            f"{scores.shape}, {np.sum(~np.isfinite(scores))} of them not finite."
        )
    # Of the number that was written: 100 * 0.55 is above 55 in floating point.
    exact = Fraction(str(float(coverage)))
    rank = math.ceil((len(scores) + 1) * exact)
    if rank > len(scores):
        raise ValueError(
            f"A coverage of {coverage} needs at least {math.ceil(exact / (1 - exact))} "
            f"held-out examples. Received: {len(scores)}"
        )
    return np.partition(scores, rank - 1, axis=0)[rank - 1]


def check_coverage(coverage):
    """Raises unless a coverage is a number between 0 and 1, both excluded."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(
            f"`coverage` should be between 0 and 1. Received: coverage={coverage}"
        )
