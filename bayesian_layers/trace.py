"""One message, one stack: every random value is made by `draw`.

`draw(distribution, name, seed)` passes through a stack of tracers before anything is
sampled. A tracer is a function `tracer(f, *args, **kwargs)` that is called in place of
`f(*args, **kwargs)`; it may change the arguments, look at the result, or not call `f`
at all. It calls `traceable(f)(*args, **kwargs)` to hand on to the tracer below it.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

_stack = contextvars.ContextVar("bayesian_layers_tracers", default=())
_lazy = contextvars.ContextVar("bayesian_layers_lazy", default=False)


class _Entry:
    """One block of `trace`: lives as long as the block."""

    def __init__(self, tracer, wants):
        self.tracer = tracer
        self.wants = wants


@contextlib.contextmanager
def trace(
    tracer: Callable, wants: Callable[[str | None, Any], bool | None] | None = None
) -> Iterator[None]:
    """Calls `tracer` in place of every traceable function inside of the block.

    The stack belongs to the thread (and to the asynchronous task) that entered.

    Args:
        tracer: A function `tracer(f, *args, **kwargs)`.
        wants: A function `wants(name, source)` from what identifies a random value to
            `True` if the tracer looks at it or sets it, `False` if it only hands it on,
            and `None` if it hides it from the tracers further out. An estimator that
            has no single draw of a weight makes one where somebody wants it. Defaults
            to `True` for all.

    Example:
    >>> def double(f, *args, **kwargs):
    ...     return 2.0 * bl.traceable(f)(*args, **kwargs)
    >>> with bl.trace(double):
    ...     x = bl.Deterministic(3.0)
    >>> float(x)
    6.0
    """
    token = _stack.set((*_stack.get(), _Entry(tracer, wants)))
    try:
        yield
    finally:
        _stack.reset(token)


@contextlib.contextmanager
def get_next_tracer() -> Iterator[Callable | None]:
    """Gives the innermost tracer, with the stack below it in force inside the block.

    It is `None` where there is none.
    """
    stack = _stack.get()
    token = _stack.set(stack[:-1])
    try:
        yield stack[-1].tracer if stack else None
    finally:
        _stack.reset(token)


def is_tracing() -> bool:
    """Whether there is any tracer."""
    return bool(_stack.get())


def is_wanted(name: str | None, source: Any) -> bool:
    """Whether any tracer looks at, or sets, the value of this name and source."""
    for entry in reversed(_stack.get()):
        wanted = True if entry.wants is None else entry.wants(name, source)
        if wanted is not False:
            return wanted is True
    return False


@contextlib.contextmanager
def drawn_when_read() -> Iterator[None]:
    """Within the block, random variables are drawn when they are read, not before.

    For who wants distributions only, and reads within the block whatever it reads.
    """
    token = _lazy.set(True)
    try:
        yield
    finally:
        _lazy.reset(token)


def is_lazy() -> bool:
    """Whether random variables wait until they are read."""
    return _lazy.get()


def innermost_block():
    """Returns an object that lives as long as the innermost `trace` block, or `None`.

    What must not outlive the block can be kept by a weak reference to it.
    """
    stack = _stack.get()
    return stack[-1] if stack else None


def traceable(f: Callable) -> Callable:
    """Makes a function one that tracers are called in place of.

    Example:
    >>> @bl.traceable
    ... def shift(x):
    ...     return x + 1.0
    >>> shift(1.0)
    2.0
    """

    @functools.wraps(f)
    def traced(*args, **kwargs):
        if not _stack.get():
            return f(*args, **kwargs)
        with get_next_tracer() as tracer:
            return tracer(f, *args, **kwargs)

    return traced


@traceable
def draw(
    distribution: Any,
    *,
    name: str | None = None,
    seed: Any = None,
    sample_shape: int | tuple[int, ...] = (),
    value: Any = None,
    source: Any = None,
    observed: bool | None = None,
    base: Any = None,
) -> Any:
    """Returns a random value: the only way that one comes to be.

    Args:
        distribution: What to draw from.
        name: The name by which people know the value, or `None`.
        seed: As in `keras.random`.
        sample_shape: How many independent draws.
        value: The value, if it is known: then nothing is drawn. Its shape and dtype
            have to be those of a draw.
        source: The object whose value it is, if that has one value within a block of
            handlers however often it is asked for: a `RandomWeight`.
        observed: Whether the value is data, for who asks what is latent. Defaults to
            whether there is a value.
        base: The random variable that the value was computed from, if a reversible
            layer did that: see `sites.py`.

    Returns:
        A tensor of shape `sample_shape + batch_shape + event_shape`.
    """
    if value is None:
        return distribution.sample(sample_shape, seed=seed)
    return distribution.as_sample(value, sample_shape)


@traceable
def role_of(source: Any) -> str:
    """Returns the role of a random weight, or of a layer's output: see `bl.role`.

    It is asked for before the posterior is computed, which may draw in turn.
    """
    return "posterior"


def distribution_of(source: Any) -> Any:
    """Returns what a value of `source` is drawn from, by its role."""
    is_model = is_tracing() and role_of(source) == "prior"
    return source.proper_prior() if is_model else source.posterior
