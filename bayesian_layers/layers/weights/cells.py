"""Cells of recurrent layers: one draw of the weights for each sequence."""

import keras
from keras import ops

from bayesian_layers import keras_contact, seeds
from bayesian_layers.initializers import Posterior, as_posterior
from bayesian_layers.layers.weights.sequence import Held
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.substitution import call_with
from bayesian_layers.trace import innermost_block


class RandomCell(RandomWeights):
    """Stands before an estimator and a cell: draws once for each sequence.

    A Keras `RNN` asks its cell for the dropout mask before the loop: then the weights
    are drawn and held until it asks to reset the mask. In a loop written by hand
    `get_initial_state` begins a sequence: it renews a seed, from which each step draws
    the same weights again, so that no tensor is kept. Under handlers, which see each
    weight once, the draw is held until the block of the handler ends.

    Keras computes the products of a step, x @ kernel and h @ recurrent_kernel. Where
    the estimator has a deviation from these (see `KernelEstimator`), it is added to the
    bias, which Keras adds to the same gates.
    """

    known_weights = ()
    kernels = ("kernel", "recurrent_kernel")

    def __init__(self, *, seed=None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self._held = Held()
        _, second = seeds.split(seed, 2)
        self.sequence_seed = seeds.SequenceSeed(second)

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
        """Begins a sequence with new weights, and returns its first state.

        Args:
            batch_size: The number of examples; or the inputs, `[batch, ...]`, as
                Edward2 has it.
        """
        if len(getattr(batch_size, "shape", ())) > 0:
            batch_size = ops.shape(batch_size)[0]
        self._begin_sequence()
        return super().get_initial_state(batch_size)

    def get_dropout_mask(self, step_input):
        """Returns the dropout mask; asked from outside of a step, draws the weights."""
        if not self._is_substituted:
            self._begin_sequence()
            sequence = self._draw_sequence(step_input)
            self._held.hold(keras_contact.model_call(), sequence)
        return super().get_dropout_mask(step_input)

    def reset_dropout_mask(self):
        """Ends a sequence."""
        self._held.release(keras_contact.model_call(), innermost_block())
        super().reset_dropout_mask()

    def _begin_sequence(self):
        self.reset_dropout_mask()
        self.reset_recurrent_dropout_mask()
        self.sequence_seed.renew(self.draw_seed_generator)

    def _sequence(self, inputs):
        held = self._held.get(keras_contact.model_call(), innermost_block())
        if held is None:
            if keras_contact.in_rnn():
                raise RuntimeError(
                    f"keras {keras.__version__} does not ask the cell of an `RNN` for "
                    "its dropout mask before the loop, or tells calls apart in another "
                    f"way: {self.name!r} would draw new weights in each step."
                )
            held = self._draw_sequence(inputs)
            self._held.hold(innermost_block(), held)
        return held

    def _draw_sequence(self, inputs):
        """What is drawn for a sequence, given the inputs of a step.

        Returns:
            The values of attributes for `call_with`, and what the estimator draws for
            the deviations of its kernels, by their names.
        """
        # Both directions of a `Bidirectional` have the seed of the first.
        stream = int(keras_contact.in_backward_direction())
        seed = self.sequence_seed.replay(stream)
        estimated = {}
        if hasattr(self, "_estimated_kernels"):
            estimated = self._estimated_kernels()
        values = self.draw_weights(seed, set(self.random_weights) - set(estimated))
        drawn = {}
        for name, weight in estimated.items():
            posterior = weight.posterior
            rows, columns = weight.location.shape
            batch = ops.shape(inputs)[0]
            values[weight.attribute] = ops.cast(posterior.loc, self.compute_dtype)
            drawn[name] = self.begin(
                weight, posterior, (batch, rows), (batch, columns), seed
            )
        return values, drawn

    # A step.

    def estimate(self, call, inputs, states, training=False):  # noqa: FBT002 (Keras')
        """Returns the outputs and the next states of one step."""
        values, drawn = self._sequence(inputs)
        if not drawn:
            kwargs = {"training": training}
            return call_with(self, call, (inputs, states), kwargs, values)
        is_nested = isinstance(states, (list, tuple))
        state, *carries = states if is_nested else [states]
        masks = {}
        if training:
            masks["kernel"] = super().get_dropout_mask(inputs)
            masks["recurrent_kernel"] = self.get_recurrent_dropout_mask(state)
        inputs, from_inputs = self._product(inputs, "kernel", masks, values, drawn)
        state, from_state = self._product(
            state, "recurrent_kernel", masks, values, drawn
        )
        bias = self.add_to_bias(values.get("bias", self.bias), from_inputs, from_state)
        values = {**values, "bias": bias, "use_bias": True}
        if "implementation" in vars(self):
            # The masks are applied: the first implementation is for those of each gate.
            values["implementation"] = 2
        states = [state, *carries] if is_nested else state
        return call_with(self, call, (inputs, states), {"training": False}, values)

    def _product(self, x, name, masks, values, drawn):
        """Returns what Keras is to multiply by the location, and what is to be added.

        One mask for all gates is applied to x. With one mask for each gate x stays,
        and (x * mask - x) @ location is added for each gate.
        """
        mask = masks.get(name)
        if mask is not None and not isinstance(mask, list):
            x, mask = x * mask, None
        if mask is None:
            if name not in drawn:
                return x, 0.0
            return x, self.deviation(drawn[name], x, ops.matmul)
        location = values.get(name)
        if location is None:
            location = ops.cast(getattr(self, name), self.compute_dtype)
        added = _product_of_gates([x * (m - 1.0) for m in mask], location)
        if name in drawn:
            added = added + self.deviation(
                drawn[name],
                x,
                lambda x, noise: _product_of_gates([x * m for m in mask], noise),
            )
        return x, added

    def add_to_bias(self, bias, from_inputs, from_state):
        """Returns the bias of each example, in the form that Keras' `call` takes."""
        added = from_inputs + from_state
        return added if bias is None else added + ops.cast(bias, added.dtype)


def _product_of_gates(inputs, kernel):
    """The products of the inputs of each gate with its part of the kernel."""
    kernels = ops.split(kernel, len(inputs), axis=1)
    return ops.concatenate(list(map(ops.matmul, inputs, kernels)), axis=1)
