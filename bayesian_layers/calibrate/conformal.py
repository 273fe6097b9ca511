"""The base of split conformal predictors."""

import warnings

import numpy as np

from bayesian_layers.calibrate.calibrator import Calibrator
from bayesian_layers.calibrate.predictions import draws_of, has_random_draws
from bayesian_layers.calibrate.quantile import check_coverage, conformal_quantile


class Conformal(Calibrator):
    """Base of split conformal predictors: all y with a score below a threshold.

    A subclass writes `_scores(prediction, y)`, an array `[n, ...]`, and a method that
    returns what has a score of at most `threshold`.

    Args:
        model: A model, or `None`.
        coverage: The probability to predict the truth, between 0 and 1.
        num_samples: The number of draws of the weights, or `None`.
        seed: Integer: which draws, or `None`.
    """

    def __init__(self, model=None, coverage=0.9, *, num_samples=None, seed=None):
        check_coverage(coverage)
        super().__init__(model, num_samples, seed)
        self.coverage = float(coverage)

    @property
    def threshold(self):
        """The largest score that is predicted: a number, or one for each output."""
        return np.asarray(self._fitted_value("threshold"), "float64")

    def fit(self, x, y, batch_size=32, verbose="auto"):
        """Finds the threshold from held-out data.

        Args:
            x: Inputs that the model was not trained on, as in `bl.predict`, or their
                `bl.Prediction`.
            y: Their targets.
            batch_size: As in `bl.predict`.
            verbose: As in `bl.predict`.

        Returns:
            The object itself.
        """
        prediction = self._predict(x, batch_size, verbose)
        threshold = conformal_quantile(self._scores(prediction, y), self.coverage)
        self._fitted = {
            "threshold": threshold.tolist(),
            "draws": draws_of(prediction),
        }
        return self

    def get_config(self):
        """Returns the constructor's arguments but the model, and what was fitted."""
        return {**super().get_config(), "coverage": self.coverage}

    def _scores(self, prediction, y):
        raise NotImplementedError

    def _predict_new(self, x, batch_size, verbose):
        """The `Prediction` of new data, by the draws that were fitted to."""
        fitted = list(self._fitted_value("draws"))
        prediction = self._predict(x, batch_size, verbose)
        if draws_of(prediction) != fitted and self._may_differ(prediction):
            warnings.warn(
                "The coverage is guaranteed for predictions by the same draws of the "
                "weights, and these are not those of the held-out data. Call "
                "`bl.predict` for both with the same `seed` and `num_samples`.",
                stacklevel=3,
            )
        return prediction

    def _may_differ(self, prediction):
        if self.model is not None:
            return has_random_draws(self.model)
        return prediction.num_samples > 1
