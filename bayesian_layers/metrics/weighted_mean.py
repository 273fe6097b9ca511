"""The contract of metrics that are means."""

import keras
from keras import ops

from bayesian_layers.losses.alignment import align
from bayesian_layers.metrics.classes import read_classes
from bayesian_layers.metrics.forecasts import forecast_of
from bayesian_layers.metrics.weights import weights_like


class WeightedMean(keras.metrics.Mean):
    """Base of metrics that are a mean over examples, and over positions of them.

    It is over all of an epoch, whatever the sizes of batches.
    """

    def add(self, values, weights):
        """Adds values, and weights of their shape, to the mean."""
        values = ops.cast(values, self.dtype)
        # What has no weight may be anything: 0 * inf would be NaN.
        values = ops.where(ops.equal(weights, 0.0), 0.0, values)
        super().update_state(values, sample_weight=weights)


class MeanOfClasses(WeightedMean):
    """Base of means of what each example says of classes and the true class."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        distribution, labels, weights = read_classes(
            y_true, y_pred, sample_weight, self.dtype
        )
        self.add(self.values(distribution, labels), weights)

    def values(self, distribution, labels):
        """Returns a number for each label.

        Args:
            distribution: A `Bernoulli`, `Categorical` or `OneHotCategorical`.
            labels: Integers of its batch shape.
        """
        raise NotImplementedError(f"{type(self).__name__} has to implement `values`.")


class MeanOfNumbers(WeightedMean):
    """Base of means of what is predicted of each number, and the true number."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch."""
        forecast = forecast_of(y_pred, y_true)
        targets = ops.cast(align(y_true, forecast.shape), self.dtype)
        weights = weights_like(targets, y_pred, sample_weight, self.dtype)
        self.add(self.values(forecast, targets), weights)

    def values(self, forecast, targets):
        """Returns a number for each target.

        Args:
            forecast: One of `bayesian_layers.metrics.forecasts`.
            targets: The targets, of its shape.
        """
        raise NotImplementedError(f"{type(self).__name__} has to implement `values`.")
