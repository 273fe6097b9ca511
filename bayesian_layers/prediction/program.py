"""The compiled program that runs a model once for each draw of its weights."""

import contextlib
import dataclasses
import math

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend, keras_contact
from bayesian_layers.distributions import Bernoulli, Categorical, Deterministic
from bayesian_layers.prediction.held import draw_weights, numbered, seed_state
from bayesian_layers.prediction.moments import add_draw, moments_of, no_totals
from bayesian_layers.prediction.trunk import split
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.random_weights.held import hold_at
from bayesian_layers.random_weights.kl import random_weights
from bayesian_layers.random_weights.random_weight import RandomWeight
from bayesian_layers.trace import drawn_when_read, is_tracing


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a program is compiled for.

    Attributes:
        stochastic: Classes of Keras layers that run as in training.
        from_logits: Whether plain outputs are logits (`True`), probabilities (`False`)
            or neither (`None`).
        store_samples: Whether the distributions of all draws are returned.
    """

    stochastic: tuple = ()
    from_logits: bool | None = None
    store_samples: bool = True


def program_of(model, settings, given=()):
    """Returns the program of a model: the same one, compiled, for each `predict`."""
    if is_tracing():
        # The handlers in force would stay in what is compiled.
        return Program(model, settings, given)
    programs = keras_contact.kept_with(model, "programs", dict)
    variables = tuple(id(variable) for variable in model.variables)
    key = (settings, variables, tuple(map(id, given)))
    if key not in programs:
        for old in [old for old in programs if old[1] != key[1]]:
            del programs[old]
        programs[key] = Program(model, settings, given)
    return programs[key]


@dataclasses.dataclass
class Spec:
    """Shapes and dtypes of what a program computes for one draw and one batch.

    Attributes:
        features: What the trunk of the model computes.
        outputs: The distributions, in the structure of the model's outputs.
        moments: The moments of each.
    """

    features: object
    outputs: object
    moments: list


class Program:
    """Runs a model on batches, once for each of some draws, in a compiled function.

    For each draw the weights are drawn once, for all batches of a group and by the
    same seeds for all groups. What the model computes before its first random layer is
    computed once for all draws, in another compiled function. Moments are gathered draw
    by draw: what is in use at a time are the outputs of one draw for one batch.

    Args:
        model: A built model.
        settings: The `Settings`.
        given: The random weights, and Keras variables, whose values are given for each
            draw.
    """

    def __init__(self, model, settings, given=()):
        self._model = model
        self.settings = settings
        self._given = list(given)
        if any(isinstance(target, keras.Variable) for target in given):
            # Other variables are another trunk.
            self._trunk, self._rest = None, model
        else:
            self._trunk, self._rest = split(model, settings.stochastic)
        self._seed_states = [
            v for v in model.variables if keras_contact.is_seed_state(v)
        ]
        self._stochastic = [
            layer
            for layer in keras_contact.flatten_layers(model)
            if isinstance(layer, settings.stochastic)
        ]
        self._run_trunk = backend.compile_inference(self._all_features)
        self._run = backend.compile_inference(self._draws)
        self._specs = {}
        self.num_weights = len(random_weights(model))
        self.numbered_weights = numbered(model)
        self.num_generators = len(self._seed_states)

    def spec(self, batch):
        """Returns the `Spec` of a batch, a structure of arrays."""
        shapes = [(a.shape, a.dtype) for a in keras.tree.flatten(batch)]
        key = (tuple(shapes), repr(keras.tree.map_structure(lambda _: 0, batch)))
        if key not in self._specs:
            self._specs[key] = self._look_at(batch)
        return self._specs[key]

    def _look_at(self, batch):
        counts = (self.num_weights, self.num_generators)
        seeds = [np.zeros(count, "int32") for count in counts]
        given = [np.zeros(_shape(target), "float32") for target in self._given]
        arguments = self._tensors((batch, *seeds, given))
        try:
            spec = backend.output_spec(self._one, self._values(), *arguments)
        except _RandomTrunkError:
            # A layer of a user that returns a random variable, without a seed that
            # would tell: the distribution has to come out at the other end.
            self._trunk, self._rest = None, self._model
            spec = backend.output_spec(self._one, self._values(), *arguments)
        return Spec(*spec)

    def start(self, batches):
        """Returns the totals of no draws, for a group of batches `[count, ...]`."""
        count = len(keras.tree.flatten(batches)[0])
        spec = self.spec(keras.tree.map_structure(lambda array: array[0], batches))
        return [no_totals(moments, count) for moments in spec.moments]

    def features(self, batches):
        """Returns what the model computes before its first random layer.

        Args:
            batches: Arrays `[count, batch, ...]`.
        """
        batches = self._tensors(batches)
        if self._trunk is None:
            return batches
        return self._run_trunk(self._values(), batches)

    def __call__(self, features, weight_seeds, other_seeds, given, totals, done):
        """Adds draws.

        Args:
            features: What `features` returned.
            weight_seeds: Integers `[draws, weights]`.
            other_seeds: Integers `[draws, count, generators]`, for all that is drawn
                apart for each example.
            given: The values of what is given, a list of arrays `[draws, ...]`.
            totals: What `start` or the last call returned.
            done: The number of draws in them.

        Returns:
            The number of draws in the totals, an integer; the totals; and the outputs
            of these draws if they are stored, a list of distributions with parameters
            `[draws, count, batch, ...]`.
        """
        done = ops.convert_to_tensor(done, "int32")
        draws = self._tensors((weight_seeds, other_seeds, given))
        done, totals, stored = self._run(self._values(), features, draws, totals, done)
        return int(done), totals, stored  # An integer waits for what is computed.

    def _values(self):
        return self._tensors(self._model.variables)

    def _tensors(self, arrays):
        return keras.tree.map_structure(ops.convert_to_tensor, arrays)

    # What is compiled.

    def _one(self, values, batch, weight_seeds, other_seeds, given):
        """One draw of one batch: features, outputs and moments."""
        features = self._features(values, batch)
        values, weights = self._weights(values, weight_seeds, given)
        outputs = self._outputs(values, weights, features, other_seeds)
        return features, outputs, [moments_of(d) for d in keras.tree.flatten(outputs)]

    def _all_features(self, values, batches):
        def add(_, batch):
            return (), self._features(values, batch)

        return backend.scan(add, (), batches)[1]

    def _draws(self, variables, features, draws, totals, done):
        def draw(carry, one):
            done, totals = carry
            weight_seeds, other_seeds, given = one
            values, weights = self._weights(variables, weight_seeds, given)

            def add(_, arguments):
                features, totals, seeds = arguments
                outputs = self._outputs(values, weights, features, seeds)
                outputs = keras.tree.flatten(outputs)
                totals = [
                    add_draw(total, done, moments_of(output))
                    for total, output in zip(totals, outputs, strict=True)
                ]
                return (), (totals, outputs if self.settings.store_samples else [])

            _, (totals, stored) = backend.scan(add, (), (features, totals, other_seeds))
            return (done + 1, totals), stored

        (done, totals), stored = backend.scan(draw, (done, totals), draws)
        return done, totals, stored

    def _scope(self, values, states=()):
        pairs = dict(zip(map(id, self._model.variables), values, strict=True))
        pairs.update(zip(map(id, self._seed_states), states, strict=False))
        variables = self._model.variables
        return keras.StatelessScope(
            state_mapping=[(v, pairs[id(v)]) for v in variables]
        )

    def _features(self, values, batch):
        if self._trunk is None:
            return batch
        with self._scope(values), drawn_when_read():
            features = keras.tree.flatten(self._trunk(batch, training=False))
        if any(isinstance(feature, RandomVariable) for feature in features):
            raise _RandomTrunkError
        return features

    def _weights(self, values, seeds, given):
        """The values of the variables, and of the random weights, in one draw."""
        known = dict(zip(map(id, self._given), given, strict=True))
        values = [
            ops.cast(known.get(id(variable), value), variable.dtype)
            for variable, value in zip(self._model.variables, values, strict=True)
        ]
        weights = {w: known[id(w)] for w in self._given if isinstance(w, RandomWeight)}
        dtype = self._seed_states[0].dtype if self._seed_states else None
        with self._scope(values):
            return values, draw_weights(self._model, seeds, dtype, weights) | weights

    def _outputs(self, values, weights, features, seeds):
        states = [
            seed_state(seeds[i], v.dtype) for i, v in enumerate(self._seed_states)
        ]
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._scope(values, states))
            stack.enter_context(hold_at(weights))
            stack.enter_context(keras_contact.called_in_training(self._stochastic))
            stack.enter_context(drawn_when_read())
            outputs = self._rest(features, training=False)
            distributions = keras.tree.map_structure(_distribution_of, outputs)
            if self.settings.from_logits is not None:
                distributions = _classifiers(distributions, self.settings.from_logits)
            # Stacked over draws, a scale without batch axes would broadcast along the
            # wrong ones.
            return keras.tree.map_structure(
                lambda d: d._broadcast_batch(d._dynamic_batch_shape()), distributions
            )


def _shape(target):
    """The shape of a random weight or of a variable."""
    is_weight = isinstance(target, RandomWeight)
    return tuple(target.posterior.shape() if is_weight else target.shape)


def _distribution_of(output):
    is_random = isinstance(output, RandomVariable)
    return output.distribution.predictive() if is_random else Deterministic(output)


def _classifiers(distributions, from_logits):
    """Plain outputs as distributions over classes; heads as they are."""
    families = [type(d) for d in keras.tree.flatten(distributions)]
    if Deterministic not in families:
        raise ValueError(
            "`from_logits` says what plain outputs are, and this model has none: its "
            "output layers give distributions, which are used as they are. Leave it "
            f"out. Received: from_logits={from_logits} and outputs of type "
            f"{', '.join(family.__name__ for family in families)}"
        )

    def classifier(distribution):
        if not isinstance(distribution, Deterministic):
            return distribution
        values = distribution.mean()
        family = Bernoulli if values.shape[-1] == 1 else Categorical
        return family(**{"logits" if from_logits else "probs": values})

    return keras.tree.map_structure(classifier, distributions)


class _RandomTrunkError(Exception):
    """What was taken for the same in all draws is a random variable."""


def num_bytes(tree):
    """Returns the size of the tensors of a structure."""
    leaves, _ = backend.flatten(tree)
    return sum(
        math.prod(leaf.shape)
        * np.dtype(keras.backend.standardize_dtype(leaf.dtype)).itemsize
        for leaf in leaves
    )
