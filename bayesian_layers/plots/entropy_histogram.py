"""Whether a model knows what it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesian_layers.plots import arrays
from bayesian_layers.plots.axes import check_axes, describe, draw_legend, make_axes
from bayesian_layers.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The scores that a prediction has, and what they are called on the axis.
SCORES = {
    "entropy": "predictive entropy (nats)",
    "mutual_information": "mutual information (nats)",
    "epistemic": "epistemic uncertainty",
    "aleatoric": "aleatoric uncertainty",
    "stddev": "predictive standard deviation",
}


def entropy_histogram(
    in_distribution: Prediction | Any,
    out_of_distribution: Prediction | Any,
    *,
    score: str | Callable[[Prediction], Any] = "entropy",
    bins: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """How uncertain a model is of known data, and of data that it should not know.

    The heights are shares of the examples of each set, over the same bins, so that sets
    of different sizes compare. The legend tells the area under the ROC curve: the
    probability that a random example out of distribution has a higher score than a
    random one in distribution, with ties counted half. It is 1 if the score tells
    them apart, 0.5 if it does not at all.

    Args:
        in_distribution: What `bl.predict` returned for data like those of the training,
            or an array of scores, `[n]` or `[n, 1]`.
        out_of_distribution: The same for other data.
        score: What is drawn of a prediction: `"entropy"` or `"mutual_information"` of
            a classifier, `"epistemic"`, `"aleatoric"` or `"stddev"`; or a function
            from a `Prediction` to an array `[n]`. Given arrays are scores already; a
            string then names the axis.
        bins: The number of bins.
        ax: Where to draw. Defaults to a new figure.

    Returns:
        The `matplotlib.axes.Axes`.

    Example:
    >>> import matplotlib.pyplot as plt
    >>> ax = bl.plots.entropy_histogram([0.1, 0.2, 0.4], [0.3, 0.6], bins=5)
    >>> ax.get_legend().get_title().get_text()
    'AUROC 0.833'
    >>> plt.close(ax.figure)
    """
    arrays.check_integer("bins", bins, least=1)
    if not (isinstance(score, str) or callable(score)):
        raise TypeError(
            "`score` should be a name, or a function of a prediction. "
            f"Received: score={score!r}"
        )
    known = _scores("in_distribution", in_distribution, score)
    other = _scores("out_of_distribution", out_of_distribution, score)
    edges = np.histogram_bin_edges(np.concatenate([known, other]), bins)
    check_axes(ax)
    [ax] = make_axes(ax)
    for values, name in ((known, "in distribution"), (other, "out of distribution")):
        ax.hist(
            values,
            edges,
            weights=np.full(len(values), 1.0 / len(values)),
            alpha=0.55,
            label=f"{name}, n = {len(values):,}",
        )
    name = score if isinstance(score, str) else getattr(score, "__name__", "score")
    describe(ax, x=SCORES.get(name, name), y="share of examples")
    draw_legend(ax, columns=1, title=f"AUROC {_area_under_roc(known, other):.3f}")
    return ax


def _scores(name, given, score):
    """The scores of a prediction or those that are given, an array `[n]`."""
    if not isinstance(given, Prediction):
        if callable(score):
            raise TypeError(
                "A function `score` is for predictions; arrays are scores already. "
                f"Received: {name} of type {type(given).__name__}"
            )
        return arrays.one_column(name, given)
    if callable(score):
        return arrays.one_column(f"score({name})", score(given))
    if score not in SCORES:
        raise ValueError(
            f"`score` should be one of {tuple(SCORES)}, or a function of a prediction. "
            f"Received: score={score!r}"
        )
    return arrays.one_column(f"{score} of {name}", getattr(given, score))


def _area_under_roc(low, high):
    """P(l < h) + P(l = h) / 2, of a random l of `low` and a random h of `high`."""
    low = np.sort(low)
    below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(np.mean(below) / (2.0 * len(low)))
