"""The density of a program as a function of real numbers."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import Deterministic, Distribution, transform_to
from bayesian_layers.handlers import hand_on, handle, is_observed, is_part_of_programs
from bayesian_layers.handlers import seed as seeded
from bayesian_layers.programs.bound import BoundProgram
from bayesian_layers.programs.log_joint import make_log_joint_fn
from bayesian_layers.random_weights import role


@dataclasses.dataclass
class Site:
    """A random variable that is not observed.

    Attributes:
        shape: The shape of its value.
        free_shape: The shape of the real numbers that its value is made of.
        source: The random weight whose value it is, or `None`.
    """

    shape: tuple
    free_shape: tuple
    source: Any


class Unconstrained:
    """A program with its variables mapped from the real line to their supports.

    A support may depend on other variables, as that of `bl.Uniform(0.0, w)` does: maps
    are made where the program draws, in every run of it.

    Args:
        program: The `bl.programs.BoundProgram`.

    Attributes:
        sites: The variables that are not observed, by name.
    """

    def __init__(self, program: BoundProgram):
        self._program = program
        self.sites, self._derived = {}, []
        with role("prior"), seeded(0):
            self._run(lambda site: None, self._found)
        if not self.sites:
            raise ValueError(
                "The program has no random variables that are not observed: there is "
                "nothing to draw."
            )

    def _found(self, site, value):
        name, distribution = site["name"], site["distribution"]
        if isinstance(distribution, Deterministic) and site["source"] is None:
            if name is not None:
                self._derived.append(name)
            return
        if name is None:
            raise ValueError(
                "The program has a random variable without a name, which is not "
                f"observed: {distribution}. Give each a name: "
                '`bl.Normal(..., name="w")`.'
            )
        if name in self.sites:
            raise ValueError(
                f"The name {name!r} is used twice in one program. Give each random "
                f"variable a name of its own. Names so far: {list(self.sites)}"
            )
        shape = tuple(value.shape)
        free_shape = _map_of(name, distribution).reverse_shape(shape)
        self.sites[name] = Site(shape, tuple(free_shape), site["source"])

    def _run(self, value_of, see=None):
        """Runs the program with `value_of(site)` for its variables, if not `None`.

        `see(site, value)` is called for each that is not observed, once.
        """
        of_sources = {}

        def handler(site):
            if is_observed(site):
                return hand_on(site)
            source = site["source"]
            if source is not None and source in of_sources:
                site.update(value=of_sources[source], observed=True)
                return hand_on(site)
            value = value_of(site)
            if value is not None:
                site.update(value=value, observed=True)
            value = hand_on(site)
            if source is not None:
                of_sources[source] = value
            if see is not None:
                see(site, value)
            return value

        with handle(handler, is_part_of_programs):
            return self._program()

    def _set(self, positions, log_dets):
        """A function from sites to values, which adds their log-determinants."""

        def value_of(site):
            name = site["name"]
            if name not in self.sites:
                return None
            to_support = _map_of(name, site["distribution"])
            value, log_det = to_support.forward_and_log_det(positions[name])
            log_dets.append(ops.sum(log_det))
            return value

        return value_of

    def potential(self, positions: Mapping[str, Any]) -> Any:
        """The negative log-density at real numbers `[...]` by name, a scalar."""
        log_dets = []
        log_joint = make_log_joint_fn(lambda: self._run(self._set(positions, log_dets)))
        return -(log_joint() + sum(log_dets))

    def is_valid(self, positions: Mapping[str, Any]) -> np.ndarray:
        """Whether the density is positive at points `[chains, ...]`, for each."""
        return np.isfinite(ops.convert_to_numpy(self._potentials(dict(positions))))

    @functools.cached_property
    def _potentials(self):
        return backend.compile_inference(backend.vectorize(self.potential))

    def _values(self, positions):
        """The values of all variables at one point, by name."""
        values = {}

        def see(site, value):
            if site["name"] is not None:
                values[site["name"]] = value

        with role("prior"):
            self._run(self._set(positions, []), see)
        return values

    def constrain(self, positions: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns values by name, for real numbers `[chains, draws, ...]`.

        Those of `bl.Deterministic` variables are among them.
        """
        values = backend.vectorize(backend.vectorize(self._values))
        values = backend.compile_inference(values)(dict(positions))
        # JAX sorts dictionaries.
        names = (*self.sites, *self._derived)
        return {name: ops.convert_to_numpy(values[name]) for name in names}

    def unconstrain(
        self, values: Mapping[str, Any], num_chains: int
    ) -> dict[str, np.ndarray]:
        """Returns the real numbers behind values `[chains, ...]` by name."""
        if set(values) != set(self.sites):
            raise ValueError(
                f"Expected a start for each of {list(self.sites)}. "
                f"Received: {list(values)}"
            )
        values = {name: np.asarray(value) for name, value in values.items()}
        for name, site in self.sites.items():
            expected = (num_chains, *site.shape)
            if values[name].shape != expected:
                raise ValueError(
                    f"The start of {name!r} should have the shape {expected}, with a "
                    f"value for each chain. Received: {values[name].shape}"
                )
        values = {
            name: ops.convert_to_tensor(value.astype("float32"))
            for name, value in values.items()
        }
        positions = backend.vectorize(lambda point: self._free(point.get))(values)
        return {name: ops.convert_to_numpy(p) for name, p in positions.items()}

    def _free(self, known):
        """The real numbers behind values, or behind what the program draws."""
        positions = {}

        def see(site, value):
            if site["name"] in self.sites:
                to_support = _map_of(site["name"], site["distribution"])
                positions[site["name"]] = to_support.reverse(value)

        self._run(lambda site: known(site["name"]), see)
        return positions

    def random(self, start: str, num_chains: int, seed: int) -> dict[str, np.ndarray]:
        """Returns real numbers `[chains, ...]` by name, to start from.

        Args:
            start: `"uniform"`, `"prior"` or `"posterior"`.
            num_chains: How many.
            seed: An integer.
        """
        rng = np.random.default_rng(seed)
        if start == "uniform":
            return {
                name: rng.uniform(-2.0, 2.0, (num_chains, *site.free_shape)).astype(
                    "float32"
                )
                for name, site in self.sites.items()
            }
        chains = []
        for key in rng.integers(2**31, size=num_chains).tolist():
            with role(start), seeded(key):
                chains.append(self._free(lambda name: None))
        return {
            name: np.stack([ops.convert_to_numpy(chain[name]) for chain in chains])
            for name in self.sites
        }


def _map_of(name, distribution: Distribution):
    """The map from the real line to the support of a random variable."""
    support = distribution.support
    if support.is_discrete:
        raise ValueError(
            f"The random variable {name!r} is discrete and not observed: chains move "
            "on the real line. Sum over its values instead (a mixture is "
            "`bl.MixtureSameFamily`), or give it as data. Received: "
            f"{type(distribution).__name__}"
        )
    return transform_to(support)
