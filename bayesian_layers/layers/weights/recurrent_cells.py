"""The public recurrent cells."""

import keras
from keras import ops

from bayesian_layers.layers.weights.cells import RandomCell
from bayesian_layers.layers.weights.flipout import Flipout
from bayesian_layers.layers.weights.reparameterization import Reparameterization
from bayesian_layers.layers.weights.twins import twin


@twin
class SimpleRNNCellReparameterization(
    RandomCell, Reparameterization, keras.layers.SimpleRNNCell
):
    """`keras.layers.SimpleRNNCell` with a distribution over its weights.

    One draw for each sequence.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.SimpleRNNCellReparameterization(4))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """


@twin
class GRUCellReparameterization(RandomCell, Reparameterization, keras.layers.GRUCell):
    """`keras.layers.GRUCell` with a distribution over its weights.

    One draw for each sequence.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.GRUCellReparameterization(4))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """


@twin
class LSTMCellReparameterization(RandomCell, Reparameterization, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` with a distribution over its weights.

    Kernel, recurrent kernel and bias are random. They are drawn once for each
    sequence, for all examples of the batch: by `keras.layers.RNN` and what contains
    it, or, in a loop of your own, by `get_initial_state`, after which each call of the
    cell sees the same weights until the next `get_initial_state`.

    Example:
    >>> cell = bl.layers.LSTMCellReparameterization(4)
    >>> x = np.ones((8, 5, 3))
    >>> state = cell.get_initial_state(batch_size=8)
    >>> for t in range(5):
    ...     output, state = cell(x[:, t], state)
    >>> ops.shape(output)
    (8, 4)

    Reference: Fortunato, Blundell and Vinyals (2017), Bayesian recurrent neural
    networks.
    """


@twin
class SimpleRNNCellFlipout(RandomCell, Flipout, keras.layers.SimpleRNNCell):
    """`keras.layers.SimpleRNNCell` with random weights, drawn by Flipout.

    One draw for each sequence and example.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.SimpleRNNCellFlipout(4))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """


@twin
class GRUCellFlipout(RandomCell, Flipout, keras.layers.GRUCell):
    """`keras.layers.GRUCell` with random weights, drawn by Flipout.

    One draw for each sequence and example. Needs `reset_after=True`, the default:
    otherwise the state is multiplied by the reset gate before the recurrent kernel,
    inside of the step that Keras computes.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.GRUCellFlipout(4))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """

    @classmethod
    def _standardize_arguments(cls, arguments):
        """Returns the arguments; the state must not be reset before the product."""
        if not arguments["reset_after"]:
            raise ValueError(
                "Flipout of a GRU needs `reset_after=True`. Received: "
                f"reset_after={arguments['reset_after']}. Use Reparameterization "
                "instead."
            )
        return arguments

    def add_to_bias(self, bias, from_inputs, from_state):
        """Returns the biases of the inputs and of the state: (2, batch, 3 * units)."""
        zeros = ops.zeros_like(from_inputs + from_state)
        added = ops.stack([from_inputs + zeros, from_state + zeros])
        if bias is None:
            return added
        return added + ops.expand_dims(ops.cast(bias, added.dtype), axis=1)


@twin
class LSTMCellFlipout(RandomCell, Flipout, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` with random weights, drawn by Flipout.

    Kernel, recurrent kernel and bias are random. They are drawn once for each
    sequence; of the kernels each example of a batch sees a draw of its own, by signs
    that stay over the sequence (see `DenseFlipout`). When a sequence begins is said at
    `LSTMCellReparameterization`.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.LSTMCellFlipout(4), return_sequences=True)
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 5, 4)
    """
