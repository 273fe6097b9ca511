"""The handlers of random values: tape, condition, replay, block.

Each is a tracer (see `trace.py`) in a context manager. They nest in any order. A random
weight has one value within the block of a handler, however often its layer is called.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.trace import draw, trace, traceable


@contextlib.contextmanager
def handle(
    handler: Callable[[dict], Any], wants: Callable | None = None
) -> Iterator[None]:
    """Calls `handler(site)` in place of `draw`; other traceable functions run as ever.

    A site is the dictionary of `draw`'s arguments. `handler` returns the value, which
    it gets, unless it knows it already, from `hand_on(site)`. `wants` is that of
    `bl.trace`.
    """
    primitive = draw.__wrapped__

    def tracer(f, *args, **kwargs):
        if f is not primitive:
            return traceable(f)(*args, **kwargs)
        distribution, *_ = args
        return handler(
            {"distribution": distribution, "name": None, "source": None, **kwargs}
        )

    with trace(tracer, wants):
        yield


def hand_on(site: dict) -> Any:
    """Returns the value of a site, from the handlers further out."""
    site = dict(site)
    return draw(site.pop("distribution"), **site)


class Tape(dict):
    """Random variables by name, and what random weights they are the values of."""

    def __init__(self):
        super().__init__()
        self.of_sources = {}


@contextlib.contextmanager
def tape() -> Iterator[Tape]:
    """Records the random variables that are drawn inside of the block.

    A random weight is recorded, and drawn, once, by the name of its first use. Noise
    that exists only where something holds it is recorded, but not asked for.

    Yields:
        A dictionary from names to `RandomVariable`s, in the order of drawing. Random
        variables without a name are not recorded.

    Raises:
        ValueError: If two random variables have the same name.

    Example:
    >>> def program():
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     return bl.Normal(w, 1.0, name="y")
    >>> with bl.tape() as tape:
    ...     y = program()
    >>> list(tape)
    ['w', 'y']
    """
    record = Tape()

    def handler(site):
        name, source = site["name"], site["source"]
        if source is not None and source in record.of_sources:
            return record.of_sources[source]
        if name in record:
            raise ValueError(
                f"The name {name!r} is used twice on one tape. Give each random "
                f"variable a name of its own. Names so far: {list(record)}"
            )
        value = hand_on(site)
        if name is not None:
            record[name] = RandomVariable.of(
                site["distribution"], value, site.get("sample_shape", ()), name
            )
        if source is not None:
            record.of_sources[source] = value
        return value

    with handle(handler, lambda name, source: not getattr(source, "only_held", False)):
        yield record


def condition(
    values: Mapping | None = None, /, **named_values: Any
) -> contextlib.AbstractContextManager[None]:
    """Sets random variables, by name, to the given values inside of the block.

    Args:
        values: A dictionary from names to values, for names that are not Python
            identifiers, such as `"dense/kernel"`; or from the random weights of layers
            (`layer.random_weights["kernel"]`).
        **named_values: The values of the others.

    Example:
    >>> with bl.condition(w=2.0):
    ...     w = bl.Normal(0.0, 1.0, name="w")
    >>> float(w)
    2.0
    """
    values = {**(values or {}), **named_values}

    def key(name, source):
        if source is not None and source in values:
            return source
        return name if name in values else None

    def handler(site):
        found = key(site["name"], site["source"])
        if found is not None:
            site["value"] = values[found]
            if site["source"] is not None:
                # Used again, under another name, it is the same weight.
                values[site["source"]] = values[found]
        return hand_on(site)

    return handle(handler, lambda name, source: key(name, source) is not None)


def replay(tape: Mapping[str, Any]) -> contextlib.AbstractContextManager[None]:
    """Gives random variables the values that they have on a tape.

    Those that are not on it are drawn.

    Args:
        tape: What `bl.tape()` gave, or any dictionary from names to values.

    Example:
    >>> with bl.tape() as tape:
    ...     first = bl.Normal(0.0, 1.0, name="w")
    >>> with bl.replay(tape):
    ...     second = bl.Normal(0.0, 1.0, name="w")
    >>> bool(first == second)
    True
    """
    values = {
        name: entry.value if isinstance(entry, RandomVariable) else entry
        for name, entry in tape.items()
    }
    return condition({**values, **getattr(tape, "of_sources", {})})


def block(
    names: Collection[str] | Callable[[str | None], bool] | None = None,
) -> contextlib.AbstractContextManager[None]:
    """Hides random variables from the handlers outside of the block.

    Args:
        names: A collection of the names to hide, or a function from a name (which may
            be `None`) to whether to hide it. Defaults to all.

    Example:
    >>> with bl.tape() as tape, bl.block(["w"]):
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     v = bl.Normal(0.0, 1.0, name="v")
    >>> list(tape)
    ['v']
    """
    hides = names if callable(names) else lambda name: names is None or name in names

    def handler(site):
        if not hides(site["name"]):
            return hand_on(site)
        site = dict(site)
        return draw.__wrapped__(site.pop("distribution"), **site)

    return handle(handler, lambda name, source: None if hides(name) else False)
