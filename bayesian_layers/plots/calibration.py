"""Whether the intervals of a regression are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from bayesian_layers.distributions import Deterministic
from bayesian_layers.losses.alignment import align
from bayesian_layers.plots import arrays
from bayesian_layers.plots.axes import check_axes, describe, draw_ideal, ink, make_axes
from bayesian_layers.prediction.moments import CLASSIFIERS
from bayesian_layers.prediction.quantiles import is_continuous

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesian_layers.prediction import Prediction

KINDS = ("interval", "quantile")
LEVELS = tuple(np.arange(1, 20) / 20.0)
# Standard deviations of a normal distribution.
NINETY_FIVE_PERCENT = 1.96


def calibration(
    y: Any,
    prediction: Prediction,
    *,
    kind: str = "interval",
    levels: Sequence[float] = LEVELS,
    label: str = "observed",
    ax: Axes | None = None,
) -> Axes:
    """The share of targets within predictive intervals, against their probability.

    Of intervals that are right, central intervals of probability p hold a share p of
    the targets. A curve below the diagonal says that a model is too sure, above it that
    it is not sure enough. With `kind="quantile"` it is the share of targets not above
    the p-quantile: that also shows a model that predicts too much, or too little,
    throughout. For continuous outputs with a distribution function F both come from
    the probability integral transform u = F(y) of each target:

        interval: mean(|2 u - 1| <= p),    quantile: mean(u <= p)

    with F that of the mixture over draws; for others from `prediction.quantile`. Since
    the intervals of counts are closed, they hold more than p of them.

    The grey band is where 95% of the curves of a calibrated model lie, at each
    probability, for so many examples. Several models are compared by drawing them on
    the same `ax`, each with its `label`.

    Args:
        y: Targets, of the shape of the prediction; a last axis of 1 may be missing.
            Those of several outputs are counted together.
        prediction: What `bl.predict` returned for a regression, with its samples.
        kind: `"interval"` or `"quantile"`.
        levels: The probabilities p, between 0 and 1. Defaults to 0.05, 0.1, ..., 0.95.
        label: The name of the curve in the legend, where its mean gap from the diagonal
            follows.
        ax: Where to draw. Defaults to a new figure.

    Returns:
        The `matplotlib.axes.Axes`.

    Reference: Kuleshov, Fenner and Ermon (2018), Accurate uncertainties for deep
    learning using calibrated regression.

    Example:
    >>> import matplotlib.pyplot as plt
    >>> model = keras.Sequential(
    ...     [keras.Input((1,)), bl.layers.DenseFlipout(1), bl.layers.Normal(1)]
    ... )
    >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> prediction = bl.predict(model, x, num_samples=10, verbose=0)
    >>> ax = bl.plots.calibration(prediction.mean, prediction, levels=[0.5, 0.9])
    >>> ax.lines[1].get_ydata().tolist()
    [1.0, 1.0]
    >>> plt.close(ax.figure)
    """
    arrays.check_prediction(prediction)
    if kind not in KINDS:
        raise ValueError(f"`kind` should be one of {KINDS}. Received: kind={kind!r}")
    levels = np.sort(arrays.probabilities("levels", levels))
    y = _targets(y, prediction)
    check_axes(ax)
    transform = _probability_integral_transform(y, prediction)
    if transform is None:
        observed = _from_quantiles(y, prediction, kind, levels)
    else:
        observed = _from_transform(transform, kind, levels)

    [ax] = make_axes(ax)
    draw_ideal(ax)
    _draw_chance(ax, len(y))
    gap = np.mean(np.abs(observed - levels))
    name = f"{label}, mean gap {gap:.3f}"
    ax.plot(levels, observed, marker="o", markersize=3.0, label=name)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    if kind == "interval":
        describe(ax, x="probability of the interval", y="share of targets within")
    else:
        describe(ax, x="probability of the quantile", y="share of targets below")
    ax.legend(fontsize="small")
    return ax


def _targets(y, prediction):
    """Targets as an array of the shape of the prediction."""
    if isinstance(prediction.distribution, CLASSIFIERS):
        raise ValueError(
            "`bl.plots.calibration` is for regression; for classes there is "
            "`bl.plots.reliability`. Received: a prediction of "
            f"{type(prediction.distribution).__name__}"
        )
    y = arrays.to_array(y)
    arrays.check_finite("y", y)
    return ops.convert_to_numpy(align(y, prediction.distribution.shape()[1:]))


def _probability_integral_transform(y, prediction):
    """F(y) for each number in y, or `None` where there is no such continuous F."""
    distribution = prediction.distribution
    is_point = isinstance(distribution, Deterministic)
    if is_point or distribution.event_shape or not is_continuous(distribution):
        return None
    try:
        values = distribution.cdf(ops.expand_dims(y, axis=0))
    except NotImplementedError:
        return None
    return ops.convert_to_numpy(ops.mean(values, axis=0))


def _from_transform(transform, kind, levels):
    values = np.abs(2.0 * transform - 1.0) if kind == "interval" else transform
    return np.mean(values.ravel() <= levels[:, None], axis=1)


def _from_quantiles(y, prediction, kind, levels):
    if kind == "interval":
        low = prediction.quantile(0.5 * (1.0 - levels))
        high = prediction.quantile(0.5 * (1.0 + levels))
        within = (low <= y) & (y <= high)
    else:
        within = y <= prediction.quantile(levels)
    return np.mean(within.reshape(len(levels), -1), axis=1)


def _draw_chance(ax, count):
    """Where curves of calibrated models lie: a share of `count` is binomial."""
    if any(band.get_gid() == "chance" for band in ax.collections):
        return
    p = np.linspace(0.0, 1.0, 101)
    width = NINETY_FIVE_PERCENT * np.sqrt(p * (1.0 - p) / count)
    ax.fill_between(
        p,
        np.maximum(p - width, 0.0),
        np.minimum(p + width, 1.0),
        color=ink(ax),
        alpha=0.12,
        linewidth=0.0,
        label=f"95% by chance, n = {count:,}",
        gid="chance",
    )
