"""Prediction with uncertainty."""

from bayesian_layers.prediction.predict import predict
from bayesian_layers.prediction.prediction import Prediction

__all__ = ["Prediction", "predict"]
