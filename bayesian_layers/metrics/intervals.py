"""Predicted intervals: how often they hold, and how wide they are."""

import keras
from keras import ops

from bayesian_layers.metrics.forecasts import forecast_of
from bayesian_layers.metrics.weighted_mean import MeanOfNumbers, WeightedMean
from bayesian_layers.metrics.weights import weights_like


def check_probability(name, value):
    """Raises `ValueError` unless a number is between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(
            f"`{name}` should be between 0 and 1. Received: {name}={value}"
        )


def interval_of(forecast, probability):
    """Returns the ends of the central interval of a probability."""
    tail = 0.5 * (1.0 - probability)
    return forecast.quantile(tail), forecast.quantile(1.0 - tail)


@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class IntervalCoverage(MeanOfNumbers):
    """How often the true number is in the predicted central interval.

    The interval lies between the quantiles (1 - probability) / 2 and
    (1 + probability) / 2; its ends belong to it. Right predictions have a coverage of
    `probability`, up to chance: less says that they are too sure, more that they are
    too wide. There is no direction that is better, so callbacks need their `mode`.

    `y_pred` is the random variable of a head whose distribution has quantiles, or is a
    mixture of such (`bl.layers.Normal`, `StudentT`, `MixtureNormal`, ...); a
    `bl.Prediction`, by its `quantile`; or samples `[S, B, ...]`, by theirs. The mean is
    over all numbers of all examples.

    Args:
        probability: The probability of the interval.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.IntervalCoverage(0.9)
    >>> y_pred = bl.Normal(np.zeros(4), 1.0)
    >>> float(metric(np.array([-2.0, -1.0, 0.0, 1.0]), y_pred))
    0.75
    """

    def __init__(self, probability=0.9, name="interval_coverage", dtype=None):
        check_probability("probability", probability)
        super().__init__(name=name, dtype=dtype)
        self.probability = probability

    def values(self, forecast, targets):
        """Returns 1 where the interval holds the number, and 0 elsewhere."""
        low, high = interval_of(forecast, self.probability)
        low, high = ops.cast(low, targets.dtype), ops.cast(high, targets.dtype)
        return ops.logical_and(low <= targets, targets <= high)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "probability": self.probability}


@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class IntervalWidth(WeightedMean):
    """How wide the predicted central interval is, in the units of y.

    The difference of the quantiles (1 + probability) / 2 and (1 - probability) / 2. Of
    two predictions whose `bl.metrics.IntervalCoverage` is right the narrower knows
    more; alone it says nothing, so callbacks need their `mode`.

    `y_pred` is as in `bl.metrics.IntervalCoverage`. Nothing is read of `y_true`, which
    may be `None`, but the shape, if `y_pred` are samples.

    Args:
        probability: The probability of the interval.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.IntervalWidth(0.9)
    >>> round(float(metric(None, bl.Normal(np.zeros(4), 1.0))), 4)
    3.2897
    """

    def __init__(self, probability=0.9, name="interval_width", dtype=None):
        check_probability("probability", probability)
        super().__init__(name=name, dtype=dtype)
        self.probability = probability

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        forecast = forecast_of(y_pred, y_true)
        low, high = interval_of(forecast, self.probability)
        weights = weights_like(low, y_pred, sample_weight, self.dtype)
        self.add(high - low, weights)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "probability": self.probability}
