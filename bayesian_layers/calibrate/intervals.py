"""Split conformal intervals, for outputs that are numbers."""

import numpy as np

from bayesian_layers.calibrate.calibrator import register
from bayesian_layers.calibrate.conformal import Conformal
from bayesian_layers.calibrate.predictions import is_one_value
from bayesian_layers.calibrate.targets import host_targets


class Intervals(Conformal):
    """Base of conformal intervals, as functions of some arrays that are predicted.

    A subclass writes `_arrays(prediction)`, which returns them, each of the shape of
    the targets, `_residuals(y, *arrays)` and `_ends(threshold, *arrays)`.
    """

    def interval(self, x, batch_size=32, verbose="auto"):
        """Returns the ends of intervals that hold the targets of new data.

        Args:
            x: Inputs, as in `bl.predict`, or their `bl.Prediction`.
            batch_size: As in `bl.predict`.
            verbose: As in `bl.predict`.

        Returns:
            Two arrays `[examples, ...]`, of the shape of the targets.
        """
        prediction = self._predict_new(x, batch_size, verbose)
        return self._ends(self.threshold, *self._checked_arrays(prediction))

    def _scores(self, prediction, y):
        arrays = self._checked_arrays(prediction)
        y = host_targets(y, arrays[0].shape).astype("float64")
        return self._residuals(y, *arrays)

    def _checked_arrays(self, prediction):
        if prediction.is_classifier:
            raise ValueError(
                "Intervals are for outputs that are numbers. Use "
                f"`bl.calibrate.ConformalSets` for classes. Received: {prediction!r}"
            )
        arrays = [np.asarray(a, "float64") for a in self._arrays(prediction)]
        if not all(np.all(np.isfinite(array)) for array in arrays):
            raise ValueError(
                "Expected finite predictions. Received: predictions with "
                f"{np.sum(~np.isfinite(arrays))} numbers that are not."
            )
        return arrays

    def _arrays(self, prediction):
        raise NotImplementedError

    def _residuals(self, y, *arrays):
        raise NotImplementedError

    def _ends(self, threshold, *arrays):
        raise NotImplementedError


@register
class ConformalIntervals(Intervals):
    """Intervals of one width around the predictions, with a guaranteed coverage.

    mean(x) - t <= y <= mean(x) + t, for t the conformal quantile of the absolute
    residuals |y - mean(x)| of n held-out examples. If these and a new one are
    exchangeable, its interval holds its y with a probability

        coverage <= P <= coverage + 1 / (n + 1),

    the upper bound where no two residuals are equal. Nothing else is assumed, neither
    that the model is good nor how the data is distributed. The probability is over
    held-out data and new example together, on average over x: where the noise is large
    the intervals are too short, and too long elsewhere. If there are several outputs,
    each has its own t, and the coverage is that of each by itself.

    For any Keras model with numbers for outputs: plain, with a head, or Bayesian.

    Args:
        model: A model, or several, as in `bl.predict`. Without one, a `bl.Prediction`
            is given in the place of x.
        coverage: The probability to hold the truth, between 0 and 1.
        num_samples: The number of draws of the weights of a Bayesian model. Defaults
            to that of `bl.predict`, and to one if nothing is random.
        seed: Integer: which draws. They are the same for held-out and for new data.
            Defaults to a random one.

    Example:
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(99, 1)), rng.normal(size=99)
    >>> conformal = bl.calibrate.ConformalIntervals(model, coverage=0.9)
    >>> low, high = conformal.fit(x, y, verbose=0).interval(x[:4], verbose=0)
    >>> low.shape, bool(np.allclose(high - low, 2.0 * conformal.threshold))
    ((4, 1), True)

    Reference:
        Lei et al. 2018, Distribution-Free Predictive Inference for Regression, 2.2.
    """

    def _arrays(self, prediction):
        return (prediction.mean,)

    def _residuals(self, y, mean):
        return np.abs(y - mean)

    def _ends(self, threshold, mean):
        return mean - threshold, mean + threshold


@register
class ConformalNormalizedIntervals(Intervals):
    """Intervals as wide as the model is unsure, with a guaranteed coverage.

    mean(x) - t stddev(x) <= y <= mean(x) + t stddev(x), for t the conformal quantile of
    |y - mean(x)| / stddev(x) of held-out examples. The mean and the standard deviation
    are those of `bl.predict`, of noise and weights together. The guarantee is that of
    `bl.calibrate.ConformalIntervals`, be the standard deviation right or wrong; the
    better it is, the more even is the coverage over x.

    For models with a head such as `bl.layers.Normal`, and for Bayesian ones. Arguments
    as in `bl.calibrate.ConformalIntervals`.

    Example:
    >>> model = keras.Sequential([keras.Input((1,)), bl.layers.Normal(1)])
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(99, 1)), rng.normal(size=99)
    >>> conformal = bl.calibrate.ConformalNormalizedIntervals(model, coverage=0.9)
    >>> low, high = conformal.fit(x, y, verbose=0).interval(x[:4], verbose=0)
    >>> low.shape, bool(np.all(low < high))
    ((4, 1), True)

    Reference:
        Lei et al. 2018, Distribution-Free Predictive Inference for Regression, 5.2.
    """

    def _arrays(self, prediction):
        stddev = prediction.stddev
        if not np.all(stddev > 0.0):
            raise ValueError(
                "Normalized intervals need a model that is unsure of every output: one "
                "with a head such as `bl.layers.Normal`, or a Bayesian one. Use "
                "`bl.calibrate.ConformalIntervals` for others. Received: a standard "
                f"deviation of 0, or none, for {np.sum(~(stddev > 0.0))} of "
                f"{stddev.size} outputs"
            )
        return prediction.mean, stddev

    def _residuals(self, y, mean, stddev):
        return np.abs(y - mean) / stddev

    def _ends(self, threshold, mean, stddev):
        return mean - threshold * stddev, mean + threshold * stddev


@register
class ConformalQuantileIntervals(Intervals):
    """Predictive intervals, made wider or shorter to have a guaranteed coverage.

    Conformalized quantile regression: low(x) - t <= y <= high(x) + t, for t the
    conformal quantile of max(low(x) - y, y - high(x)) of held-out examples. t is
    negative if the intervals were too wide; ends that would pass each other meet
    halfway. The guarantee is that of `bl.calibrate.ConformalIntervals`.

    low and high are the ends of `prediction.interval(coverage)`, for models with a head
    and for Bayesian ones. A plain model that is not random predicts them itself, the
    quantiles `(1 - coverage) / 2` and `(1 + coverage) / 2`, on a last axis of size 2.
    Arguments as in `bl.calibrate.ConformalIntervals`.

    Example:
    >>> model = keras.Sequential([keras.Input((1,)), bl.layers.Normal(1)])
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(99, 1)), rng.normal(size=99)
    >>> conformal = bl.calibrate.ConformalQuantileIntervals(model, coverage=0.9)
    >>> low, high = conformal.fit(x, y, verbose=0).interval(x[:4], verbose=0)
    >>> low.shape, bool(np.all(low < high))
    ((4, 1), True)

    Reference:
        Romano, Patterson and Candes 2019, Conformalized Quantile Regression.
    """

    store_samples = True

    def _arrays(self, prediction):
        if not is_one_value(prediction):
            return prediction.interval(self.coverage)
        shape = prediction.mean.shape
        if len(shape) < 2 or shape[-1] != 2:
            raise ValueError(
                "A plain model without uncertainty should predict two quantiles, the "
                "ends of an interval, on a last axis of size 2. Use "
                "`bl.calibrate.ConformalIntervals` for one that predicts a mean. "
                f"Received: outputs of shape {shape}"
            )
        return prediction.mean[..., 0], prediction.mean[..., 1]

    def _residuals(self, y, low, high):
        return np.maximum(low - y, y - high)

    def _ends(self, threshold, low, high):
        middle = 0.5 * (low + high)
        low, high = low - threshold, high + threshold
        crossed = low > high
        return np.where(crossed, middle, low), np.where(crossed, middle, high)
