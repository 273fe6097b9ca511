"""The Kullback-Leibler divergence, its table of closed forms and its estimate."""

import functools
from collections.abc import Callable

from keras import ops

from bayesian_layers.distributions.distribution import Distribution
from bayesian_layers.distributions.types import Seed, Tensor

_closed_forms = {}


def register_kl(q_class: type, p_class: type) -> Callable:
    """Decorates the closed form `f(q, p)` of KL(q || p) for two classes.

    It applies to subclasses too, unless a closer pair is registered.

    Example:
    >>> class MyNormal(bl.distributions.Normal):
    ...     pass
    >>> round(float(MyNormal(0.0, 1.0).kl_divergence(MyNormal(1.0, 1.0))), 4)
    0.5
    """

    def decorate(function):
        if (q_class, p_class) in _closed_forms:
            raise ValueError(
                f"KL({q_class.__name__} || {p_class.__name__}) is registered already."
            )
        _closed_forms[q_class, p_class] = function
        closed_form.cache_clear()
        return function

    return decorate


@functools.cache
def closed_form(q_class: type, p_class: type) -> Callable | None:
    """Returns the registered function of two classes or their bases, or `None`."""
    pairs = [
        (i + j, _closed_forms[q_base, p_base])
        for i, q_base in enumerate(q_class.__mro__)
        for j, p_base in enumerate(p_class.__mro__)
        if (q_base, p_base) in _closed_forms
    ]
    return min(pairs, key=lambda pair: pair[0])[1] if pairs else None


def kl_divergence(
    q: Distribution,
    p: Distribution,
    method: str = "auto",
    num_samples: int | None = None,
    seed: Seed = None,
) -> Tensor:
    """KL(q || p) = E_q[log q(x) - log p(x)], in nats.

    Args:
        q: A distribution or random variable.
        p: A distribution or random variable.
        method: `"closed_form"`; `"monte_carlo"`: the mean of log q - log p over draws
            from q, an unbiased estimate that is differentiable if q is
            reparameterized; or `"auto"`, the estimate where there is no closed form.
        num_samples: The number of draws of the estimate. Defaults to 100.
        seed: The seed of the draws, as in `keras.random`.

    Returns:
        A tensor of the batch shapes of q and p, broadcast together.

    Raises:
        NotImplementedError: If `method="closed_form"` and there is none.

    Example:
    >>> q = bl.distributions.Normal(1.0, 1.0)
    >>> p = bl.distributions.Normal(0.0, 2.0)
    >>> round(float(bl.distributions.kl_divergence(q, p)), 4)
    0.4431
    """
    q, p = (
        value if isinstance(value, Distribution) else value.distribution
        for value in (q, p)
    )
    if method not in ("auto", "closed_form", "monte_carlo"):
        raise ValueError(
            "`method` should be 'auto', 'closed_form' or 'monte_carlo'. "
            f"Received: method={method!r}"
        )
    if method == "closed_form" and num_samples is not None:
        raise ValueError(
            "`num_samples` belongs to `method='monte_carlo'`. "
            f"Received: method={method!r}, num_samples={num_samples}"
        )
    if method != "monte_carlo":
        try:
            return _closed(q, p)
        except NotImplementedError:
            if method == "closed_form":
                raise
    draws = q.sample((num_samples or 100,), seed=seed)
    return ops.mean(q.log_prob(draws) - p.log_prob(draws), axis=0)


def _closed(q, p):
    function = closed_form(type(q), type(p))
    if function is None:
        raise NotImplementedError(
            f"KL({type(q).__name__} || {type(p).__name__}) has no closed form here. "
            "Estimate it with `method='monte_carlo', num_samples=...`."
        )
    return function(q, p)
