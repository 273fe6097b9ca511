"""The handlers of random values: tape, condition, substitute, replay, seed, block.

Each is a tracer (see `trace.py`) in a context manager. They nest in any order. A random
weight has one value within the block of a handler, however often its layer is called.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from bayesian_layers import backend, seeds
from bayesian_layers.keras_contact import carrying_scope
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.sites import Sites
from bayesian_layers.trace import draw, role_of, trace, traceable


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


def is_observed(site: dict) -> bool:
    """Whether the value of a site is data, to a handler that sees it now."""
    observed = site.get("observed")
    return site.get("value") is not None if observed is None else observed


def is_part_of_programs(name: str | None, source: Any) -> bool:
    """What handlers of whole programs want: all but noise that something has to hold.

    See `FunctionNoise`.
    """
    return not getattr(source, "only_held", False)


class Tape(dict):
    """Random variables by name, and what random weights they are the values of.

    Attributes:
        of_sources: The values by the random weights.
        sites: All sites. Data are those whose value is given in the program, or by a
            `bl.condition` inside of the block of the tape.
    """

    def __init__(self):
        super().__init__()
        self.of_sources = {}
        self.sites = Sites()

    @property
    def observed(self) -> set[str | None]:
        """The names of those that are data."""
        return {site.name for site in self.sites if site.state == "known"}

    def latent(self) -> dict[str, RandomVariable]:
        """Returns the random variables that are not observed, by name.

        What a reversible layer makes of a variable that has a name is left out: it
        follows from that variable. So does that variable, if what was made of it is
        observed.
        """
        latent = {site.name for site in self.sites if site.state == "open"}
        return {name: self[name] for name in self if name in latent}


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
        record.sites.add(site, is_known=is_observed(site))
        return value

    with handle(handler, is_part_of_programs):
        yield record


def condition(
    values: Mapping | None = None, /, **named_values: Any
) -> contextlib.AbstractContextManager[None]:
    """Sets random variables, by name, to data inside of the block.

    They count as observed from then on: inference does not ask for them. For values
    that one variable happens to have, a draw say, see `bl.substitute`.

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

    def change(site, value):
        site.update(value=value, observed=True)

    return _set({**(values or {}), **named_values}, change)


def substitute(
    values: Mapping | None = None, /, **named_values: Any
) -> contextlib.AbstractContextManager[None]:
    """Sets random variables that are not observed to values inside of the block.

    They stay latent: it is what they are this time, in place of a draw, not data. A
    variable that is observed, by `value=` in the program or by `bl.condition`, inside
    or outside of the block, keeps its data.

    Args:
        values: As in `bl.condition`.
        **named_values: The values of the others.

    Example:
    >>> def program():
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     return bl.Normal(w, 1.0, value=5.0, name="y")
    >>> with bl.tape() as tape, bl.substitute(w=2.0, y=3.0):
    ...     y = program()
    >>> float(tape["w"]), float(tape["y"]), list(tape.latent())
    (2.0, 5.0, ['w'])
    """

    def change(site, value):
        if not is_observed(site):
            site.update(value=value, observed=False)

    return _set({**(values or {}), **named_values}, change)


def _set(values, change):
    """Calls `change(site, value)` for sites with a value, by their name or source."""

    def key(name, source):
        if source is not None and source in values:
            return source
        return name if name in values else None

    def handler(site):
        found = key(site["name"], site["source"])
        if found is not None:
            change(site, values[found])
            if site["source"] is not None:
                # Used again, under another name, it is the same weight.
                values[site["source"]] = values[found]
        return hand_on(site)

    return handle(handler, lambda name, source: key(name, source) is not None)


def replay(tape: Mapping[str, Any]) -> contextlib.AbstractContextManager[None]:
    """Gives random variables the values that they have on a tape.

    Those that are not on it are drawn; those that are observed stay as they are.

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
    return substitute({**values, **getattr(tape, "of_sources", {})})


def seed(key: Any) -> contextlib.AbstractContextManager[None]:
    """Determines all draws of random variables and random weights inside of the block.

    A draw depends on the key and on how many were made before it. Equal programs under
    equal keys have equal values, whatever the state of the layers' seeds. A draw with
    an integer seed of its own keeps it.

    It is for programs and calls of layers. `fit`, `predict` and `bl.predict` draw anew
    for each batch, by seeds of their own, and are not meant: seed them by
    `keras.utils.set_random_seed` and by `bl.predict(seed=...)`. Layers such as dropout,
    whose noise is no random variable, are left alone.

    Args:
        key: An integer; or an integer tensor, a scalar or two numbers, which may be an
            argument of a function that is compiled; or a key of `jax.random`.

    Example:
    >>> with bl.seed(1):
    ...     first = bl.Normal(0.0, 1.0)
    >>> with bl.seed(1):
    ...     second = bl.Normal(0.0, 1.0)
    >>> bool(first == second)
    True
    """
    if isinstance(key, bool) or isinstance(key, float):
        raise ValueError(f"`key` should be an integer. Received: key={key!r}")
    position = 0
    state = None if isinstance(key, int) else backend.seed_state(key)
    entered_in = carrying_scope()

    def handler(site):
        nonlocal position
        is_chosen = isinstance(site.get("seed"), (int, seeds.Keyed))
        # A scope inside of the block is that of a function that Keras or `bl.predict`
        # compile: they run it many times, and carry the state of seeds through it.
        is_carried = carrying_scope() not in (None, entered_in)
        if site.get("value") is None and not is_chosen and not is_carried:
            if state is None:
                site["seed"] = seeds.at_position(key, position)
            else:
                site["seed"] = seeds.Keyed(state, position)
            position += 1
        return hand_on(site)

    def wants(name, source):
        return source is not None and is_part_of_programs(name, source)

    return handle(handler, wants)


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

    def tracer(f, *args, **kwargs):
        if f is draw.__wrapped__:
            hidden = hides(kwargs.get("name"))
        else:
            # The role of a random weight.
            hidden = f is role_of.__wrapped__ and hides(args[0].path)
        return (f if hidden else traceable(f))(*args, **kwargs)

    return trace(tracer, lambda name, source: None if hides(name) else False)
