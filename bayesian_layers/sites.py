"""What a program has drawn: which of its variables are known, open, or computed."""

import dataclasses
from typing import Any


@dataclasses.dataclass(eq=False)
class Site:
    """A random variable that a program has made.

    Attributes:
        name: Its name, or `None`.
        distribution: Its distribution.
        base: The site that it was computed from, if a reversible layer did that.
        state: `"known"`, if it is data; `"open"`, if inference is to find it; or
            `"computed"`, if it follows from another one.
    """

    name: str | None
    distribution: Any
    base: "Site | None"
    state: str


class Sites(list):
    """The sites of a program, in the order of drawing.

    What a reversible layer makes of a random variable has a density of its own, but is
    not random once more: of the two one counts. If the output is known, the input
    follows from it. Otherwise the input counts if it has a name, or is known; and the
    output, if the input is nothing but what it was made from.
    """

    def add(self, site: dict, *, is_known: bool) -> Site:
        """Adds a site as a handler sees it, and returns its entry.

        Args:
            site: The arguments of `draw`.
            is_known: Whether its value is data.

        Raises:
            ValueError: If both a variable and what is computed from it are known.
        """
        base = self._base(site)
        state = "known" if is_known else "open"
        if base is not None and not is_known:
            if base.name is None and base.state == "open":
                base.state = "computed"
            else:
                state = "computed"
        entry = Site(site["name"], site["distribution"], base, state)
        if is_known:
            self._follow(entry)
        self.append(entry)
        return entry

    def _base(self, site):
        variable = site.get("base")
        if variable is None:
            return None
        return next((s for s in self if s.distribution is variable.distribution), None)

    def _follow(self, entry):
        """What a known variable was computed from follows from it."""
        base = entry.base
        while base is not None:
            if base.state == "known":
                raise ValueError(
                    f"The variable {entry.name!r} is computed from {base.name!r} by a "
                    "reversible layer: only one of them can be known. Received values "
                    "of both."
                )
            base.state = "computed"
            base = base.base
