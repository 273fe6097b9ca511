"""Posteriors of any shape, by way of invertible layers."""

import copy
import math

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import (
    MultivariateNormalDiag,
    Reshaped,
    Transformed,
)
from bayesian_layers.distributions.transforms import Map
from bayesian_layers.handlers import block
from bayesian_layers.initializers.normal import SCALE
from bayesian_layers.initializers.posterior import Posterior, register
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.trace import drawn_when_read


class _LocationScale(Map):
    """loc + scale * x, of tensors."""

    is_pytree = True

    def __init__(self, loc, scale):
        self.loc = loc
        self.scale = scale

    def __call__(self, x):
        return self.loc + self.scale * x

    def forward_and_log_det(self, x):
        return self(x), ops.log(self.scale) + ops.zeros_like(x)

    def reverse_and_log_det(self, y):
        return (y - self.loc) / self.scale, ops.zeros_like(y) - ops.log(self.scale)

    def map_tensors(self, function):
        return _LocationScale(function(self.loc), function(self.scale))


backend.register_pytree(
    _LocationScale,
    lambda placed: ((placed.loc, placed.scale), None),
    lambda _, leaves: _LocationScale(*leaves),
)


@register
class TrainableFlow(Posterior):
    """A distribution over a weight that invertible layers give its shape.

    vec(w) = mean + stddev * flow(z), with standard normal z

    By name: `"trainable_flow"`. The elements of a weight depend on each other as the
    flow says: they can have several modes, long tails, curved ridges. There is no
    closed form of the divergence from a prior; it is log q(w) - log p(w) at a fresh
    draw, for which the flow runs forward only. It has no mean either: weights cannot
    be held at it (`bl.weights(model, "mean")`).

    With a flow that starts as the identity, as `bl.layers.RealNVP` and others do, it
    starts as `TrainableNormal` does. The weights of the flow belong to the layer, under
    the name `<weight>_flow`; each weight has a flow of its own, made from the config of
    the given one. Their number grows with that of the elements: for small layers, or
    the last one of a network.

    Args:
        flow: A reversible layer of vectors, such as a `bl.Sequential` of flows.
            It is asked for densities of its own draws only, for which
            `bl.layers.InverseAutoregressiveFlow` is made: one of these, with 32 hidden
            units, is the default.
        mean_initializer: Initializer of the mean, which is that of the weight while
            flow(z) has mean zero. Defaults to the layer's.
        stddev_initializer: Initializer of the untransformed `stddev`. Defaults to what
            is 0.0486 in natural units, -3 for softplus.
        mean_regularizer: Penalty on the mean.
        stddev_regularizer: Penalty on the untransformed `stddev`.
        mean_constraint: Parameterization of the mean. Defaults to none.
        stddev_constraint: Parameterization of `stddev`. Defaults to `"softplus"`.

    Example:
    >>> network = keras.layers.Dense(16, activation="tanh")
    >>> flow = bl.layers.RealNVP(network)
    >>> layer = bl.layers.DenseReparameterization(
    ...     2, kernel_initializer=bl.initializers.TrainableFlow(flow)
    ... )
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 2)
    >>> type(layer.kernel_flow).__name__, len(layer.losses)
    ('RealNVP', 1)

    References: Rezende and Mohamed (2015), Variational inference with normalizing
    flows; Louizos and Welling (2017), Multiplicative normalizing flows for variational
    Bayesian neural networks.
    """

    arguments = {"mean": "loc", "stddev": "scale"}
    defaults = {"stddev": SCALE}
    positive = ("stddev",)

    def __init__(
        self,
        flow=None,
        mean_initializer=None,
        stddev_initializer=None,
        mean_regularizer=None,
        stddev_regularizer=None,
        mean_constraint=None,
        stddev_constraint="softplus",
    ):
        if isinstance(flow, dict):
            flow = keras.saving.deserialize_keras_object(flow)
        is_flow = isinstance(flow, keras.Layer) and hasattr(flow, "reverse")
        if flow is not None and not is_flow:
            raise TypeError(
                "`flow` should be a reversible layer, such as `bl.layers.RealNVP` or a "
                f"`bl.Sequential` of such. Received: flow={flow!r}"
            )
        super().__init__(
            flow=flow,
            mean_initializer=mean_initializer,
            stddev_initializer=stddev_initializer,
            mean_regularizer=mean_regularizer,
            stddev_regularizer=stddev_regularizer,
            mean_constraint=mean_constraint,
            stddev_constraint=stddev_constraint,
        )

    @property
    def flow(self):
        """The flow: of a `RandomWeight`, the one whose weights are trained."""
        return self._settings["flow"]

    def layers(self):
        """Returns the flow."""
        return [self.flow]

    def _new_flow(self):
        if self.flow is not None:
            return type(self.flow).from_config(self.flow.get_config())
        from bayesian_layers import layers

        return layers.InverseAutoregressiveFlow(layers.MADE(hidden_dims=[32]))

    def bind(self, name, shape, add_layer):
        """Returns the posterior of one weight, with a flow of its own."""
        flow = self._new_flow()
        add_layer(f"{name}_flow", flow)
        size = math.prod(shape)
        flow.build((None, size))
        outputs = tuple(flow.compute_output_shape((None, size)))
        if outputs != (None, size):
            raise ValueError(
                f"`flow` should keep vectors of {size} elements, those of the weight "
                f"{name!r}. Received: {flow.name!r}, which makes {outputs} of "
                f"{(None, size)}"
            )
        bound = copy.copy(self)
        bound._settings = {**self._settings, "flow": flow}
        return bound

    def distribution(self, loc, scale):
        """Returns the distribution over arrays."""
        shape = tuple(loc.shape)
        loc, scale = ops.reshape(loc, (-1,)), ops.reshape(scale, (-1,))
        base = MultivariateNormalDiag.rebuild(
            {"loc": ops.zeros_like(loc), "scale_diag": ops.ones_like(scale)}
        )
        with drawn_when_read(), block():
            moved = self.flow(RandomVariable(base)).distribution
        moved = Transformed(moved, _LocationScale(loc, scale))
        return Reshaped.rebuild({"distribution": moved, "shape": shape})
