"""Where a picture is drawn, and in which colours."""

import numpy as np

from bayesian_layers.optional import optional_module

# The width and the height of one panel, in inches.
PANEL = (4.8, 3.8)
# The height of a row of a legend, as a share of that of such a panel.
LEGEND_ROW = 0.065


def check_axes(ax, count=1):
    """Raises unless `ax` is `None`, or as many `Axes` as there are panels."""
    axes = optional_module("matplotlib.axes", "plots").Axes
    given = () if ax is None else _flat(ax)
    if ax is not None and (
        len(given) != count or not all(isinstance(a, axes) for a in given)
    ):
        wanted = "`Axes` of Matplotlib" if count == 1 else f"array of {count} `Axes`"
        raise TypeError(f"`ax` should be `None` or an {wanted}. Received: ax={ax!r}")


def make_axes(ax, count=1):
    """Returns an array of the given `Axes`, or of those of a new figure.

    A new figure belongs to `matplotlib.pyplot`, which shows it in notebooks. Check the
    input before: an error later would leave an empty figure behind.
    """
    if ax is not None:
        return _flat(ax)
    pyplot = optional_module("matplotlib.pyplot", "plots")
    size = (count * PANEL[0], PANEL[1])
    _, made = pyplot.subplots(1, count, figsize=size, layout="constrained")
    return _flat(made)


def _flat(ax):
    return np.ravel(np.asarray(ax, dtype=object))


def ink(ax):
    """The colour of the text of `ax`: black in light styles, white in dark ones."""
    return ax.xaxis.label.get_color()


def describe(ax, *, x, y, title=None):
    """Labels what the user has not labelled."""
    if not ax.get_xlabel():
        ax.set_xlabel(x)
    if not ax.get_ylabel():
        ax.set_ylabel(y)
    if title is not None and not ax.get_title():
        ax.set_title(title, fontsize="medium")


def draw_legend(ax, *, columns=2, title=None):
    """Draws a legend at the top, in a strip that is kept free of data.

    The strip is made by the limits of the data, so that the axis still follows what is
    drawn later.
    """
    entries = len(ax.get_legend_handles_labels()[1]) + (title is not None) * columns
    share = 0.03 + LEGEND_ROW * -(-entries // columns)
    low, high = ax.dataLim.intervaly
    top = high + (high - low) * share / (1.0 - share)
    ax.update_datalim([(ax.dataLim.x0, top)], updatex=False)
    ax.autoscale_view(scalex=False)
    style = {"loc": "upper center", "ncols": columns, "fontsize": "small"}
    ax.legend(title=title, title_fontsize="small", **style)


def draw_ideal(ax):
    """Draws the diagonal that what is calibrated lies on, once."""
    if not any(line.get_gid() == "ideal" for line in ax.lines):
        ax.plot(
            [0.0, 1.0],
            [0.0, 1.0],
            color=ink(ax),
            linestyle="--",
            linewidth=1.0,
            label="ideal",
            gid="ideal",
        )
