"""What all pictures have in common: where they are drawn, and in which colours."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import colors, lines, patches, text

import bayesian_layers as bl
from bayesian_layers.plots import axes
from tests.plots.predictions import labels, of_classes, of_normal

RNG = np.random.default_rng(0)
X = np.linspace(-1.0, 1.0, 6)
NORMAL = of_normal(RNG.normal(size=(4, 6)), 0.3)
PROBS = RNG.dirichlet(np.ones(3), size=(4, 20))
Y = RNG.integers(3, size=20)
LAYER = bl.layers.DenseFlipout(2)
LAYER.build((None, 3))
LOGS = {"loss": [2.0, 1.0], "nll": [1.0, 0.5], "kl": [9.0, 8.0]}

# By name the arguments, such as would raise, and the number of panels.
FUNCTIONS = {
    "predictive": ((X, NORMAL), (X[1:], NORMAL), 1),
    "reliability": ((Y, of_classes(PROBS)), (Y + 1, of_classes(PROBS)), 1),
    "calibration": ((X, NORMAL), (X[1:], NORMAL), 1),
    "entropy_histogram": (([0.1, 0.4], [0.3, 0.5]), ([0.1], []), 1),
    "weights": ((LAYER,), (bl.layers.DenseFlipout(2),), 2),
    "training": ((LOGS,), ({},), 2),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def test_every_function_is_here():
    assert set(FUNCTIONS) == set(bl.plots.__all__)


def draw(name, **kwargs):
    made = getattr(bl.plots, name)(*FUNCTIONS[name][0], **kwargs)
    panels = FUNCTIONS[name][2]
    assert (made.shape == (panels,)) if panels > 1 else isinstance(made, plt.Axes)
    return made


@every_function
def test_without_ax_there_is_one_new_figure(name):
    panels = np.ravel(draw(name))
    assert plt.get_fignums() == [panels[0].figure.number]
    assert panels[0].figure.axes == panels.tolist()
    assert all(panel.get_xlabel() and panel.get_ylabel() for panel in panels)


@every_function
def test_a_given_ax_is_drawn_on_and_pyplot_left_alone(name):
    count = FUNCTIONS[name][2]
    figure, given = plt.subplots(1, count)
    other, current = plt.subplots()
    settings = dict(plt.rcParams)
    drawn = draw(name, ax=given)
    assert np.ravel(drawn).tolist() == np.ravel(given).tolist()
    assert all(panel.has_data() for panel in np.ravel(drawn))
    assert plt.get_fignums() == [figure.number, other.number]
    assert plt.gcf() is other and plt.gca() is current and not current.has_data()
    assert dict(plt.rcParams) == settings


@every_function
def test_labels_of_the_user_are_kept(name):
    _, given = plt.subplots(1, FUNCTIONS[name][2])
    for panel in np.ravel(given):
        panel.set(xlabel="my x", ylabel="my y", title="my title")
    for panel in np.ravel(draw(name, ax=given)):
        assert panel.get_xlabel() == "my x" and panel.get_ylabel() == "my y"
        assert panel.get_title() == "my title"


@every_function
def test_an_error_leaves_no_figure(name):
    with pytest.raises(ValueError):
        getattr(bl.plots, name)(*FUNCTIONS[name][1])
    with pytest.raises(TypeError, match="`ax` should be"):
        getattr(bl.plots, name)(*FUNCTIONS[name][0], ax="here")
    assert not plt.get_fignums()


@every_function
def test_without_matplotlib_the_error_names_the_extra(name, monkeypatch):
    for module in ("matplotlib", "matplotlib.axes", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "bayesian-layers\[plots\]"'):
        getattr(bl.plots, name)(*FUNCTIONS[name][0])


def seen(artist):
    """The colours that an artist has to be seen by."""
    if isinstance(artist, patches.Patch):
        faint = artist.get_facecolor()[-1] == 0.0
        return [artist.get_edgecolor() if faint else artist.get_facecolor()]
    if isinstance(artist, text.Text) and not artist.get_text():
        return []
    return [artist.get_color()]


@every_function
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_nothing_has_the_colour_of_the_background(name, style):
    with plt.style.context(style):
        for panel in np.ravel(draw(name)):
            panel.figure.canvas.draw()
            ground = colors.to_rgb(panel.get_facecolor())
            drawn = [*panel.lines, *panel.patches, *panel.texts]
            if panel.get_legend() is not None:
                drawn += panel.get_legend().get_texts()
            assert drawn or panel.collections
            for artist in drawn:
                assert isinstance(artist, (lines.Line2D, patches.Patch, text.Text))
                for color in seen(artist):
                    assert colors.to_rgb(color) != ground
            for collection in panel.collections:
                for color in collection.get_facecolor():
                    assert colors.to_rgb(color) != ground


def test_ink_is_that_of_the_given_axes_whatever_the_style_is_now():
    with plt.style.context("dark_background"):
        _, ax = plt.subplots()
    assert colors.to_rgb(axes.ink(ax)) == (1.0, 1.0, 1.0)
    bl.plots.calibration(X, NORMAL, ax=ax)
    assert colors.to_rgb(ax.lines[0].get_color()) == (1.0, 1.0, 1.0)
    assert labels(ax)[0] == "ideal"


def test_axes_of_a_grid_are_given_as_an_array_or_a_list():
    _, grid = plt.subplots(2, 2)
    assert bl.plots.training(LOGS, ax=grid[:, 0]).tolist() == grid[:, 0].tolist()
    assert bl.plots.training(LOGS, ax=list(grid[0])).tolist() == grid[0].tolist()
    with pytest.raises(TypeError, match="array of 2 `Axes`"):
        bl.plots.training(LOGS, ax=grid)
