"""Normal posteriors with independent elements."""

import math

from keras import ops

from bayesian_layers.distributions import Normal
from bayesian_layers.initializers.posterior import (
    FanInConstant,
    NaturalConstant,
    Posterior,
    register,
)

# softplus(-3) = 0.0486: small beside the weights of a layer with up to some hundred
# inputs, so that a network starts out close to the deterministic one.
UNTRANSFORMED_SCALE = -3.0
SCALE = NaturalConstant(math.log1p(math.exp(UNTRANSFORMED_SCALE)))


@register
class TrainableNormal(Posterior):
    """Independent normal distributions over the elements of a weight.

    w = mean + constraint(untransformed_stddev) * z, with standard normal z

    By name: `"trainable_normal"`. With the default arguments the standard deviation
    starts at softplus(-3) = 0.0486, whatever the size of the layer.

    Args:
        mean_initializer: Initializer of the mean; a `Posterior` makes the mean itself
            random. Defaults to the Keras default of the argument that this is given
            for (`"glorot_uniform"` for kernels).
        stddev_initializer: Initializer of the untransformed standard deviation; in
            natural units `bl.initializers.NaturalConstant(0.1)`, say. Defaults to what
            is 0.0486 in natural units, -3 for softplus.
        mean_regularizer: Penalty on the mean.
        stddev_regularizer: Penalty on the untransformed standard deviation.
        mean_constraint: Parameterization of the mean. Defaults to none.
        stddev_constraint: Parameterization of the standard deviation. Defaults to
            `"softplus"`.

    Example:
    >>> layer = bl.layers.DenseReparameterization(
    ...     2, kernel_initializer=bl.initializers.TrainableNormal()
    ... )
    >>> layer.build((None, 3))
    >>> [weight.name for weight in layer.trainable_weights]
    ['kernel', 'kernel_scale', 'bias']
    """

    arguments = {"mean": "loc", "stddev": "scale"}
    defaults = {"stddev": SCALE}
    positive = ("stddev",)

    def __init__(
        self,
        mean_initializer=None,
        stddev_initializer=None,
        mean_regularizer=None,
        stddev_regularizer=None,
        mean_constraint=None,
        stddev_constraint="softplus",
    ):
        super().__init__(
            mean_initializer=mean_initializer,
            stddev_initializer=stddev_initializer,
            mean_regularizer=mean_regularizer,
            stddev_regularizer=stddev_regularizer,
            mean_constraint=mean_constraint,
            stddev_constraint=stddev_constraint,
        )

    def distribution(self, loc, scale):
        """Returns the normal distributions."""
        return Normal.rebuild({"loc": loc, "scale": scale})


@register
class TrainableNormalFanIn(TrainableNormal):
    """Independent normal distributions that start narrow where a kernel is large.

    By name: `"trainable_normal_fan_in"`, the default of our layers. Arguments as in
    `TrainableNormal`; the standard deviation starts at 0.0486 / sqrt(fan_in). The noise
    that it adds to the sum over a layer's inputs is then a twentieth of the signal,
    whatever the number of inputs; with a constant it is above the signal at some
    hundred of them.
    """

    defaults = {"stddev": FanInConstant(SCALE.value)}


@register
class TrainableNormalSharedStddev(TrainableNormal):
    """Independent normal distributions with one standard deviation for a whole weight.

    By name: `"trainable_normal_shared_stddev"`. Arguments as in `TrainableNormal`.
    """

    def shapes(self, shape):
        """Returns the shapes: the standard deviation is a number."""
        return {"loc": shape, "scale": ()}

    def distribution(self, loc, scale):
        """Returns the normal distributions."""
        scale = ops.broadcast_to(scale, ops.shape(loc))
        return Normal.rebuild({"loc": loc, "scale": scale})


@register
class TrainableNormalFixedStddev(Posterior):
    """Independent normal distributions with a standard deviation that does not train.

    By name: `"trainable_normal_fixed_stddev"`.

    Args:
        stddev: The standard deviation, positive. Defaults to 1.
        mean_initializer: Initializer of the mean, as in `TrainableNormal`.
        mean_regularizer: Penalty on the mean.
        mean_constraint: Parameterization of the mean. Defaults to none.

    Example:
    >>> posterior = bl.initializers.TrainableNormalFixedStddev(stddev=0.1)
    >>> posterior.get_config()["stddev"]
    0.1
    """

    arguments = {"mean": "loc"}

    def __init__(
        self,
        stddev=1.0,
        mean_initializer=None,
        mean_regularizer=None,
        mean_constraint=None,
    ):
        if not stddev > 0.0:
            raise ValueError(f"`stddev` should be positive. Received: stddev={stddev}")
        super().__init__(
            stddev=stddev,
            mean_initializer=mean_initializer,
            mean_regularizer=mean_regularizer,
            mean_constraint=mean_constraint,
        )

    def distribution(self, loc):
        """Returns the normal distributions."""
        scale = ops.full_like(loc, self._settings["stddev"])
        return Normal.rebuild({"loc": loc, "scale": scale})
