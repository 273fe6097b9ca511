"""The contract of penalties on distributions over weights."""

import inspect

import keras
from keras import ops

from bayesian_layers.distributions import (
    Deterministic,
    Distribution,
    Independent,
    MultivariateNormalDiag,
    Normal,
    Reshaped,
    shapes,
)
from bayesian_layers.distributions.kl_divergence import closed_form
from bayesian_layers.distributions.multivariate_normal import MultivariateNormal
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.trace import is_tracing

register = keras.saving.register_keras_serializable("bayesian_layers.regularizers")


@register
class KLDivergence(keras.regularizers.Regularizer):
    """The divergence of a random weight from a prior: the sum of KL(q || p).

    It is the closed form where there is one; otherwise log q(w) - log p(w) at one draw
    of the weight, an unbiased estimate. For a point mass it is -log p(w). A weight
    that is not random has no divergence: the penalty is zero.

    A subclass whose prior depends on the weight, or on variables of its own, overrides
    `prior_of`, and in the second case `bind`. Its constructor keeps its arguments as
    attributes of the same names.

    Args:
        prior: A distribution, of the weight's shape or broadcasting to it.
        scale_factor: A number that multiplies the divergence.

    Example:
    >>> penalty = bl.regularizers.KLDivergence(bl.distributions.Laplace(0.0, 1.0))
    >>> layer = bl.layers.DenseReparameterization(2, kernel_regularizer=penalty)
    >>> layer.build((None, 3))
    >>> len(layer.losses)
    1
    """

    def __init__(self, prior, scale_factor=1.0):
        if not isinstance(prior, Distribution):
            raise ValueError(
                f"`prior` should be a distribution. Received: prior={prior!r}"
            )
        self._prior = prior
        self.scale_factor = scale_factor

    @property
    def prior(self):
        """The prior; `None` where it depends on the weight, see `prior_of`."""
        return self._prior

    def prior_of(self, weight):
        """Returns the prior of a random variable."""
        return self.prior

    def bind(self, add_weight):
        """Returns the penalty for one weight of one layer.

        A regularizer with variables of its own makes them here, with `add_weight`, and
        returns a penalty that reads them; the layer owns them.
        """
        return self

    def __call__(self, weight):
        """Returns the penalty on a random variable, a scalar."""
        if not isinstance(weight, RandomVariable):
            return 0.0
        return self.scale_factor * self.divergence(weight)

    def divergence(self, weight):
        """Returns the divergence of a random variable, a scalar."""
        prior = self.prior_of(weight)
        _check_shape(weight, prior)
        prior = as_dtype(prior, weight.distribution.dtype)
        q, p = _elements(weight.distribution), _elements(prior)
        if isinstance(q, Deterministic):
            return -ops.sum(prior.log_prob(q.mean()))
        if isinstance(q, Reshaped) and isinstance(p, Normal):
            q, p = q.distribution, _as_rows(p, q.event_shape, (-1,))
        elif isinstance(q, MultivariateNormal) and isinstance(p, Normal):
            p = _as_rows(p, weight.shape)
        elif isinstance(q, Normal) and isinstance(p, MultivariateNormal):
            q = _as_rows(q, weight.shape)
        kl = closed_form(type(q), type(p))
        if kl is not None:
            return ops.sum(kl(q, p))
        value, log_q = _drawn_with_density(weight)
        return ops.sum(log_q) - ops.sum(prior.log_prob(value))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            name: keras.saving.serialize_keras_object(getattr(self, name))
            for name in inspect.signature(type(self)).parameters
        }

    @classmethod
    def from_config(cls, config):
        """Makes a penalty from what `get_config` returned."""
        return cls(**keras.saving.deserialize_keras_object(config))


def _drawn_with_density(weight):
    """A draw and its log-density; drawn together, a flow runs forward only."""
    if weight.is_drawn or is_tracing():
        return weight.value, weight.log_prob(weight.value)
    return weight.sample_and_log_prob(seed=weight._seed)


def as_dtype(distribution, dtype):
    """The distribution with its parameters in another dtype."""
    if distribution.parameter_dtype == dtype:
        return distribution
    return distribution._map(lambda parameter: ops.cast(parameter, dtype))


def of_shape(prior, shape, dtype):
    """The prior with its parameters broadcast to values of a shape, in a dtype."""
    batch = tuple(shape)[: len(shape) - len(prior.event_shape)]
    return as_dtype(prior, dtype)._broadcast_batch(batch)


def _check_shape(weight, prior):
    shape = tuple(weight.shape)
    try:
        fits = shapes.broadcast(prior.shape(), shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"The prior of a weight of shape {shape} should have that shape, or one "
            f"that broadcasts to it. Received: {prior}"
        )


def _elements(distribution):
    """The distribution without `Independent`, which only says what to sum over."""
    while isinstance(distribution, Independent):
        distribution = distribution.distribution
    return distribution


def _as_rows(normal, shape, new_shape=None):
    """Independent normal distributions, as multivariate ones over the last axis."""
    loc, scale = (
        ops.reshape(ops.broadcast_to(value, tuple(shape)), tuple(new_shape or shape))
        for value in (normal.loc, normal.scale)
    )
    return MultivariateNormalDiag.rebuild({"loc": loc, "scale_diag": scale})
