"""Numbers: what a metric of regression is given, as a forecast of each of them."""

import keras
from keras import ops

from bayesian_layers.distributions import shapes
from bayesian_layers.metrics.elements import (
    elements_of,
    merge_components,
    normal_components,
    quantile_of,
)
from bayesian_layers.prediction.moments import CLASSIFIERS
from bayesian_layers.prediction.prediction import Prediction
from bayesian_layers.random_variable import RandomVariable


def forecast_of(y_pred, y_true=None):
    """Returns what is predicted of each number.

    Args:
        y_pred: The random variable of a head of numbers; a `bl.Prediction`; or samples
            `[S, B, ...]`.
        y_true: The targets `[B, ...]`, or `None` if the metric does without.
    """
    if isinstance(y_pred, Prediction):
        return PredictionForecast(y_pred)
    if isinstance(y_pred, RandomVariable):
        return DistributionForecast(y_pred)
    return SamplesForecast(y_pred, y_true)


class DistributionForecast:
    """The distribution of each number, from the random variable of a head."""

    def __init__(self, y_pred):
        self.distribution = elements_of(y_pred.distribution)
        _check_numbers(type(self.distribution), y_pred)

    @property
    def shape(self):
        """The static shape of the targets."""
        return self.distribution.shape()

    def quantile(self, q):
        """Returns the q-quantile of each number."""
        return quantile_of(self.distribution, q)

    def normal_components(self):
        """Returns weights, means and scales `[..., k]` of normal components, if any."""
        return normal_components(self.distribution)

    def samples(self, count, seed):
        """Returns draws `[count, ...]`."""
        return self.distribution.sample(count, seed=seed)


class PredictionForecast:
    """The mixture over the draws of a `bl.Prediction`."""

    def __init__(self, prediction):
        _check_numbers(prediction.family, prediction)
        self.prediction = prediction

    @property
    def shape(self):
        """The shape of the targets."""
        return self.prediction.mean.shape

    def quantile(self, q):
        """Returns the q-quantile of each number."""
        return ops.convert_to_tensor(self.prediction.quantile(q))

    def normal_components(self):
        """Returns weights, means and scales `[..., k]` of normal components, if any."""
        parts = normal_components(elements_of(self.prediction.distribution))
        if parts is None:
            return None
        weights, loc, scale = (ops.moveaxis(part, 0, -2) for part in parts)
        return merge_components(weights / self.prediction.num_samples, loc, scale)

    def samples(self, count, seed):
        """Returns the samples of the prediction, one for each draw."""
        samples = self.prediction.samples
        return samples_of(samples, samples[0])


class SamplesForecast:
    """Samples `[S, B, ...]`, all equally probable."""

    def __init__(self, samples, y_true):
        self._samples = samples_of(samples, y_true)

    @property
    def shape(self):
        """The static shape of the targets."""
        return shapes.static(self._samples)[1:]

    def quantile(self, q):
        """Returns the q-quantile of the samples, between two of which it is linear."""
        return ops.quantile(self._samples, q, axis=0)

    def normal_components(self):
        """Returns `None`: there are none."""

    def samples(self, count, seed):
        """Returns all samples."""
        return self._samples


def samples_of(y_pred, y_true=None):
    """Returns samples `[S, B, ...]` as a floating tensor.

    Their number has to be known, and above 1, and they have an axis more than the
    targets: the output of a plain model, `[B, ...]`, is not taken for samples.
    """
    samples = ops.convert_to_tensor(y_pred)
    given = shapes.static(samples)
    if not (_are_many(given) and _belong_to(given[1:], y_true)):
        target = (
            None if y_true is None else shapes.static(ops.convert_to_tensor(y_true))
        )
        raise ValueError(
            "Expected the random variable of a head such as `bl.layers.Normal`, a "
            "`bl.Prediction`, or two or more samples of all targets, [S, B, ...]. "
            f"Received: y_pred.shape={given}, y_true.shape={target}"
        )
    return ops.cast(samples, keras.backend.result_type(samples.dtype, "float32"))


def _are_many(shape):
    return len(shape) > 1 and shape[0] is not None and shape[0] > 1


def _belong_to(shape, y_true):
    """Whether targets are of a shape, of which they may lack a last axis of 1."""
    if y_true is None:
        return True
    target = shapes.static(ops.convert_to_tensor(y_true))
    matches = shapes.matches(target, shape)
    return matches or (shape[-1] == 1 and shapes.matches(target, shape[:-1]))


def _check_numbers(family, y_pred):
    if issubclass(family, CLASSIFIERS):
        raise TypeError(
            "Expected a prediction of numbers. Those of classes have metrics such as "
            "`bl.metrics.BrierScore` and `bl.metrics.ExpectedCalibrationError`. "
            f"Received: y_pred={y_pred!r}"
        )
