"""The handlers of random values: tape, condition, replay, block.

Each is a tracer (see `trace.py`) in a context manager. They nest in any order.
"""

import contextlib

from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.trace import draw, trace, traceable


@contextlib.contextmanager
def handle(handler):
    """Calls `handler(site)` in place of `draw`; other traceable functions run as ever.

    A site is the dictionary of `draw`'s arguments. `handler` returns the value, which
    it gets, unless it knows it already, from `hand_on(site)`.
    """
    primitive = draw.__wrapped__

    def tracer(f, *args, **kwargs):
        if f is not primitive:
            return traceable(f)(*args, **kwargs)
        distribution, *_ = args
        return handler({"distribution": distribution, "name": None, **kwargs})

    with trace(tracer):
        yield


def hand_on(site):
    """Returns the value of a site, from the handlers further out."""
    site = dict(site)
    return draw(site.pop("distribution"), **site)


@contextlib.contextmanager
def tape():
    """Records the random variables that are drawn inside of the block.

    Yields:
        A dictionary from names to `RandomVariable`s, in the order of drawing. Random
        variables without a name are not recorded.

    Raises:
        ValueError: If a name is used twice.

    Example:
    >>> def program():
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     return bl.Normal(w, 1.0, name="y")
    >>> with bl.tape() as tape:
    ...     y = program()
    >>> list(tape)
    ['w', 'y']
    """
    record = {}

    def handler(site):
        name = site["name"]
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
        return value

    with handle(handler):
        yield record


def condition(values=None, /, **named_values):
    """Sets random variables, by name, to the given values inside of the block.

    Args:
        values: A dictionary from names to values, for names that are not Python
            identifiers, such as `"dense/kernel"`.
        **named_values: The values of the others.

    Example:
    >>> with bl.condition(w=2.0):
    ...     w = bl.Normal(0.0, 1.0, name="w")
    >>> float(w)
    2.0
    """
    values = {**(values or {}), **named_values}

    def handler(site):
        if site["name"] in values:
            site["value"] = values[site["name"]]
        return hand_on(site)

    return handle(handler)


def replay(tape):
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
    return condition(
        {
            name: entry.value if isinstance(entry, RandomVariable) else entry
            for name, entry in tape.items()
        }
    )


def block(names=None):
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

    return handle(handler)
