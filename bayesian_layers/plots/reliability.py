"""Whether the probabilities of a classifier are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from bayesian_layers.metrics.classes import class_probs, read_classes
from bayesian_layers.plots import arrays
from bayesian_layers.plots.axes import check_axes, describe, draw_ideal, ink, make_axes
from bayesian_layers.plots.bins import confidence_bins
from bayesian_layers.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reliability(
    y: Any,
    prediction: Prediction | Any,
    *,
    num_bins: int = 15,
    counts: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """How often a classifier is right, against how sure it is: a reliability diagram.

    Predictions are put into bins of equal width by their confidence, the probability
    of the most probable class. A bar shows the share of a bin that is right, a hatched
    one the gap from there to the mean confidence of the bin: above the bar where the
    classifier is too sure, within it where it is not sure enough. The legend tells the
    expected calibration error, the mean of the gaps over predictions:

        ECE = sum_b count_b / n * |accuracy_b - confidence_b|

    Args:
        y: Labels `[n]` or `[n, 1]`, or one-hot vectors `[n, classes]`.
        prediction: What `bl.predict` returned for a classifier, or an array of
            probabilities: `[n, classes]`, or those of the class 1, `[n]` or `[n, 1]`.
        num_bins: The number of bins.
        counts: Whether to show, above, how many predictions are in each bin.
        ax: Where to draw. Defaults to a new figure.

    Returns:
        The `matplotlib.axes.Axes` of the diagram; the counts are in its `child_axes`.

    Reference: Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural
    networks.

    Example:
    >>> import matplotlib.pyplot as plt
    >>> probs = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])
    >>> ax = bl.plots.reliability([0, 1, 1, 0], probs, num_bins=5)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['ideal', 'accuracy', 'gap, ECE 0.150']
    >>> plt.close(ax.figure)
    """
    arrays.check_integer("num_bins", num_bins, least=1)
    confidence, correct = _confidence_and_correctness(y, prediction)
    bins = confidence_bins(confidence, correct, num_bins)
    check_axes(ax)
    [ax] = make_axes(ax)
    _draw_bars(ax, bins)
    draw_ideal(ax)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    describe(ax, x="confidence", y="accuracy")
    ax.legend(fontsize="small")
    if counts:
        _draw_counts(ax, bins)
    return ax


def _confidence_and_correctness(y, prediction):
    """The largest probability of each prediction, and whether its class is right."""
    if not isinstance(prediction, Prediction):
        arrays.check_finite("prediction", arrays.to_array(prediction))
    distribution, labels, _ = read_classes(y, prediction, None, "float32")
    probs = ops.convert_to_numpy(class_probs(distribution))
    correct = np.argmax(probs, axis=-1) == ops.convert_to_numpy(labels)
    return np.max(probs, axis=-1).ravel(), correct.ravel()


def _draw_bars(ax, bins):
    filled = bins.counts > 0
    low, width = bins.edges[:-1][filled], 1.0 / len(bins.counts)
    accuracy, confidence = bins.accuracy[filled], bins.confidence[filled]
    style = {"width": width, "align": "edge"}
    edge = {"edgecolor": ink(ax), "linewidth": 0.5}
    ax.bar(low, accuracy, color=("C0", 0.6), label="accuracy", **style, **edge)
    ax.bar(
        low,
        np.abs(confidence - accuracy),
        bottom=np.minimum(accuracy, confidence),
        facecolor="none",
        edgecolor="C1",
        hatch="/////",
        label=f"gap, ECE {bins.error:.3f}",
        **style,
    )


def _draw_counts(ax, bins):
    """A histogram above the diagram."""
    above = ax.inset_axes((0.0, 1.03, 1.0, 0.16), sharex=ax)
    above.bar(
        bins.edges[:-1],
        bins.counts,
        width=1.0 / len(bins.counts),
        align="edge",
        color=ink(ax),
        alpha=0.4,
    )
    above.tick_params(labelbottom=False, length=0.0)
    # The lowest tick would touch the highest of the diagram.
    above.set_yticks([bins.counts.max()])
    above.set_ylabel("count")
