"""Posteriors of other families with independent elements."""

from keras import ops

from bayesian_layers.distributions import (
    Cauchy,
    Deterministic,
    HalfCauchy,
    LogNormal,
    Normal,
)
from bayesian_layers.initializers.normal import (
    SCALE,
    TrainableNormal,
)
from bayesian_layers.initializers.posterior import Posterior, register


class LocationScalePosterior(Posterior):
    """Base of the posteriors with a location and a scale for each element."""

    arguments = {"loc": "loc", "scale": "scale"}
    defaults = {"scale": SCALE}
    positive = ("scale",)
    family = None

    def __init__(
        self,
        loc_initializer=None,
        scale_initializer=None,
        loc_regularizer=None,
        scale_regularizer=None,
        loc_constraint=None,
        scale_constraint="softplus",
    ):
        super().__init__(
            loc_initializer=loc_initializer,
            scale_initializer=scale_initializer,
            loc_regularizer=loc_regularizer,
            scale_regularizer=scale_regularizer,
            loc_constraint=loc_constraint,
            scale_constraint=scale_constraint,
        )

    def distribution(self, loc, scale):
        """Returns the distributions of the family."""
        return self.family.rebuild({"loc": loc, "scale": scale})


@register
class TrainableCauchy(LocationScalePosterior):
    """Independent Cauchy distributions over the elements of a weight.

    By name: `"trainable_cauchy"`.

    Args:
        loc_initializer: Initializer of the median. Defaults to the layer's.
        scale_initializer: Initializer of the untransformed scale. Defaults to -3.
        loc_regularizer: Penalty on the median.
        scale_regularizer: Penalty on the untransformed scale.
        loc_constraint: Parameterization of the median. Defaults to none.
        scale_constraint: Parameterization of the scale. Defaults to `"softplus"`.
    """

    family = Cauchy


@register
class TrainableHalfCauchy(LocationScalePosterior):
    """Independent half-Cauchy distributions: weights above a location.

    By name: `"trainable_half_cauchy"`.

    Args:
        loc_initializer: Initializer of the lower end. Defaults to the layer's.
        scale_initializer: Initializer of the untransformed scale. Defaults to -3.
        loc_regularizer: Penalty on the lower end.
        scale_regularizer: Penalty on the untransformed scale.
        loc_constraint: Parameterization of the lower end. Defaults to none.
        scale_constraint: Parameterization of the scale. Defaults to `"softplus"`.
    """

    family = HalfCauchy


@register
class TrainableLogNormal(LocationScalePosterior):
    """Independent log-normal distributions: positive weights.

    By name: `"trainable_log_normal"`. The Keras variable is the mean of log(w).

    Args:
        loc_initializer: Initializer of the mean of log(w). Defaults to the layer's.
        scale_initializer: Initializer of the untransformed standard deviation of
            log(w). Defaults to -3.
        loc_regularizer: Penalty on the mean of log(w).
        scale_regularizer: Penalty on the untransformed standard deviation.
        loc_constraint: Parameterization of the mean of log(w). Defaults to none.
        scale_constraint: Parameterization of the standard deviation. Defaults to
            `"softplus"`.
    """

    family = LogNormal


@register
class TrainableDeterministic(Posterior):
    """A weight that is known: a point mass that trains.

    By name: `"trainable_deterministic"`. Penalties on it see `log_prob` of the prior,
    so that training finds the maximum of the posterior.

    Args:
        loc_initializer: Initializer of the point. Defaults to the layer's.
        loc_regularizer: Penalty on the point.
        loc_constraint: Parameterization of the point. Defaults to none.
    """

    arguments = {"loc": "loc"}

    def __init__(self, loc_initializer=None, loc_regularizer=None, loc_constraint=None):
        super().__init__(
            loc_initializer=loc_initializer,
            loc_regularizer=loc_regularizer,
            loc_constraint=loc_constraint,
        )

    def distribution(self, loc):
        """Returns the point masses."""
        return Deterministic.rebuild({"loc": loc})


@register
class TrainableDropoutNormal(TrainableNormal):
    """Normal distributions in the form of dropout: noise that multiplies the weight.

    w = mean * (1 + sqrt(alpha) * z), with standard normal z and
    alpha = stddev**2 / mean**2, whose logarithm is clipped to [-8, 8].

    By name: `"trainable_dropout_normal"`. Arguments as in `TrainableNormal`.

    Reference: Molchanov, Ashukha and Vetrov (2017), Variational dropout sparsifies
    deep neural networks.
    """

    log_alpha_limit = 8.0

    def log_alpha(self, loc, scale):
        """Returns log(scale**2 / loc**2), clipped."""
        square = ops.maximum(ops.square(loc), 1e-16)
        log_alpha = 2.0 * ops.log(scale) - ops.log(square)
        return ops.clip(log_alpha, -self.log_alpha_limit, self.log_alpha_limit)

    def distribution(self, loc, scale):
        """Returns the normal distributions."""
        size = ops.sqrt(ops.maximum(ops.square(loc), 1e-16))
        clipped = ops.exp(0.5 * self.log_alpha(loc, scale)) * size
        return Normal.rebuild({"loc": loc, "scale": clipped})
