"""Metrics that see the distribution of an output."""

from bayesian_layers.metrics.accuracy import Accuracy
from bayesian_layers.metrics.brier_score import BrierScore
from bayesian_layers.metrics.calibration_error import (
    AdaptiveCalibrationError,
    ClasswiseCalibrationError,
    ExpectedCalibrationError,
)
from bayesian_layers.metrics.class_uncertainty import (
    MutualInformation,
    PredictiveEntropy,
)
from bayesian_layers.metrics.crps import CRPS
from bayesian_layers.metrics.intervals import IntervalCoverage, IntervalWidth
from bayesian_layers.metrics.negative_log_likelihood import NegativeLogLikelihood
from bayesian_layers.metrics.out_of_distribution import AUROC, FPR95
from bayesian_layers.metrics.pinball_loss import PinballLoss

__all__ = [
    "AUROC",
    "Accuracy",
    "AdaptiveCalibrationError",
    "BrierScore",
    "CRPS",
    "ClasswiseCalibrationError",
    "ExpectedCalibrationError",
    "FPR95",
    "IntervalCoverage",
    "IntervalWidth",
    "MutualInformation",
    "NegativeLogLikelihood",
    "PinballLoss",
    "PredictiveEntropy",
]
