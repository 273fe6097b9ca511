"""The compiled program that runs a model once for each draw of its weights."""

import contextlib
import functools
import weakref

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import Deterministic
from bayesian_layers.prediction.trunk import split
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.random_weights.held import hold, hold_at
from bayesian_layers.random_weights.kl import random_layers as has_random_weights
from bayesian_layers.random_weights.kl import random_weights
from bayesian_layers.seeds import Replay
from bayesian_layers.trace import drawn_when_read, is_tracing

_programs = weakref.WeakKeyDictionary()


def program_of(model, stochastic):
    """Returns the program of a model: the same one, compiled, for each `predict`."""
    if is_tracing():
        # The handlers in force would stay in what is compiled.
        return Program(model, stochastic)
    key = (stochastic, tuple(id(variable) for variable in model.variables))
    programs = _programs.setdefault(model, {})
    if key not in programs:
        programs.clear()
        programs[key] = Program(model, stochastic)
    return programs[key]


class Program:
    """Runs a model on batches, once for each of some seeds, in one compiled function.

    For each seed the weights are drawn once, for all batches of a group and by the
    same seed for all groups. What the model computes before its first random layer is
    computed once for all seeds.

    Args:
        model: A built model.
        stochastic: Classes of Keras layers that are to run as in training.
    """

    def __init__(self, model, stochastic=()):
        self.trunk, rest = split(model, stochastic)
        # The model is the key under which the program is kept: no strong reference.
        self._rest = weakref.ref(model) if rest is model else (lambda: rest)
        self._model = weakref.ref(model)
        self._stochastic = stochastic
        self.seed_states = [v for v in model.variables if _is_seed_state(v)]
        self.structure = None
        self.templates = None
        self._run = backend.compile_inference(self._draws)

    def __call__(self, batches, weight_seeds, other_seeds):
        """Returns the parameters of the output distributions, for seeds and batches.

        Args:
            batches: Arrays `[count, batch, ...]`.
            weight_seeds: Integers `[seeds]`, for the weights.
            other_seeds: Integers `[seeds, count, number of seed generators]`, for all
                that is drawn apart for each example.

        Returns:
            For each output a dictionary of arrays `[seeds, count, batch, ...]`; the
            `templates` say of which distributions.
        """
        values = [ops.convert_to_tensor(v) for v in self._model().variables]
        batches, weight_seeds, other_seeds = keras.tree.map_structure(
            ops.convert_to_tensor, (batches, weight_seeds, other_seeds)
        )
        try:
            return self._run(values, batches, weight_seeds, other_seeds)
        except _RandomTrunkError:
            # A layer of a user that returns a random variable, without a seed that
            # would tell: the distribution has to come out at the other end.
            self.trunk, self._rest = None, self._model
            self._run = backend.compile_inference(self._draws)
            return self._run(values, batches, weight_seeds, other_seeds)

    def _draws(self, values, batches, weight_seeds, other_seeds):
        if self.trunk is not None:
            with self._scope(values):
                batches = ops.map(self._features, batches)

        def draw(seeds):
            weight_seed, other_seeds = seeds
            with self._scope(values):
                weights = self._draw_weights(weight_seed)
            return ops.map(
                functools.partial(self._outputs, values, weights),
                (batches, other_seeds),
            )

        return backend.map_samples(draw, (weight_seeds, other_seeds))

    def _scope(self, values, states=None):
        mapping = dict(zip(map(id, self._model().variables), values, strict=True))
        if states is not None:
            mapping.update(zip(map(id, self.seed_states), states, strict=True))
        pairs = [(v, mapping[id(v)]) for v in self._model().variables]
        return keras.StatelessScope(state_mapping=pairs)

    def _features(self, batch):
        with drawn_when_read():
            features = self.trunk(batch, training=False)
        if any(isinstance(feature, RandomVariable) for feature in features):
            raise _RandomTrunkError
        return features

    def _draw_weights(self, seed):
        model = self._model()
        if not has_random_weights(model):
            return {}
        state = _state(seed, self.seed_states[0].dtype)
        with hold(model, lambda site, key: {"seed": Replay(state, key)}):
            return {weight: weight.draw() for weight in random_weights(model)}

    def _outputs(self, values, weights, arguments):
        batch, seeds = arguments
        states = [_state(seeds[i], v.dtype) for i, v in enumerate(self.seed_states)]
        with (
            self._scope(values, states),
            hold_at(weights),
            self._as_in_training(),
            drawn_when_read(),
        ):
            outputs = self._rest()(batch, training=False)
            distributions = [
                output.distribution
                if isinstance(output, RandomVariable)
                else Deterministic(output)
                for output in keras.tree.flatten(outputs)
            ]
        self.structure = keras.tree.map_structure(lambda _: 0, outputs)
        distributions = [
            d._broadcast_batch(d._dynamic_batch_shape()) for d in distributions
        ]
        # Names in the place of tensors: what is kept must not be traced.
        self.templates = [d._map_named(lambda name, _: name) for d in distributions]
        return [_parameters(distribution) for distribution in distributions]

    @contextlib.contextmanager
    def _as_in_training(self):
        """The layers that the user named run with `training=True`."""
        layers = [
            layer
            for layer in self._model()._flatten_layers()
            if isinstance(layer, self._stochastic)
        ]
        for layer in layers:
            vars(layer)["call"] = functools.partial(_call_in_training, layer)
        try:
            yield
        finally:
            for layer in layers:
                del vars(layer)["call"]


class _RandomTrunkError(Exception):
    """What was taken for the same in all draws is a random variable."""


def _call_in_training(layer, *args, training=None, **kwargs):
    return type(layer).call(layer, *args, training=True, **kwargs)


def _is_seed_state(variable):
    return variable.path.endswith("seed_generator_state")


def _state(seed, dtype):
    """The state of a seed generator, from one integer."""
    return ops.cast(ops.stack([seed, ops.zeros_like(seed)]), dtype)


def _parameters(distribution):
    parameters = {}
    distribution._map_named(parameters.setdefault)
    return {name: ops.convert_to_tensor(value) for name, value in parameters.items()}


def seeds_of(seed, *shape):
    """Returns an array of integers below 2**31, from one or several integers."""
    states = np.random.SeedSequence(seed).generate_state(int(np.prod(shape)))
    return (states & 0x7FFFFFFF).astype("int32").reshape(shape)
