"""Cells of recurrent layers: one draw of the weights for each sequence."""

from keras import ops

from bayesian_layers.distributions import noise
from bayesian_layers.initializers import Posterior, as_posterior
from bayesian_layers.layers.weights.random_signs import RandomSigns
from bayesian_layers.layers.weights.random_weights import RandomWeights
from bayesian_layers.layers.weights.reading import reading
from bayesian_layers.layers.weights.sequence import (
    Held,
    SequenceSeed,
    handlers,
    model_call,
)
from bayesian_layers.trace import is_tracing


class RandomCell(RandomWeights):
    """Base of the cells: draws once for each sequence, whoever runs the loop.

    A Keras `RNN` asks its cell for the dropout mask before the loop: then the weights
    are drawn and held until it asks to reset the mask. In a loop written by hand
    `get_initial_state` begins a sequence: it renews a seed, from which each step draws
    the same weights again, so that no tensor is kept. Under handlers, which see each
    weight once, the draw is held until the block of the handler ends.

    A subclass writes `draw_sequence(inputs, seed)`, what is drawn for a sequence given
    the inputs of a step, and `step(sequence, inputs, states, training)`.
    """

    known_weights = ()
    kernels = ("kernel", "recurrent_kernel")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._held = Held()
        _, seed = noise.split(self.seed, 2)
        self.sequence_seed = SequenceSeed(seed)

    def add_weight(self, shape=None, initializer=None, *, name=None, **kwargs):
        """Adds a weight; the bias of an LSTM has a mean of one at the forget gate."""
        if name == "bias" and initializer is not self.bias_initializer:
            # With `unit_forget_bias` Keras gives a function that concatenates what
            # the initializer starts at, ones, and what it starts at.
            initializer = self._with_unit_forget_bias(shape, initializer)
        return super().add_weight(shape, initializer, name=name, **kwargs)

    def _with_unit_forget_bias(self, shape, initializer):
        posterior = as_posterior(self.bias_initializer, shape, self.variable_dtype)
        if posterior is None:
            return initializer
        if not isinstance(self.bias_initializer, Posterior):
            raise ValueError(
                f"{type(self).__name__} with a function for `bias_initializer` that "
                "returns a distribution needs `unit_forget_bias=False`. Received: "
                "unit_forget_bias=True"
            )
        return posterior.with_location(initializer)

    # The beginning and the end of a sequence.

    def get_initial_state(self, batch_size=None):
        """Begins a sequence with new weights, and returns its first state."""
        self._begin_sequence()
        return super().get_initial_state(batch_size)

    def get_dropout_mask(self, step_input):
        """Returns the dropout mask; asked from outside of a step, draws the weights."""
        if not self.is_under_way():
            self._begin_sequence()
            self._held.hold(model_call(), self._draw_sequence(step_input))
        return super().get_dropout_mask(step_input)

    def reset_dropout_mask(self):
        """Ends a sequence."""
        self._held.release(model_call(), handlers())
        super().reset_dropout_mask()

    def _begin_sequence(self):
        self.reset_dropout_mask()
        self.reset_recurrent_dropout_mask()
        self.sequence_seed.renew(self.draw_seed_generator)

    def _draw_sequence(self, inputs):
        seed = self.sequence_seed.replay(stream=int(self._runs_backward()))
        return self.draw_sequence(inputs, seed)

    def _runs_backward(self):
        """Whether the cell is in the second direction of a `Bidirectional`.

        That is made from the config of the first, with its seed: the name alone tells
        them apart.
        """
        names = reversed(self.path.split("/"))
        directions = [n for n in names if n.startswith(("forward_", "backward_"))]
        return bool(directions) and directions[0].startswith("backward_")

    def get_build_config(self):
        """Returns `None`: when loaded, the cell is built by the `RNN` that it is in.

        Built before that it would not be under the path of the `RNN`, by which
        handlers and directions tell it from others.
        """
        return None

    def _sequence(self, inputs):
        held = self._held.get(model_call(), handlers())
        if held is None:
            held = self._draw_sequence(inputs)
            self._held.hold(handlers(), held)
        return held

    def check_called(self):
        """Raises nothing: an `RNN` has the weights drawn before it calls the cell."""

    def call(self, inputs, states, training=False):  # noqa: FBT002 (Keras' signature)
        """Returns the outputs and the next states of one step."""
        return self.step(self._sequence(inputs), inputs, states, training)

    def keras_step(self, inputs, states, *, training, **values):
        """Keras' own `call`, with attributes of the cell read as `values`."""
        with reading(self, **values):
            return super().call(inputs, states, training=training)


class CellReparameterization(RandomCell):
    """Draws the weights once for each sequence, for all examples of the batch."""

    def draw_sequence(self, inputs, seed):
        """Returns the weights."""
        return self.draw(seed)

    def step(self, sequence, inputs, states, training):
        """Returns the outputs and the next states of one step."""
        return self.keras_step(inputs, states, training=training, **sequence)


class CellFlipout(RandomSigns, RandomCell):
    """Draws the weights once for each sequence; signs tell the examples apart.

    Both products of a step, x @ kernel and h @ recurrent_kernel, are those of
    Flipout: x_n @ mean + ((x_n * s_n) @ noise) * t_n, with signs that stay over the
    sequence. Keras computes the first term; the second differs between examples and is
    added to the bias, which Keras adds to the same gates.
    """

    def draw_sequence(self, inputs, seed):
        """Returns the draws of the kernels and their signs, and the bias."""
        if is_tracing():
            return self.draw(seed)
        self._refuse_time_distributed()
        batch = ops.shape(inputs)[0]
        sequence = {"bias": self.bias}
        for name, weight in self.random_weights.items():
            if name == "bias":
                sequence[name] = self.to_compute_dtype(weight.draw(seed=seed))
                continue
            distribution = weight.distribution
            deviation = weight.draw(distribution, seed) - distribution.loc
            rows, columns = weight.location.shape
            sequence[name] = self.to_compute_dtype(distribution.loc)
            sequence[f"{name}_flips"] = (
                self.to_compute_dtype(deviation),
                self.signs((batch, rows), self.compute_dtype, seed),
                self.signs((batch, columns), self.compute_dtype, seed),
            )
        return sequence

    def step(self, sequence, inputs, states, training):
        """Returns the outputs and the next states of one step."""
        flips = [sequence.get(f"{name}_flips") for name in self.kernels]
        values = {k: v for k, v in sequence.items() if not k.endswith("_flips")}
        if flips == [None, None]:
            return self.keras_step(inputs, states, training=training, **values)
        nested = isinstance(states, (list, tuple))
        state, *carries = states if nested else [states]
        masks = [None, None]
        if training:
            masks[0] = self.get_dropout_mask(inputs)
            masks[1] = self.get_recurrent_dropout_mask(state)
        inputs, from_inputs = self._product(inputs, "kernel", masks[0], sequence)
        state, from_state = self._product(state, "recurrent_kernel", masks[1], sequence)
        values["bias"] = self.add_to_bias(values["bias"], from_inputs, from_state)
        states = [state, *carries] if nested else state
        # The masks are applied: the first implementation is for those of each gate.
        values.update(use_bias=True, implementation=2)
        return self.keras_step(inputs, states, training=False, **values)

    def _product(self, x, name, mask, sequence):
        """Returns what Keras is to multiply by the mean, and what is to be added.

        One mask for all gates is applied to x. With one mask for each gate x stays,
        and (x * mask - x) @ mean is added for each gate.
        """
        deviation, signs_in, signs_out = sequence.get(f"{name}_flips") or [None] * 3
        if mask is not None and not isinstance(mask, list):
            x, mask = x * mask, None
        if mask is None:
            if deviation is None:
                return x, 0.0
            return x, ops.matmul(x * signs_in, deviation) * signs_out
        mean = sequence.get(name)
        if mean is None:
            mean = self.to_compute_dtype(getattr(self, name))
        added = _product_of_gates([x * (m - 1.0) for m in mask], mean)
        if deviation is not None:
            flipped = [x * m * signs_in for m in mask]
            added = added + _product_of_gates(flipped, deviation) * signs_out
        return x, added

    def add_to_bias(self, bias, from_inputs, from_state):
        """Returns the bias of each example, in the form that Keras' `call` takes."""
        added = from_inputs + from_state
        return added if bias is None else added + self.to_compute_dtype(bias)


def _product_of_gates(inputs, kernel):
    """The products of the inputs of each gate with its part of the kernel."""
    kernels = ops.split(kernel, len(inputs), axis=1)
    return ops.concatenate(list(map(ops.matmul, inputs, kernels)), axis=1)
