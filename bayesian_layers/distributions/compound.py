"""A distribution with a parameter that is uncertain itself."""

import functools

import keras
from keras import ops

from bayesian_layers.distributions import constraints, noise, shapes
from bayesian_layers.distributions.bernoulli import Bernoulli
from bayesian_layers.distributions.categorical import Categorical
from bayesian_layers.distributions.distribution import Distribution, register
from bayesian_layers.distributions.expectation import (
    average,
    gauss_hermite,
    log_average,
    scatter,
    spread,
)
from bayesian_layers.distributions.functions import bounded_exp
from bayesian_layers.distributions.normal import Normal
from bayesian_layers.distributions.one_hot_categorical import OneHotCategorical
from bayesian_layers.distributions.poisson import Poisson
from bayesian_layers.distributions.transforms.contract import Map

NUM_NODES = 20


def _exact_if_normal(method):
    """A method that is that of the normal distribution of y, where y has one."""

    @functools.wraps(method)
    def exact(self, *args):
        if self._is == (Normal, "loc"):
            return getattr(self.predictive(), method.__name__)(*args)
        return method(self, *args)

    return exact


@register
class Compound(Distribution):
    """The distribution of y | f ~ conditional(link(f)), where f ~ Normal is uncertain.

    p(y) = E p(y | f); `expected_log_prob(y)` = E log p(y | f), which is the data term
    of the evidence bound of a function f, and never above `log_prob(y)`.

    Both means over f are sums over Gauss-Hermite nodes. They are exact, without nodes,
    for the `loc` of a `Normal` (y is then normal itself), and for the `log_rate` of a
    `Poisson` the expected log-likelihood, mean and variance are. Elsewhere they are
    right as long as the conditional is not much narrower than f is uncertain: of a
    `StudentT` with 4 degrees of freedom, whose scale is 1, 1/2 or 1/4 of the standard
    deviation of f, 20 nodes give the density to 1e-5, 1% or 25%, and the expected
    log-likelihood to 2e-7, 3e-4 or 0.02 nats; narrower noise needs more of them. Where
    the parameter is a vector (the logits of a `Categorical`), there is no such rule:
    `nodes` has to hold draws, and the means are over these.

    Samples draw f, then y.

    Args:
        latent: A `Normal`: the distribution of f.
        conditional: The distribution of y given f, with any numbers for `parameter`.
        parameter: The name of the argument of `conditional` that is link(f).
        link: A map from f to that parameter: one of `bl.distributions.transforms`, the
            name of a Keras activation, or `None` for f itself.
        nodes: Draws of standard normal variables, `[..., n]`, of the shape of f but for
            the last axis: the n values loc + scale * nodes take the place of the rule.
        num_nodes: The number of Gauss-Hermite nodes, at most 100. Defaults to 20.

    Example:
    >>> rate = bl.distributions.Normal(loc=0.0, scale=0.5)
    >>> counts = bl.distributions.Compound(
    ...     rate, bl.distributions.Poisson(log_rate=0.0), "log_rate"
    ... )
    >>> round(float(counts.mean()), 4)
    1.1331
    >>> round(float(counts.expected_log_prob(0)), 4)
    -1.1331
    """

    # As a vector on the last axis they have the batch axes of f, and are mapped over
    # with them.
    parameters = {"nodes": constraints.real_vector}

    def __init__(
        self, latent, conditional, parameter, link=None, nodes=None, num_nodes=None
    ):
        _check_parts(latent, conditional, parameter)
        rank = conditional.parameters[parameter].event_rank
        if len(latent.batch_shape) < rank or (rank and nodes is None):
            raise ValueError(
                f"`{parameter}` of {type(conditional).__name__} is a vector: Compound "
                f"expects a `latent` of shape [..., k], and draws `nodes` of shape "
                f"[..., k, n]. Received: latent={latent}, nodes={nodes}"
            )
        if nodes is not None and num_nodes is not None:
            raise ValueError(
                "`num_nodes` is the number of Gauss-Hermite nodes, which draws `nodes` "
                f"take the place of. Received: num_nodes={num_nodes} and `nodes`."
            )
        if num_nodes is not None:
            gauss_hermite(num_nodes)
        if link is not None and not isinstance(link, Map):
            keras.activations.get(link)
        super().__init__(
            latent=latent._aligned() if rank else latent,
            # What was there holds the place of link(f), and is no parameter of ours.
            conditional=conditional.rebuild(
                {**conditional._arguments, parameter: None}
            ),
            parameter=parameter,
            link=link,
            nodes=nodes,
            num_nodes=num_nodes,
        )

    def _validate(self):
        super()._validate()
        try:
            self.batch_shape  # noqa: B018 (it raises)
        except ValueError as error:
            raise ValueError(
                "Compound expects `latent`, `conditional` and `nodes` that broadcast "
                f"together. Received: latent={self.latent}, "
                f"conditional={self.conditional}, nodes={self.nodes}"
            ) from error

    # Its parts.

    @property
    def latent(self):
        """The distribution of f."""
        return self._arguments["latent"]

    @property
    def conditional(self):
        """The distribution of y given f, without the parameter that f is."""
        return self._arguments["conditional"]

    @property
    def parameter(self):
        """The name of the parameter that is link(f)."""
        return self._arguments["parameter"]

    @property
    def link(self):
        """The map from f to the parameter, or `None`."""
        return self._arguments["link"]

    @property
    def num_nodes(self):
        """The number of Gauss-Hermite nodes."""
        return self._arguments["num_nodes"] or NUM_NODES

    def given(self, f):
        """Returns the distribution of y given f, of the batch shape of f or more."""
        f = ops.convert_to_tensor(f, self.parameter_dtype)
        return with_parameter(self.conditional, self.parameter, self.link, f)

    def _with(self, value):
        return with_parameter(self.conditional, self.parameter, None, value)

    @property
    def _specimen(self):
        """A distribution of the kind of y: the numbers in it are of no meaning."""
        return self._with(self.latent._arguments["loc"])

    @property
    def _rank(self):
        """The number of axes of f that belong to one value."""
        return self.conditional.parameters[self.parameter].event_rank

    @property
    def reparameterized(self):
        """Whether samples are differentiable, as in `conditional`."""
        return self.conditional.reparameterized

    @functools.cached_property
    def parameter_dtype(self):
        """The floating dtype that is computed in, as given f."""
        return self._specimen.parameter_dtype

    @property
    def dtype(self):
        """As given f."""
        return self._specimen.dtype

    @property
    def support(self):
        """As given f."""
        return self._specimen.support

    # Shapes.

    def _latent_shape(self, of_latent, of_parameter):
        """The shape of f, from functions to that of `latent` and of `nodes`."""
        return shapes.broadcast(
            of_latent(self.latent), *self._parameter_batch_shapes(of_parameter)
        )

    def _split(self, latent):
        return len(latent) - self._rank

    @functools.cached_property
    def batch_shape(self):
        """The axes of f and of the other parameters that are not part of a value."""
        latent = self._latent_shape(lambda part: part.batch_shape, shapes.static)
        return shapes.broadcast(
            latent[: self._split(latent)], self.conditional.batch_shape
        )

    @property
    def event_shape(self):
        """As given f."""
        return self._specimen.event_shape

    def _dynamic_batch_shape(self):
        latent = self._latent_shape(lambda d: d._dynamic_batch_shape(), ops.shape)
        return shapes.broadcast(
            latent[: self._split(latent)], self.conditional._dynamic_batch_shape()
        )

    def _aligned(self):
        latent, conditional = self.latent, self.conditional
        if not all(isinstance(part, Distribution) for part in (latent, conditional)):
            return self
        found = [latent.batch_shape[: self._split(latent.batch_shape)]]
        found += [
            s[: self._split(s)] for s in self._parameter_batch_shapes(shapes.static)
        ]
        if conditional._given():
            found.append(conditional.batch_shape)
        aligned = all(shape == self.batch_shape for shape in found)
        return self if aligned else self._broadcast_batch(self.batch_shape)

    def _broadcast_batch(self, batch):
        latent = self._latent_shape(lambda d: d._dynamic_batch_shape(), ops.shape)
        shape = (*batch, *latent[self._split(latent) :])
        arguments = {
            **self._arguments,
            "latent": self.latent._broadcast_batch(shape),
            "conditional": self.conditional._broadcast_batch(batch),
        }
        if self.nodes is not None:
            count = self.nodes.shape[-1]
            arguments["nodes"] = ops.broadcast_to(self.nodes, (*shape, count))
        return self.rebuild(arguments)

    # Means over f.

    def _at_nodes(self, rank=0):
        """The distributions of y at the nodes of f, on a new first axis.

        Args:
            rank: The number of batch axes of a value, if more than those of the batch.

        Returns:
            The distributions, and the logarithms of the weights of nodes.
        """
        rank = max(rank, len(self.batch_shape)) + self._rank
        if self.nodes is None:
            f, log_weights = spread(self.latent, self.num_nodes, rank)
        else:
            f, log_weights = scatter(self.latent, self.nodes, rank)
        return self.given(f), log_weights

    def _mix(self, method, *values):
        """The logarithm of the mean over f of what `method` is the logarithm of."""
        given, log_weights = self._at_nodes(self._rank_of(*values))
        return log_average(getattr(given, method)(*values), log_weights)

    def _rank_of(self, *values):
        return max(len(value.shape) for value in values) - len(self.event_shape)

    @property
    def _is(self):
        """The family of y given f, and its parameter, if that is f itself."""
        return (type(self.conditional), self.parameter) if self.link is None else None

    def predictive(self):
        """The distribution of y as `Normal`, `Bernoulli`, `Categorical` or one-hot.

        For others it is the distribution itself.
        """
        family = type(self.conditional)
        if self._is == (Normal, "loc"):
            noise_scale = self.conditional.scale
            scale = ops.sqrt(ops.square(self.latent.scale) + ops.square(noise_scale))
            return Normal.rebuild({"loc": self.latent.loc, "scale": scale})
        if family not in (Bernoulli, Categorical, OneHotCategorical):
            return self
        given, log_weights = self._at_nodes()
        if family is Bernoulli:
            failure, success = given._log_probs()
            logits = log_average(success, log_weights)
            logits = logits - log_average(failure, log_weights)
        else:
            logits = log_average(given._log_probs(), log_weights)
        return family(logits=logits, dtype=self.dtype)

    def _plain(self, method):
        """The distribution of y as another family, for what there is of these only."""
        predictive = self.predictive()
        if predictive is self:
            raise self._missing(method)
        return predictive

    @_exact_if_normal
    def log_prob(self, value):
        """Log of the density or probability, with f integrated out."""
        value = self._standardize_value(value)
        return self._mix("log_prob", value)

    def expected_log_prob(self, value):
        """The mean over f of the log-density given f."""
        value = self._standardize_value(value)
        if self._is == (Normal, "loc"):
            ratio = ops.square(self.latent.scale / self.conditional.scale)
            return self.given(self.latent.loc).log_prob(value) - 0.5 * ratio
        if self._is == (Poisson, "log_rate"):
            # E exp(f) - exp(m), where exp(m) is in the log-probability at m.
            mean, half = self.latent.loc, 0.5 * ops.square(self.latent.scale)
            excess = bounded_exp(mean, self.parameter_dtype) * ops.expm1(half)
            return self.given(mean).log_prob(value) - excess
        given, log_weights = self._at_nodes(self._rank_of(value))
        return average(given.log_prob(value), log_weights)

    # All else.

    def _sample(self, sample_shape, seed):
        latent_seed, seed = noise.split(seed, 2)
        # Each member of the batch has an f of its own.
        whole = self._broadcast_batch(self._dynamic_batch_shape())
        return whole.given(whole.latent._sample(sample_shape, latent_seed))._sample(
            (), seed
        )

    @_exact_if_normal
    def _mean(self):
        if self._is == (Poisson, "log_rate"):
            half = 0.5 * ops.square(self.latent.scale)
            return bounded_exp(self.latent.loc + half, self.parameter_dtype)
        given, log_weights = self._at_nodes()
        return average(given.mean(), log_weights)

    @_exact_if_normal
    def _variance(self):
        if self._is == (Poisson, "log_rate"):
            mean = self._mean()
            spread_of_rate = ops.expm1(ops.square(self.latent.scale))
            return mean + ops.square(mean) * spread_of_rate
        given, log_weights = self._at_nodes()
        means = given.mean()
        deviation = means - average(means, log_weights)
        return average(given.variance() + ops.square(deviation), log_weights)

    def _mode(self):
        return self._plain("mode")._mode()

    def _entropy(self):
        return self._plain("entropy")._entropy()

    def _quantile(self, probability):
        return self._plain("quantile")._quantile(probability)

    @_exact_if_normal
    def _cdf(self, value):
        given, log_weights = self._at_nodes(self._rank_of(value))
        return average(given._cdf(value), log_weights)

    @_exact_if_normal
    def _log_cdf(self, value):
        return self._mix("_log_cdf", value)

    @_exact_if_normal
    def _log_survival(self, value):
        return self._mix("_log_survival", value)

    @_exact_if_normal
    def _log_interval(self, low, high):
        return self._mix("_log_interval", low, high)

    def get_config(self):
        """Returns the constructor's arguments; tensors become NumPy arrays."""
        constraint = self.conditional.parameters[self.parameter]
        place = constraint.project(ops.zeros((1,) * constraint.event_rank))
        conditional = keras.saving.serialize_keras_object(self._with(place))
        return {**super().get_config(), "conditional": conditional}


def with_parameter(conditional, parameter, link, f):
    """Returns a distribution with link(f) for a parameter of it."""
    if link is not None:
        f = link(f) if isinstance(link, Map) else keras.activations.get(link)(f)
    return conditional.rebuild({**conditional._arguments, parameter: f})


def _check_parts(latent, conditional, parameter):
    if not isinstance(latent, Normal):
        raise ValueError(
            f"Compound expects `latent` to be a Normal. Received: latent={latent!r}"
        )
    names = getattr(conditional, "parameters", {})
    if not isinstance(conditional, Distribution) or parameter not in names:
        raise ValueError(
            "Compound expects `conditional` to be a distribution with `parameter` "
            f"among its parameters. Received: conditional={conditional!r} with "
            f"parameters {list(names)}, parameter={parameter!r}"
        )
    if conditional._arguments[parameter] is None:
        raise ValueError(
            f"Compound expects a `conditional` that was made with `{parameter}`, as "
            "link(f) takes its place. Received: "
            f"{type(conditional).__name__} made with {list(conditional._given())}"
        )
