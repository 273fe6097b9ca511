"""Normal priors."""

import copy
import math

import keras
import numpy as np
from keras import ops

from bayesian_layers import parameterizations
from bayesian_layers.distributions import (
    Categorical,
    InverseGamma,
    MixtureSameFamily,
    Normal,
)
from bayesian_layers.regularizers.kl_divergence import (
    KLDivergence,
    as_dtype,
    register,
)


@register
class NormalKLDivergence(KLDivergence):
    """KL(q || Normal(mean, stddev)), summed over the elements of a weight.

    By name: `"normal_kl_divergence"`, the default of our layers.

    Args:
        mean: The mean of the prior. Defaults to 0.
        stddev: The standard deviation of the prior, positive. Defaults to 1.
        scale_factor: A number that multiplies the divergence.

    Example:
    >>> penalty = bl.regularizers.NormalKLDivergence(stddev=0.5)
    >>> round(float(penalty(bl.Normal(0.0, 0.5, sample_shape=()))), 4)
    0.0
    """

    def __init__(self, mean=0.0, stddev=1.0, scale_factor=1.0):
        super().__init__(Normal(mean, stddev), scale_factor)
        self.mean = mean
        self.stddev = stddev


@register
class NormalKLDivergenceWithTiedMean(KLDivergence):
    """KL(q || Normal(mean of q, stddev)): the prior sits where the posterior does.

    By name: `"normal_kl_divergence_with_tied_mean"`.

    Args:
        stddev: The standard deviation of the prior, positive. Defaults to 1.
        scale_factor: A number that multiplies the divergence.
    """

    def __init__(self, stddev=1.0, scale_factor=1.0):
        super().__init__(Normal(0.0, stddev), scale_factor)
        self.stddev = stddev

    @property
    def prior(self):
        """`None`: the prior depends on the weight, see `prior_of`."""
        return None

    def prior_of(self, weight):
        """Returns the normal distributions around the mean of a random variable."""
        mean = weight.mean()
        scale = ops.cast(self._prior.scale, mean.dtype)
        return Normal.rebuild({"loc": mean, "scale": scale})


@register
class TrainableNormalKLDivergenceStddev(KLDivergence):
    """KL(q || Normal(mean, stddev)), with a standard deviation that is trained.

    By name: `"trainable_normal_kl_divergence_stddev"`. The standard deviation of the
    prior is one number for each weight; its untransformed value is a variable of the
    layer, `<weight>_prior_stddev`.

    Args:
        mean: The mean of the prior. Defaults to 0.
        stddev_initializer: Initializer of the untransformed standard deviation.
            Defaults to the constant whose softplus is 1.
        stddev_constraint: Parameterization. Defaults to `"softplus"`.
        scale_factor: A number that multiplies the divergence.
    """

    def __init__(
        self,
        mean=0.0,
        stddev_initializer=None,
        stddev_constraint="softplus",
        scale_factor=1.0,
    ):
        super().__init__(Normal(mean, 1.0), scale_factor)
        self.mean = mean
        self.stddev_initializer = keras.initializers.get(
            stddev_initializer or keras.initializers.Constant(np.log(np.expm1(1.0)))
        )
        self.stddev_constraint = parameterizations.get(stddev_constraint)
        self._variable = None

    @property
    def prior(self):
        """The prior, with its present standard deviation."""
        scale = ops.convert_to_tensor(
            self.stddev_initializer(()) if self._variable is None else self._variable
        )
        if self.stddev_constraint is not None:
            scale = self.stddev_constraint(scale)
        return Normal.rebuild({"loc": self._prior.loc, "scale": scale})

    def bind(self, add_weight):
        """Returns a copy that reads a variable of the layer."""
        bound = copy.copy(self)
        bound._variable = add_weight(
            "prior_stddev", shape=(), initializer=self.stddev_initializer
        )
        return bound


@register
class AnchoredNormalKLDivergence(KLDivergence):
    """KL(q || Normal(anchor, s)), with the anchor an array that the layer keeps.

    The anchor is a weight of the layer, `<weight>_prior_mean`, that does not train. It
    starts at zero; `bl.to_bayesian(model, prior="moped")` sets it to the weight as it
    was trained, the posterior of an earlier task may be another. With a
    `relative_stddev`, s = max(stddev, relative_stddev * |anchor|), element by element.

    By name: `"anchored_normal_kl_divergence"`.

    Args:
        stddev: The standard deviation of the prior, positive. Defaults to 1.
        relative_stddev: A number, not negative. Defaults to 0.
        scale_factor: A number that multiplies the divergence.

    Example:
    >>> prior = bl.regularizers.AnchoredNormalKLDivergence(stddev=0.1)
    >>> layer = bl.layers.DenseFlipout(2, kernel_regularizer=prior)
    >>> layer.build((None, 3))
    >>> [weight.name for weight in layer.non_trainable_weights]
    ['kernel_prior_mean']
    """

    def __init__(self, stddev=1.0, relative_stddev=0.0, scale_factor=1.0):
        super().__init__(Normal(0.0, stddev), scale_factor)
        if not relative_stddev >= 0.0:
            raise ValueError(
                "`relative_stddev` should not be negative. "
                f"Received: relative_stddev={relative_stddev}"
            )
        self.stddev = stddev
        self.relative_stddev = relative_stddev
        self._variable = None

    @property
    def prior(self):
        """The prior, around its present anchor."""
        if self._variable is None:
            return self._prior
        anchor = ops.convert_to_tensor(self._variable)
        scale = ops.maximum(
            ops.cast(self.stddev, anchor.dtype), self.relative_stddev * ops.abs(anchor)
        )
        return Normal.rebuild({"loc": anchor, "scale": scale})

    def bind(self, add_weight):
        """Returns a copy that reads a variable of the layer."""
        bound = copy.copy(self)
        bound._variable = add_weight("prior_mean", initializer="zeros", trainable=False)
        return bound


@register
class NormalEmpiricalBayesKLDivergence(KLDivergence):
    """KL(q || Normal(mean, s)), with the best s for the posterior as it is.

    The variance of the prior has itself an inverse gamma prior, and is set to its most
    probable value given the weight, which has a closed form: with n elements,
    s**2 = (b + sum of E(w - mean)**2 / 2) / (a + 1 + n / 2). The penalty is the
    divergence at that s, minus the log-density of the inverse gamma prior there.

    By name: `"normal_empirical_bayes_kl_divergence"`.

    Args:
        mean: The mean of the prior. Defaults to 0.
        variance_concentration: The concentration a of the inverse gamma prior.
        variance_scale: The scale b of the inverse gamma prior.
        scale_factor: A number that multiplies the penalty.

    Reference: Wu et al. (2018), Deterministic variational inference for robust
    Bayesian neural networks, section 4.
    """

    def __init__(
        self,
        mean=0.0,
        variance_concentration=2.01,
        variance_scale=0.101,
        scale_factor=1.0,
    ):
        super().__init__(Normal(mean, 1.0), scale_factor)
        self.mean = mean
        self.variance_concentration = variance_concentration
        self.variance_scale = variance_scale
        self._hyperprior = InverseGamma(variance_concentration, variance_scale)

    @property
    def prior(self):
        """`None`: the prior depends on the weight, see `prior_of`."""
        return None

    def prior_of(self, weight):
        """Returns the best normal distributions for a random variable."""
        scale = ops.sqrt(self._variance(weight))
        return Normal.rebuild({"loc": self._loc(weight), "scale": scale})

    def _loc(self, weight):
        return ops.cast(self._prior.loc, weight.distribution.dtype)

    def _variance(self, weight):
        """The best variance of the prior."""
        second_moment = weight.variance() + ops.square(
            weight.mean() - self._loc(weight)
        )
        total = self.variance_scale + 0.5 * ops.sum(second_moment)
        count = math.prod(tuple(weight.shape))
        return total / (self.variance_concentration + 1.0 + 0.5 * count)

    def divergence(self, weight):
        """Returns the penalty on a random variable, a scalar."""
        variance = self._variance(weight)
        hyperprior = as_dtype(self._hyperprior, weight.distribution.dtype)
        return super().divergence(weight) - hyperprior.log_prob(variance)


@register
class NormalMixtureKLDivergence(KLDivergence):
    """KL(q || pi Normal(0, stddev1) + (1 - pi) Normal(0, stddev2)), by one draw.

    By name: `"normal_mixture_kl_divergence"`: the scale mixture of normals, a wide and
    a narrow one.

    Args:
        pi: The probability of the first component. Defaults to 0.5.
        stddev1: The standard deviation of the first component. Defaults to 1.
        stddev2: The standard deviation of the second component. Defaults to exp(-6).
        scale_factor: A number that multiplies the divergence.

    Reference: Blundell et al. (2015), Weight uncertainty in neural networks.
    """

    def __init__(
        self, pi=0.5, stddev1=1.0, stddev2=0.0024787521766663585, scale_factor=1.0
    ):
        prior = MixtureSameFamily(
            Categorical(probs=[pi, 1.0 - pi]), Normal([0.0, 0.0], [stddev1, stddev2])
        )
        super().__init__(prior, scale_factor)
        self.pi = pi
        self.stddev1 = stddev1
        self.stddev2 = stddev2
