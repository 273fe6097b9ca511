"""Pictures of predictions, of calibration, of weights and of training.

They need Matplotlib, which the extra `plots` brings: `pip install
"bayesian-layers[plots]"`. Each function draws on `ax`, or on a new figure, and returns
the `Axes`; a new figure is `matplotlib.pyplot`'s to show and to close.
"""

from bayesian_layers.plots.calibration import calibration
from bayesian_layers.plots.entropy_histogram import entropy_histogram
from bayesian_layers.plots.predictive import predictive
from bayesian_layers.plots.reliability import reliability
from bayesian_layers.plots.training import training
from bayesian_layers.plots.weights import weights

__all__ = [
    "calibration",
    "entropy_histogram",
    "predictive",
    "reliability",
    "training",
    "weights",
]
