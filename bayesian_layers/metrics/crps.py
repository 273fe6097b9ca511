"""The continuous ranked probability score."""

import math

import keras
import numpy as np
from keras import ops

from bayesian_layers import seeds
from bayesian_layers.keras_contact import optimized
from bayesian_layers.metrics.weighted_mean import MeanOfNumbers


@optimized("down")
@keras.saving.register_keras_serializable("bayesian_layers.metrics")
class CRPS(MeanOfNumbers):
    """The distance between a predicted distribution of a number and the number.

    integral of (F(x) - 1[y <= x])^2 dx = E |X - y| - E |X - X'| / 2

    for the distribution function F, and independent X and X' that have it. It is in the
    units of y, the absolute error of a point, and proper: the right distribution has
    the least. Unlike the log-likelihood it does not punish far outliers without bound.
    The mean is over all numbers of all examples, each on its own.

    It is exact for normal distributions and mixtures of such: those of
    `bl.layers.Normal`, `MixtureNormal` and of Gaussian processes, and a `bl.Prediction`
    whose draws are such, of which it is that of the mixture over draws (at a cost that
    grows with the square of their number). Of others it is estimated from draws, by the
    unbiased ("fair") estimator

    1/m sum_i |x_i - y| - 1 / (2 m (m - 1)) sum_ij |x_i - x_j|.

    `y_pred` is the random variable of a head of numbers, a `bl.Prediction`, or samples
    `[S, B, ...]`, with S of at least 2. The output of a plain model is a point, whose
    CRPS is its absolute error: `keras.metrics.MeanAbsoluteError`.

    Args:
        num_samples: The number m of draws from a random variable without a closed form.
            Of a `bl.Prediction`, and of samples, all count.
        seed: Integer seed of the draws; they are the same again after `reset_state`.
            Defaults to a random one.
        name: The name of the metric.
        dtype: As in `keras.metrics.Metric`.

    Example:
    >>> metric = bl.metrics.CRPS()
    >>> y_pred = bl.Normal(np.zeros(2), 1.0)
    >>> round(float(metric(np.zeros(2), y_pred)), 4)
    0.2337

    Reference: Gneiting & Raftery (2007), Strictly proper scoring rules, prediction, and
    estimation; Grimit et al. (2006), for mixtures; Ferro (2014), for the estimator.
    """

    def __init__(self, num_samples=100, seed=None, name="crps", dtype=None):
        super().__init__(name=name, dtype=dtype)
        if not (isinstance(num_samples, int) and num_samples > 1):
            raise ValueError(
                "`num_samples` should be an integer above 1. "
                f"Received: num_samples={num_samples}"
            )
        self.num_samples = num_samples
        self.seed = seed
        self._seed_generator = seeds.generator(seed)
        # As a variable of the metric it is part of what JAX carries from step to step.
        self._seed_state = self._seed_generator.state
        self._first_seed = ops.convert_to_numpy(self._seed_state)

    def reset_state(self):
        """Forgets all batches; draws begin anew."""
        super().reset_state()
        self._seed_state.assign(self._first_seed)

    def values(self, forecast, targets):
        """Returns the score of each number."""
        parts = forecast.normal_components()
        if parts is not None:
            return crps_of_normals(targets, *parts)
        samples = forecast.samples(self.num_samples, self._seed_generator)
        return crps_of_samples(targets, ops.cast(samples, self.dtype))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_samples": self.num_samples,
            "seed": self.seed,
        }


def crps_of_normals(y, weights, loc, scale):
    """The score of mixtures of normal distributions.

    sum_i w_i A(y - m_i, s_i) - 1/2 sum_ij w_i w_j A(m_i - m_j, sqrt(s_i^2 + s_j^2)),

    where A(m, s) is the mean of the absolute value of a normal variable.

    Args:
        y: Numbers `[...]`.
        weights: The probabilities of the components, `[..., k]`.
        loc: Their means.
        scale: Their standard deviations.
    """
    y = ops.cast(y, loc.dtype)[..., None]
    error = ops.sum(weights * _mean_absolute(y - loc, scale), axis=-1)
    spread = ops.zeros_like(error)
    # One at a time: all pairs at once may not fit into memory.
    for i in range(loc.shape[-1]):
        one = slice(i, i + 1)
        both = ops.hypot(scale, scale[..., one])
        distance = _mean_absolute(loc - loc[..., one], both)
        spread = spread + weights[..., i] * ops.sum(weights * distance, axis=-1)
    return error - 0.5 * spread


def _mean_absolute(mean, stddev):
    """The mean of the absolute value of a normal variable."""
    z = mean / stddev
    density = math.sqrt(2.0 / math.pi) * ops.exp(-0.5 * ops.square(z))
    return mean * ops.erf(z / math.sqrt(2.0)) + stddev * density


def crps_of_samples(y, samples):
    """The fair estimate from samples `[m, ...]`."""
    count = samples.shape[0]
    errors = ops.sort(samples - y, axis=0)
    # In order, sum_ij |x_i - x_j| / 2 is sum_k (2 k - m + 1) x_k, for k from 0.
    ranks = 2.0 * np.arange(count) - count + 1.0
    ranks = ranks / (count * (count - 1.0))
    ranks = ops.convert_to_tensor(ranks, errors.dtype)
    ranks = ops.reshape(ranks, (-1, *[1] * (len(errors.shape) - 1)))
    return ops.mean(ops.abs(errors), axis=0) - ops.sum(ranks * errors, axis=0)
