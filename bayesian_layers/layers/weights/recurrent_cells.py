"""The public recurrent cells."""

import keras
from keras import ops

from bayesian_layers.layers.register import register
from bayesian_layers.layers.weights.cells import CellFlipout, CellReparameterization


@register
class SimpleRNNCellReparameterization(
    CellReparameterization, keras.layers.SimpleRNNCell
):
    """`keras.layers.SimpleRNNCell` with a distribution over its weights.

    One draw for each sequence; arguments as in `LSTMCellReparameterization`, but for
    those that only an LSTM has.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.SimpleRNNCellReparameterization(4))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """


@register
class GRUCellReparameterization(CellReparameterization, keras.layers.GRUCell):
    """`keras.layers.GRUCell` with a distribution over its weights.

    One draw for each sequence; arguments as in `LSTMCellReparameterization`, but for
    those that only an LSTM has.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.GRUCellReparameterization(4))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """


@register
class LSTMCellReparameterization(CellReparameterization, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` with a distribution over its weights.

    Kernel, recurrent kernel and bias are random. They are drawn once for each
    sequence, for all examples of the batch: by `keras.layers.RNN` and what contains
    it, or, in a loop of your own, by `get_initial_state`, after which each call of the
    cell sees the same weights until the next `get_initial_state`.

    Args:
        units: As in `keras.layers.LSTMCell`, like all arguments that follow here and
            are not listed.
        kernel_initializer: The distribution over the kernel, like
            `recurrent_initializer` and `bias_initializer` for the others. Defaults to
            `"trainable_normal"`. With an initializer of Keras a weight is not random.
        kernel_regularizer: The penalty on it, like `recurrent_regularizer` and
            `bias_regularizer` for the others. Defaults to `"normal_kl_divergence"`.
        unit_forget_bias: Whether the mean of the bias of the forget gate starts at
            one. Defaults to `True`.
        seed: Integer seed of the draws and of dropout. Defaults to a random one.
        kl_scale: Number that multiplies the penalties; see `bl.scale_kl`.

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


@register
class SimpleRNNCellFlipout(CellFlipout, keras.layers.SimpleRNNCell):
    """`keras.layers.SimpleRNNCell` with random weights, drawn by Flipout.

    One draw for each sequence and example; arguments as in `LSTMCellFlipout`, but for
    those that only an LSTM has.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.SimpleRNNCellFlipout(4))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """


@register
class GRUCellFlipout(CellFlipout, keras.layers.GRUCell):
    """`keras.layers.GRUCell` with random weights, drawn by Flipout.

    One draw for each sequence and example; arguments as in `LSTMCellFlipout`, but for
    those that only an LSTM has. Needs `reset_after=True`, the default: otherwise the
    state is multiplied by the reset gate before the recurrent kernel, inside of the
    step that Keras computes.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.GRUCellFlipout(4))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """

    def _resolve(self, args, kwargs):
        arguments = super()._resolve(args, kwargs)
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
        return added + ops.expand_dims(self.to_compute_dtype(bias), axis=1)


@register
class LSTMCellFlipout(CellFlipout, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` with random weights, drawn by Flipout.

    Kernel, recurrent kernel and bias are random. They are drawn once for each
    sequence; of the kernels each example of a batch sees a draw of its own, by signs
    that stay over the sequence (see `DenseFlipout`). When a sequence begins is said at
    `LSTMCellReparameterization`.

    Args:
        units: As in `keras.layers.LSTMCell`, like all arguments that follow here and
            are not listed.
        kernel_initializer: The distribution over the kernel, like
            `recurrent_initializer` for the recurrent kernel: ones with independent
            elements that are symmetric around their location. Defaults to
            `"trainable_normal"`. With an initializer of Keras a weight is not random.
        bias_initializer: The distribution over the bias, with one draw for the batch.
        kernel_regularizer: The penalty on it, like `recurrent_regularizer` and
            `bias_regularizer` for the others. Defaults to `"normal_kl_divergence"`.
        unit_forget_bias: Whether the mean of the bias of the forget gate starts at
            one. Defaults to `True`.
        seed: Integer seed of the draws and of dropout. Defaults to a random one.
        kl_scale: Number that multiplies the penalties; see `bl.scale_kl`.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.LSTMCellFlipout(4), return_sequences=True)
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 5, 4)
    """
