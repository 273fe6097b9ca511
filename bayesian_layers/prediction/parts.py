"""Which models predict, and which of the draws each of them makes."""

import keras
import numpy as np

from bayesian_layers import backend, keras_contact, seeds
from bayesian_layers.ensemble import Ensemble
from bayesian_layers.prediction.program import program_of
from bayesian_layers.random_weights.kl import random_weights

# The number of draws of a model, and about that of an ensemble of Bayesian ones.
DEFAULT = 100

# The largest number of draws that are run at once.
CHUNK = 16


class Part:
    """Draws of one model, or of the members of an ensemble, by one program.

    Args:
        model: The model that runs.
        settings: The `Settings` of its program.
        first: The number of its first draw, among the draws of all parts.
        count: The number of its draws.
        targets: The random weights and variables whose values are given.
        values: These, a list of arrays `[rows, ...]`.
        rows: The row of each draw, an array `[count]`.
        members: The number of members whose values are given in turns.
    """

    def __init__(
        self,
        model,
        settings,
        first,
        count,
        *,
        targets=(),
        values=(),
        rows=None,
        members=1,
    ):
        self.program = program_of(model, settings, targets)
        self.count = count
        self._own = slice(first, first + count)
        self._values = values
        self._rows = rows
        self._members = members
        self.chunk = max(n for n in range(1, CHUNK + 1) if count % n == 0)

    def draws(self, seed, batches):
        """Yields the arguments of the program for some draws after others.

        Args:
            seed: The integer seed of the prediction.
            batches: The numbers of the batches of a group.
        """
        # By the position of a weight in the model: names change when it is made anew.
        weights = self._table([seed, 0], self.program.num_weights)
        # Draw i is member i of an ensemble that shares a kernel, in all layers.
        numbers = np.arange(self.count) // self._members
        weights[:, self.program.numbered_weights] = numbers[:, None]
        others = [
            self._table([seed, 1, batch], self.program.num_generators)
            for batch in batches
        ]
        others = np.stack(others, axis=1)
        for start in range(0, self.count, self.chunk):
            part = slice(start, start + self.chunk)
            given = [values[self._rows[part]] for values in self._values]
            yield weights[part], others[part], given

    def _table(self, seed, size):
        return seeds.table(seed, self._own.stop, size)[self._own]


def parts_of(model, settings, draws=None, num_samples=None):
    """Returns the parts that make the draws of a model, an ensemble or several models.

    Args:
        model: A built model, an `Ensemble`, or a list of models.
        settings: The `Settings` of the programs.
        draws: Draws of the weights of a model, if they are given.
        num_samples: The number of draws in all. Defaults to what fits the models.
    """
    if isinstance(model, list):
        return _parts_of_several(model, settings, num_samples)
    if isinstance(model, Ensemble):
        return [_part_of_ensemble(model, settings, num_samples)]
    if draws is not None:
        return [_part_of_draws(model, settings, draws, num_samples)]
    return [Part(model, settings, 0, num_samples or DEFAULT)]


def _part_of_draws(model, settings, draws, num_samples):
    """Draws that are given, so many of them, evenly from all."""
    count = draws.num_chains * draws.num_draws
    num_samples = num_samples or count
    if num_samples > count:
        raise ValueError(
            f"There are {count} draws to predict by. Received: "
            f"num_samples={num_samples}"
        )
    targets, values = zip(*draws.of_model(model), strict=True)
    rows = np.arange(num_samples) * count // num_samples
    given = {"targets": targets, "values": values, "rows": rows}
    return Part(model, settings, 0, num_samples, **given)


def _part_of_ensemble(ensemble, settings, num_samples):
    """Draw i is of member i, modulo their number: the first one with other values."""
    members = ensemble.members
    count = num_samples or _default_count(members, settings)
    columns = zip(*(member.variables for member in members), strict=True)
    # Seeds are those of the draws.
    columns = [c for c in columns if not keras_contact.is_seed_state(c[0])]
    return Part(
        members[0],
        settings,
        0,
        count,
        targets=[column[0] for column in columns],
        values=[np.stack([v.numpy() for v in column]) for column in columns],
        rows=np.arange(count) % len(members),
        members=len(members),
    )


def _parts_of_several(models, settings, num_samples):
    """The draws of one model after those of another, in equal numbers."""
    total = num_samples or _default_count(models, settings)
    if total < len(models):
        raise ValueError(
            "`num_samples` is the number of draws of all models, at least one of each. "
            f"Received: num_samples={num_samples} and {len(models)} models"
        )
    parts, first = [], 0
    for i, model in enumerate(models):
        count = total // len(models) + (i < total % len(models))
        parts.append(Part(model, settings, first, count))
        first += count
    return parts


def _default_count(models, settings):
    """One draw of each model, or about `DEFAULT` in all if their draws differ."""
    if not any(_varies(model, settings.stochastic) for model in models):
        return len(models)
    return len(models) * max(1, round(DEFAULT / len(models)))


def _varies(model, stochastic):
    layers = keras_contact.flatten_layers(model)
    return bool(random_weights(model)) or any(isinstance(x, stochastic) for x in layers)


def check_alike(parts, batch):
    """Raises `ValueError` unless all parts have outputs that can be mixed."""
    first, *others = (part.program.spec(batch) for part in parts)
    for i, other in enumerate(others, start=1):
        for of_outputs in (_structure, _families, _moments):
            _compare(of_outputs(first), of_outputs(other), i)
        if parts[0].program.settings.store_samples:
            _compare(
                _parameters(first),
                _parameters(other),
                i,
                " Predict with `store_samples=False` to mix moments only.",
            )


def _compare(ours, theirs, i, advice=""):
    if ours != theirs:
        raise ValueError(
            "Expected models whose outputs are of one structure, shape and family of "
            f"distributions.{advice} Received: outputs of models 0 and {i} with {ours} "
            f"and {theirs}"
        )


def _structure(spec):
    return repr(keras.tree.map_structure(lambda _: "*", spec.outputs))


def _families(spec):
    return [type(output).__name__ for output in keras.tree.flatten(spec.outputs)]


def _moments(spec):
    return [
        {name: _shape_and_dtype(moment) for name, moment in moments.items()}
        for moments in spec.moments
    ]


def _parameters(spec):
    leaves, structure = backend.flatten(keras.tree.flatten(spec.outputs))
    return [_shape_and_dtype(leaf) for leaf in leaves], str(structure)


def _shape_and_dtype(tensor):
    return tuple(tensor.shape), keras.backend.standardize_dtype(tensor.dtype)
