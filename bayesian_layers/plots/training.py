"""How a training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesian_layers.optional import optional_module
from bayesian_layers.plots.axes import check_axes, describe, make_axes

if TYPE_CHECKING:
    import keras
    from matplotlib.axes import Axes

DEFAULT_METRICS = ("loss", "nll")


def training(
    history: keras.callbacks.History | Mapping[str, Any],
    *,
    metrics: Sequence[str] | None = None,
    validation_freq: int | Sequence[int] = 1,
    ax: Axes | Sequence[Axes] | None = None,
) -> np.ndarray:
    """The curves of a training: what the data cost, and what the weights cost.

    loss = nll + weight * kl / N: the first panel shows `loss` and `nll`, for each
    example, in training (solid) and in validation (dashed); the second one, if
    `bl.callbacks.KLSchedule` has logged it, `kl`, in nats for all weights. Their sizes
    differ by a factor of N, so they do not share a panel. While `kl` falls, the scales
    of the weights have not arrived.

    Args:
        history: What `model.fit` returned, or its `history`, a dictionary from names to
            numbers, one for each epoch.
        metrics: The names in the first panel, each with its `val_`. Defaults to those
            of `"loss"` and `"nll"` that were logged.
        validation_freq: As given to `fit`: validation was in every so many epochs, or
            in these epochs, counted from 1.
        ax: Where to draw: as many `Axes` as there are panels. Defaults to a new
            figure.

    Returns:
        An array of `matplotlib.axes.Axes`, one for each panel: two if there is a `kl`,
        one if not.

    Example:
    >>> import matplotlib.pyplot as plt
    >>> history = {"loss": [3.0, 2.0], "nll": [2.0, 1.5], "kl": [100.0, 50.0]}
    >>> left, right = bl.plots.training(history)
    >>> [line.get_label() for line in left.lines], right.lines[0].get_ydata().tolist()
    (['loss', 'nll'], [100.0, 50.0])
    >>> plt.close(left.figure)
    """
    logs, epochs = _logs_and_epochs(history)
    metrics = _metrics(logs, metrics)
    at = {"": epochs, "val_": _validated(epochs, validation_freq)}
    curves = [
        (prefix, prefix + name)
        for name in metrics
        for prefix in at
        if prefix + name in logs
    ]
    values = {key: _values(logs, key, at[prefix]) for prefix, key in curves}
    if "kl" in logs:
        values["kl"] = _values(logs, "kl", epochs)
    count = 2 if "kl" in logs else 1
    check_axes(ax, count)

    panels = make_axes(ax, count)
    for number, (prefix, key) in enumerate(curves):
        style = {"color": f"C{number}", "linestyle": "--" if prefix else "-"}
        _draw(panels[0], at[prefix], values[key], label=key, **style)
    describe(panels[0], x="epoch", y=", ".join(metrics))
    if len(curves) > 1:
        panels[0].legend(fontsize="small")
    if count == 2:
        _draw(panels[1], epochs, values["kl"], label="kl", color=f"C{len(curves)}")
        describe(panels[1], x="epoch", y="KL of all weights (nats)")
    return panels


def _logs_and_epochs(history):
    """The dictionary of logs, and the numbers of the epochs, counted from 1."""
    logs = getattr(history, "history", history)
    if not isinstance(logs, Mapping):
        raise TypeError(
            "Expected what `model.fit` returned, or its `history`, a dictionary. "
            f"Received: {type(history).__name__}"
        )
    if not logs:
        raise ValueError("Expected the logs of at least one epoch. Received: none")
    if hasattr(history, "epoch"):
        return logs, np.asarray(history.epoch) + 1
    trained = [len(v) for key, v in logs.items() if not key.startswith("val_")]
    return logs, np.arange(max(trained, default=0)) + 1


def _metrics(logs, metrics):
    """The names of the first panel, which have to be in the logs."""
    if isinstance(metrics, str):
        metrics = (metrics,)
    known = [name for name in DEFAULT_METRICS if name in logs]
    chosen = known if metrics is None else list(metrics)
    missing = [name for name in chosen if name not in logs]
    if missing or not chosen:
        raise ValueError(
            "`metrics` should be names in the history, without `val_`. Received: "
            f"metrics={metrics!r} and a history with {sorted(logs)}"
        )
    return chosen


def _validated(epochs, frequency):
    """The epochs with a validation, as `fit` chooses them."""
    if isinstance(frequency, (int, np.integer)) and frequency > 0:
        return epochs[epochs % frequency == 0]
    if isinstance(frequency, Sequence) and not isinstance(frequency, str):
        return epochs[np.isin(epochs, list(frequency))]
    raise ValueError(
        "`validation_freq` should be a positive integer, or a list of epochs. "
        f"Received: validation_freq={frequency!r}"
    )


def _values(logs, key, epochs):
    values = np.asarray(logs[key], "float64")
    if values.shape != epochs.shape:
        raise ValueError(
            f"Expected one number of {key!r} for each of {len(epochs)} epochs; if "
            "validation was not in every epoch, say so by `validation_freq`. "
            f"Received: shape {values.shape}"
        )
    return values


def _draw(ax, epochs, values, **style):
    """A curve over epochs; a single number is a point."""
    marker = "o" if len(values) == 1 else None
    ax.plot(epochs, values, linewidth=1.2, marker=marker, **style)
    ticker = optional_module("matplotlib.ticker", "plots")
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
