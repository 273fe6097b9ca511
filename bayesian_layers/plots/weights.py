"""What a model has learnt of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np

from bayesian_layers.optional import optional_module
from bayesian_layers.plots import arrays
from bayesian_layers.plots.axes import check_axes, describe, make_axes
from bayesian_layers.plots.weight_moments import moments_of_layers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With more layers than these the colours of the cycle would come again.
MOST_IN_CYCLE = 10


def weights(
    model: keras.Layer,
    *,
    max_points: int = 1000,
    bins: int = 30,
    ax: Sequence[Axes] | None = None,
) -> np.ndarray:
    """The posterior of the weights of a model, layer by layer.

    The first panel shows each weight as a point: the mean of its posterior, and its
    standard deviation. The second one is a histogram of the signal-to-noise ratio
    |mean| / stddev; its legend, with the numbers of weights, holds for both. Weights
    far below a ratio of 1 could as well be zero: a layer that is all there has learnt
    little, or is larger than it needs to be.

    Of a layer with more than `max_points` weights so many are drawn as points, chosen
    at random but the same ones each time; the title says so. Histograms count all
    weights, the first bin also the few below it. Weights that are known (of standard
    deviation 0), or whose posterior has no mean or variance, have no ratio: they are
    left out, and the title tells their number. Where parameters of a posterior are
    random themselves, it is the posterior at their means.

    Args:
        model: A model or layer, built.
        max_points: The largest number of points for each layer.
        bins: The number of bins, of equal width on the logarithmic axis.
        ax: Where to draw: two `Axes`. Defaults to a new figure.

    Returns:
        An array of two `matplotlib.axes.Axes`.

    Reference: Blundell, Cornebise, Kavukcuoglu and Wierstra (2015), Weight uncertainty
    in neural networks, section 5.

    Example:
    >>> import matplotlib.pyplot as plt
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((3,)),
    ...         bl.layers.DenseFlipout(8, name="hidden"),
    ...         bl.layers.DenseFlipout(1, name="output"),
    ...     ]
    ... )
    >>> left, right = bl.plots.weights(model)
    >>> [text.get_text() for text in right.get_legend().get_texts()]
    ['hidden, 24', 'output, 8']
    >>> plt.close(left.figure)
    """
    arrays.check_integer("max_points", max_points, least=1)
    arrays.check_integer("bins", bins, least=1)
    layers = moments_of_layers(model)
    check_axes(ax, 2)
    panels = make_axes(ax, 2)
    edges = _edges(np.concatenate([moments.ratio for moments in layers]), bins)
    for moments, color in zip(layers, _colors(len(layers)), strict=True):
        label = f"{moments.name}, {len(moments.mean):,}"
        _draw_points(panels[0], moments, max_points, color=color, label=label)
        _draw_histogram(panels[1], moments, edges, color=color, label=label)
    panels[0].set_yscale("log")
    panels[1].set_xscale("log")
    title = _title(layers, max_points)
    describe(panels[0], x="mean", y="standard deviation", title=title)
    describe(panels[1], x="signal-to-noise ratio", y="share of weights")
    if len(layers) > 1:
        _draw_legend(panels[1], len(layers))
    return panels


def _edges(ratios, bins):
    """The ends of bins of equal width on a logarithmic axis."""
    positive = ratios[ratios > 0.0]
    low, high = 1.0, 1.0
    if positive.size:
        # A few numbers that are next to zero would stretch the axis.
        low, high = np.quantile(positive, (0.005, 1.0))
    if low == high:
        low, high = 0.5 * low, 2.0 * high
    return np.geomspace(low, high, bins + 1)


def _colors(count):
    if count <= MOST_IN_CYCLE:
        return [f"C{number}" for number in range(count)]
    matplotlib = optional_module("matplotlib", "plots")
    # From the first layer to the last; the ends are too near to black and white.
    return matplotlib.colormaps["viridis"](np.linspace(0.3, 0.85, count))


def _draw_points(ax, moments, max_points, *, color, label):
    chosen = np.arange(len(moments.mean))
    if len(chosen) > max_points:
        # At random: evenly spaced ones might all belong to one unit.
        chosen = np.random.default_rng(0).choice(chosen, max_points, replace=False)
    style = {"s": 8.0, "alpha": 0.5, "linewidths": 0.0}
    ax.scatter(
        moments.mean[chosen], moments.stddev[chosen], color=color, label=label, **style
    )


def _draw_histogram(ax, moments, edges, *, color, label):
    ratio = np.clip(moments.ratio, edges[0], edges[-1])
    share = np.full(len(ratio), 1.0 / max(len(ratio), 1))
    style = {"histtype": "step", "linewidth": 1.5, "color": color, "label": label}
    ax.hist(ratio, edges, weights=share, **style)


def _draw_legend(ax, count):
    """A legend of all layers or, if there are too many, of some, evenly chosen."""
    handles, labels = ax.get_legend_handles_labels()
    step = -(-count // MOST_IN_CYCLE)
    title = "layer, weights" if step == 1 else f"layer, weights (1 of {step} layers)"
    ax.legend(handles[::step], labels[::step], title=title, fontsize="small")


def _title(layers, max_points):
    """What the points leave out, or `None`."""
    parts = []
    if any(len(moments.mean) > max_points for moments in layers):
        parts.append(f"at most {max_points:,} points per layer")
    left_out = sum(moments.left_out for moments in layers)
    if left_out:
        parts.append(f"without {left_out:,} weights that have no ratio")
    return ",\n".join(parts) or None
