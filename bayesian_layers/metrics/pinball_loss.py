"""The pinball loss of a predicted quantile."""

import keras
from keras import ops

from bayesian_layers.keras_contact import optimized
from bayesian_layers.losses.alignment import align
from bayesian_layers.metrics.forecasts import forecast_of
from bayesian_layers.metrics.intervals import check_probability
from bayesian_layers.metrics.weighted_mean import WeightedMean
from bayesian_layers.metrics.weights import weights_like
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.random_variable import RandomVariable


@optimized("down")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class PinballLoss(WeightedMean):
    """The error of a predicted quantile, in the units of y.

    For the q-quantile x it is q (y - x) if y is above it, and (1 - q) (x - y) if it is
    below: the right quantile has the least. Of the median, q = 0.5, it is half of the
    absolute error.

    `y_pred` is the random variable of a head, or a `bl.Prediction`, whose quantile is
    taken, as in `bl.metrics.IntervalCoverage`; or plain numbers of the shape of the
    targets, which are the predicted quantile themselves. The mean is over all numbers
    of all examples.

    Args:
        quantile: The probability q of a number below the quantile.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.PinballLoss(0.9)
    >>> round(float(metric(np.array([2.0, 0.0]), np.array([1.0, 1.0]))), 4)
    0.5
    """

    def __init__(self, quantile=0.5, name="pinball_loss", dtype=None):
        check_probability("quantile", quantile)
        super().__init__(name=name, dtype=dtype)
        self.quantile = quantile

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        predicted = ops.cast(self._predicted(y_pred), self.dtype)
        targets = ops.cast(align(y_true, predicted.shape), self.dtype)
        error = targets - predicted
        weights = weights_like(error, y_pred, sample_weight, self.dtype)
        self.add(
            ops.maximum(self.quantile * error, (self.quantile - 1) * error), weights
        )

    def _predicted(self, y_pred):
        if isinstance(y_pred, (Prediction, RandomVariable)):
            return forecast_of(y_pred).quantile(self.quantile)
        return ops.convert_to_tensor(y_pred)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "quantile": self.quantile}
