"""Calibration of trained models by data that was held out.

Temperature scaling makes the probabilities of a classifier more honest. Split conformal
prediction gives intervals, or sets of classes, with a guaranteed coverage, whatever the
model.
"""

from bayesian_layers.calibrate.intervals import (
    ConformalIntervals,
    ConformalNormalizedIntervals,
    ConformalQuantileIntervals,
)
from bayesian_layers.calibrate.quantile import conformal_quantile
from bayesian_layers.calibrate.sets import ConformalAdaptiveSets, ConformalSets
from bayesian_layers.calibrate.temperature_scaling import TemperatureScaling

__all__ = [
    "ConformalAdaptiveSets",
    "ConformalIntervals",
    "ConformalNormalizedIntervals",
    "ConformalQuantileIntervals",
    "ConformalSets",
    "TemperatureScaling",
    "conformal_quantile",
]
