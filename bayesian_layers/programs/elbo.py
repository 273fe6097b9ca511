"""The evidence bound of a model, by a guide that is a program of its own."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import Deterministic
from bayesian_layers.handlers import (
    hand_on,
    handle,
    is_observed,
    is_part_of_programs,
)
from bayesian_layers.handlers import (
    seed as seeded,
)
from bayesian_layers.programs.bound import BoundProgram, parameter_names
from bayesian_layers.programs.log_joint import log_joint_of, total
from bayesian_layers.random_weights import role
from bayesian_layers.sites import Sites
from bayesian_layers.trace import is_tracing


def elbo(
    model: Callable,
    guide: Callable | None = None,
    data: Mapping[str, Any] | tuple | None = None,
    num_particles: int = 1,
    *,
    likelihood: Callable | None = None,
    seed: Any = None,
) -> Any:
    """Estimates the evidence bound of a model, by draws from a guide.

    ELBO = E_{z ~ guide} [log p(z, data) - log q(z)] <= log p(data)

    Model and guide are programs: the guide makes random variables of the names of the
    latent variables of the model. In the model layers draw from their priors, in the
    guide from their posteriors (`bl.role`), so that one network can be part of both.

    The value is unbiased, and so is its gradient with respect to all variables that the
    programs read. It goes through the draws where these are reparameterized. Other
    variables of the guide, discrete ones say, have the score-function gradient,
    (log p - log q - baseline) grad log q, with the mean of the other particles as the
    baseline: with one particle there is none, and much noise.

    Args:
        model: A function that makes random variables, or a Keras model.
        guide: A function likewise; it gets those arguments of the model that it names,
            or all if `data` is a tuple. An automatic guide (`bl.MeanFieldGuide`) or a
            Keras model will do. Defaults to the layers of the model in the role of a
            guide; latent variables that are no weights are then drawn as in the model.
        data: What is known of the model; see `bl.programs.BoundProgram`.
        num_particles: The number of draws from the guide that are averaged.
        likelihood: Of a Keras model without output layer; see
            `bl.programs.BoundProgram`.
        seed: `None`, an integer or a `keras.random.SeedGenerator`. Under `jax.jit` it
            has to be a `SeedGenerator`.

    Returns:
        A scalar tensor, in nats.

    Raises:
        LookupError: If the guide leaves out a latent variable of the model.
        ValueError: If it draws one that the model does not have.

    Example:
    >>> def model():
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     return bl.Normal(w, 1.0, name="y")
    >>> def guide():
    ...     return bl.Normal(1.0, 0.5 ** 0.5, name="w")
    >>> bound = bl.elbo(model, guide, {"y": 2.0}, num_particles=2)
    >>> round(float(bound), 4)  # The guide is the posterior: there is no gap.
    -2.2655
    """
    return Objective(model, guide, data, likelihood)(num_particles, seed)


class Objective:
    """The evidence bound of one model, guide and data, to be estimated many times.

    Args:
        model: See `bl.elbo`.
        guide: See `bl.elbo`.
        data: See `bl.elbo`.
        likelihood: See `bl.elbo`.
    """

    def __init__(self, model, guide=None, data=None, likelihood=None):
        self.model = BoundProgram(model, data, likelihood)
        self.guide = guide
        self._score = False

    def __call__(self, num_particles, seed):
        """Returns the estimate."""
        if not isinstance(num_particles, int) or num_particles < 1:
            raise ValueError(
                "`num_particles` should be a positive integer. "
                f"Received: num_particles={num_particles}"
            )
        keys = keras.random.randint(
            (num_particles, 2), 0, 2**31 - 1, dtype="int32", seed=seed
        )
        bounds, scores = backend.map_draws(self._particle, keys)
        if not self._score:
            return ops.mean(bounds)
        fixed = ops.stop_gradient(bounds)
        others = ops.zeros_like(fixed)
        if num_particles > 1:
            others = (ops.sum(fixed) - fixed) / (num_particles - 1)
        # Zero, with the gradient of the score.
        scores = scores - ops.stop_gradient(scores)
        return ops.mean(bounds + (fixed - others) * scores)

    def _particle(self, key):
        """log p - log q at one draw, and the part of log q that has to be scored."""
        values, log_q, scored = self._draw(key)
        try:
            log_p = log_joint_of(self.model, values)
        except LookupError as error:
            raise LookupError(
                f"The guide leaves out variables of the model. {error}"
            ) from error
        self._score = bool(scored)
        dtype = keras.config.floatx()
        bound = ops.cast(log_p, dtype) - ops.cast(total(log_q), dtype)
        return bound, ops.cast(total(scored), dtype)

    def _draw(self, key):
        """Values of the variables of the guide, and the terms of log q."""
        values, log_q, scored, sites = {}, [], [], Sites()
        is_watched = is_tracing()

        def handler(site):
            name, source, distribution = (
                site[key] for key in ("name", "source", "distribution")
            )
            key = name if source is None else source
            if source is not None and source in values:
                return values[source]
            if is_observed(site) or isinstance(distribution, Deterministic):
                return hand_on(site)
            if sites.add(site, is_known=False).state == "computed":
                return hand_on(site)
            if key in values:
                raise _unnamed(name, values)
            value, term = _sample(site, is_watched=is_watched)
            if key is None:
                return value  # For a reversible layer to make a variable of.
            values[key] = value
            log_q.append(term)
            if not distribution.reparameterized:
                scored.append(term)
            return value

        # The seed is innermost: the handler, which samples, sees sites that have one.
        with role("posterior"), handle(handler, is_part_of_programs), seeded(key):
            self._run_guide()
        if any(site.state == "open" and site.name is None for site in sites):
            raise _unnamed(None, values)
        return values, log_q, scored

    def _run_guide(self):
        if self.guide is None:
            return self.model()
        guide = self.guide
        bound = BoundProgram(guide)
        if getattr(guide, "is_automatic", False):
            return guide()
        bound.arguments = self.model.arguments
        names = parameter_names(guide)
        given = {**self.model.named_arguments, **self.model.observed}
        named = {name: given[name] for name in given if name in names}
        return bound.run(**named)


def _unnamed(name, values):
    return ValueError(
        "Each random variable of a guide should have a name of its own. "
        f"Received: name={name!r} after {sorted(map(str, values))}"
    )


def _sample(site, *, is_watched):
    """A value of a site of a guide, and its log-density."""
    distribution, seed = site["distribution"], site.get("seed")
    sample_shape = site.get("sample_shape", ())
    value = site.get("value")
    if value is None and distribution.reparameterized:
        value, log_q = distribution.sample_and_log_prob(sample_shape, seed=seed)
    else:
        if value is None:
            value = ops.stop_gradient(distribution.sample(sample_shape, seed=seed))
        log_q = distribution.log_prob(value)
    if is_watched:
        # Handlers around the estimate see the draw, and may set it.
        value = hand_on({**site, "value": value, "observed": False})
        log_q = distribution.log_prob(value)
    return value, ops.sum(log_q)
