"""Additive couplings whose backward pass recomputes what it needs from their values."""

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend, keras_contact
from bayesian_layers.handlers import block


class AdditiveCouplings:
    """Couplings one after another, differentiated together.

        first <- first + f(second),  then  second <- second + g(first)

    for each pair (f, g). The backward pass has the last values only. It walks back from
    them, takes off what was added, and on its way computes the gradients of one f or g
    at a time. What they draw, it draws again: state that they change, such as that of
    seeds, is kept as it was before each of them, and is changed once.

    Args:
        pairs: The pairs of layers, built.
        training: What the layers are to be told.
    """

    def __init__(self, pairs, training):
        self._pairs = pairs
        self._training = training
        layers = [layer for pair in pairs for layer in pair]
        self._trained = _unique(v for la in layers for v in la.trainable_variables)
        state = _unique(v for la in layers for v in la.non_trainable_variables)
        trained = {id(variable) for variable in self._trained}
        self._state = [v for v in state if id(v) not in trained]

    def __call__(self, first, second):
        """Returns the two values, and the losses that layers added in their calls."""
        variables = [*self._trained, *self._state]
        with keras_contact.uncast_variables():
            values = [ops.convert_to_tensor(variable) for variable in variables]
            run = backend.with_backward_pass(self._forward, self._backward)
            first, second, *others = run(first, second, *values)
            losses, state = others[: self._losses], others[self._losses :]
            for variable, value in zip(self._changed, state, strict=True):
                variable.assign(ops.stop_gradient(value))
        return first, second, losses

    def _forward(self, first, second, *values):
        """The values, those of losses and of the state; and what is to be kept."""
        variables = [*self._trained, *self._state]
        now = {id(v): value for v, value in zip(variables, values, strict=True)}
        given, before, updated, losses = dict(now), [], {}, []

        def added(layer, x):
            before.append({id(v): now[id(v)] for v in layer.variables})
            value, *own, scope = self._run(layer, x, now)
            losses.extend(own)
            now.update(scope.updates)
            updated.update(scope.updates)
            return value

        for f, g in self._pairs:
            first = first + added(f, second)
            second = second + added(g, first)
        self._changed = [v for v in self._state if id(v) in updated]
        self._kept = [v for v in variables if id(v) not in updated]
        self._before = [
            [v for v in layer.variables if id(v) in updated]
            for pair in self._pairs
            for layer in pair
        ]
        self._losses = len(losses)
        kept = [first, second, *(given[id(v)] for v in self._kept)]
        for variables, state in zip(self._before, before, strict=True):
            # Copies: PyTorch assigns to variables in place.
            kept += [ops.copy(state[id(v)]) for v in variables]
        state = [now[id(v)] for v in self._changed]
        return [first, second, *losses, *state], kept

    def _backward(self, kept, gradients):
        """The gradients with respect to what `_forward` was given."""
        first, second, *kept = kept
        first_gradient, second_gradient, *others = gradients
        losses = list(others[: self._losses])
        count = len(self._kept)
        values = {id(v): x for v, x in zip(self._kept, kept[:count], strict=True)}
        kept = list(kept[count:])
        before = list(self._before)
        totals = {}

        def taken_back(layer, x, gradient):
            """What a layer added at x, and gradients with respect to x and weights."""
            state = before.pop()
            tensors = [kept.pop() for _ in state]
            for variable, tensor in zip(reversed(state), tensors, strict=True):
                values[id(variable)] = tensor
            trained = layer.trainable_variables

            def run(x, *weights):
                mine = {id(v): w for v, w in zip(trained, weights, strict=True)}
                return self._run(layer, x, {**values, **mine})[:-1]

            weights = [values[id(v)] for v in trained]
            (value, *own), pull = backend.pullback(run, x, *weights)
            of_losses = [losses.pop() for _ in own][::-1]
            of_x, *of_weights = pull([gradient, *of_losses])
            for variable, of_weight in zip(trained, of_weights, strict=True):
                total = totals.get(id(variable))
                total = of_weight if total is None else total + of_weight
                totals[id(variable)] = total
            return value, of_x

        # No handler that is in force now was so when the layers drew.
        with block(), keras_contact.uncast_variables():
            for f, g in reversed(self._pairs):
                value, of_first = taken_back(g, first, second_gradient)
                second, first_gradient = second - value, first_gradient + of_first
                value, of_second = taken_back(f, second, first_gradient)
                first, second_gradient = first - value, second_gradient + of_second
        of_trained = [totals[id(v)] for v in self._trained]
        nothing = [None] * len(self._state)
        return [first_gradient, second_gradient, *of_trained, *nothing]

    def _run(self, layer, x, values):
        """The value of a layer at x, losses that it added, and the scope it ran in."""
        with _Scope(layer, values, x) as scope:
            value = layer(x, training=self._training)
            value = ops.cast(ops.convert_to_tensor(value), x.dtype)
            losses = list(scope.losses)
            keras_contact.forget_losses(layer)
        return value, *losses, scope


class _Scope(keras.StatelessScope):
    """Runs a layer with given values for its variables, and keeps what it assigns."""

    def __init__(self, layer, values, x):
        values = {id(v): values[id(v)] for v in layer.variables}
        for state in filter(keras_contact.is_seed_state, layer.variables):
            values[id(state)] = _after(x, values[id(state)])
        mapping = [(variable, values[id(variable)]) for variable in layer.variables]
        super().__init__(mapping, collect_losses=True, initialize_variables=False)
        self.updates = {}
        self._layer = layer

    def add_update(self, update):
        variable, value = update
        self.updates[id(variable)] = value
        super().add_update(update)

    def get_current_value(self, variable):
        value = super().get_current_value(variable)
        if value is None:
            raise ValueError(
                f"Layer {self._layer.name!r} of a ReversibleBlock reads the variable "
                f"{variable.path!r}, which is not one of its own: the backward pass, "
                "which runs the layer again, could not give it the same value. Make "
                "what holds it an attribute of the layer; give functions of "
                "`keras.random` a `seed` generator that the layer owns."
            )
        return value


def _after(x, seed):
    """The seed, which no compiler finds before it has x.

    Noise depends on nothing but its seed. XLA would draw that of all layers first, find
    it again in the backward pass, and keep it in between: dropout masks of the size of
    all activations. It heeds barriers on some devices only; that nothing is less than
    minus infinity it has to find out by looking.
    """
    never = ops.any(ops.less(ops.stop_gradient(x[:1]), -np.inf))
    return seed + ops.cast(never, seed.dtype)


def _unique(variables):
    return list({id(variable): variable for variable in variables}.values())
