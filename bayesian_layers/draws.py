"""Draws of random variables, or of the weights of a model, by name."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from bayesian_layers.optional import optional_module
from bayesian_layers.random_weights.kl import random_weights


class Draws(Mapping):
    """Draws from a posterior: arrays `[chains, draws, ...]` by name.

    What `bl.mcmc` returns, and `bl.callbacks.CollectDraws` keeps. Draws of the weights
    of a model make predictions: `bl.predict(model, x, draws=draws)`.

    Args:
        values: A dictionary from names to arrays `[chains, draws, ...]`.
        statistics: A dictionary of what the sampler tells of each draw, arrays
            `[chains, draws]`, by the names of ArviZ: `"diverging"`, ...
        kind: `"random_weights"` if they are the random weights of a model, in the
            order of the model, `"weights"` if they are Keras variables, or `None` if
            they belong to no model.
        positions: The position of each in the model, for weights of one.

    Example:
    >>> draws = bl.Draws({"w": np.zeros((4, 100, 3))})
    >>> draws.num_chains, draws.num_draws, draws["w"].shape
    (4, 100, (4, 100, 3))
    >>> draws.flat()["w"].shape
    (400, 3)
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray],
        statistics: Mapping[str, np.ndarray] | None = None,
        kind: str | None = None,
        positions: Mapping[str, int] | None = None,
    ):
        self._values = {name: np.asarray(value) for name, value in values.items()}
        self.statistics = dict(statistics or {})
        self._kind = kind
        self._positions = dict(positions or {})
        shapes = {name: value.shape[:2] for name, value in self._values.items()}
        if not shapes or len(set(shapes.values())) > 1 or len(self._size()) < 2:
            raise ValueError(
                "Expected arrays of shape [chains, draws, ...], with as many chains "
                f"and draws for each name. Received: {shapes}"
            )

    def _size(self):
        return next(iter(self._values.values())).shape[:2]

    def __getitem__(self, name: str) -> np.ndarray:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self):
        shapes = {name: value.shape[2:] for name, value in self._values.items()}
        return f"<Draws of {shapes}, {self.num_chains} chains of {self.num_draws}>"

    @property
    def num_chains(self) -> int:
        """The number of chains."""
        return self._size()[0]

    @property
    def num_draws(self) -> int:
        """The number of draws of each chain."""
        return self._size()[1]

    @property
    def num_divergences(self) -> int:
        """How many draws the sampler says are from trajectories that diverged."""
        return int(np.sum(self.statistics.get("diverging", 0)))

    def flat(self) -> dict[str, np.ndarray]:
        """Returns the draws of all chains behind each other, `[draws, ...]`, by name.

        The first of each chain come first: a part of them is one of all chains.
        """
        return {
            name: np.swapaxes(value, 0, 1).reshape(-1, *value.shape[2:])
            for name, value in self._values.items()
        }

    def of_model(self, model: keras.Model) -> list[tuple[Any, np.ndarray]]:
        """Returns the `flat` draws by the weights of a model that they are values of.

        They are matched by position: the model may have been saved and loaded, or
        cloned, since.

        Args:
            model: The model that they were drawn for, built.

        Returns:
            Pairs of a `bl.RandomWeight`, or a Keras variable, and an array
            `[draws, ...]`.
        """
        if self._kind is None:
            raise ValueError(
                "Expected draws of the weights of a model, such as `bl.mcmc(model, "
                f"(x, y))` returns. Received: draws of {list(self)}, which belong to "
                "no model."
            )
        if self._kind == "random_weights":
            targets = random_weights(model)
            shapes = [tuple(w.posterior.shape()) for w in targets]
        else:
            targets = model.weights
            shapes = [tuple(variable.shape) for variable in targets]
        others = [name for name in self if name not in self._positions]
        if others:
            raise ValueError(
                "The model has random values besides its weights, which belong to the "
                "examples that were observed and tell nothing of others. Received: "
                f"draws of {others}"
            )
        found = []
        for name, value in self.flat().items():
            position, expected = self._positions[name], value.shape[1:]
            if position >= len(targets) or shapes[position] != expected:
                raise ValueError(
                    f"The draws are not of this model: they have {name!r} of shape "
                    f"{expected} as number {position}. Received: a model with weights "
                    f"of shapes {shapes}"
                )
            found.append((targets[position], value))
        return found

    def summary(self, **kwargs: Any) -> Any:
        """Returns mean, quantiles, r-hat and effective sample sizes, a data frame.

        Args:
            **kwargs: As in `arviz.summary`.
        """
        return _arviz().summary(self.to_arviz(), **kwargs)

    def to_arviz(self) -> Any:
        """Returns the draws for ArviZ: an `InferenceData`, from ArviZ 1 a `DataTree`.

        Slashes in names, which its files cannot have, become dots. Needs the extra
        `mcmc`.
        """
        arviz = _arviz()
        values = {name.replace("/", "."): v for name, v in self._values.items()}
        groups = {"posterior": values}
        if self.statistics:
            groups["sample_stats"] = self.statistics
        if arviz.__version__.startswith("0."):
            return arviz.from_dict(**groups)
        return arviz.from_dict(groups)


def _arviz():
    return optional_module("arviz", "mcmc")
