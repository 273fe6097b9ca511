"""Recurrent layers: Keras' own, over cells with random weights."""

import keras

from bayesian_layers.layers.register import register
from bayesian_layers.layers.weights.composite import Composite
from bayesian_layers.layers.weights.recurrent_cells import (
    GRUCellFlipout,
    GRUCellReparameterization,
    LSTMCellFlipout,
    LSTMCellReparameterization,
    SimpleRNNCellFlipout,
    SimpleRNNCellReparameterization,
)


class RandomRNN(Composite):
    """Base of the recurrent layers: the biases are random, fused kernels are off."""

    known_weights = ()

    def _resolve(self, args, kwargs):
        arguments = super()._resolve(args, kwargs)
        if "use_cudnn" in arguments:
            if arguments["use_cudnn"] is True:
                raise ValueError(
                    f"{type(self).__name__} cannot use fused kernels, which would not "
                    "see the weights that are drawn. Received: use_cudnn=True"
                )
            arguments["use_cudnn"] = False
        return arguments


@register
class SimpleRNNReparameterization(RandomRNN, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN` with a distribution over its weights.

    One draw for each sequence. Arguments as in `keras.layers.SimpleRNN`; defaults,
    `seed` and `kl_scale` as in `LSTMCellReparameterization`.

    Example:
    >>> layer = bl.layers.SimpleRNNReparameterization(4)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 4)
    """

    parts = {keras.layers.SimpleRNNCell: SimpleRNNCellReparameterization}


@register
class GRUReparameterization(RandomRNN, keras.layers.GRU):
    """`keras.layers.GRU` with a distribution over its weights.

    One draw for each sequence. Arguments as in `keras.layers.GRU`, but for `use_cudnn`,
    which is off; defaults, `seed` and `kl_scale` as in `LSTMCellReparameterization`.

    Example:
    >>> layer = bl.layers.GRUReparameterization(4)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 4)
    """

    parts = {keras.layers.GRUCell: GRUCellReparameterization}


@register
class LSTMReparameterization(RandomRNN, keras.layers.LSTM):
    """`keras.layers.LSTM` with a distribution over its weights.

    One draw for each sequence. Arguments as in `keras.layers.LSTM`, but for
    `use_cudnn`, which is off; defaults, `seed` and `kl_scale` as in
    `LSTMCellReparameterization`.

    Example:
    >>> layer = bl.layers.LSTMReparameterization(4, return_sequences=True)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 5, 4)
    """

    parts = {keras.layers.LSTMCell: LSTMCellReparameterization}


@register
class SimpleRNNFlipout(RandomRNN, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN` with random weights, drawn by Flipout.

    One draw for each sequence and example. Arguments as in `keras.layers.SimpleRNN`;
    defaults, `seed` and `kl_scale` as in `LSTMCellFlipout`.

    Example:
    >>> layer = bl.layers.SimpleRNNFlipout(4)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 4)
    """

    parts = {keras.layers.SimpleRNNCell: SimpleRNNCellFlipout}


@register
class GRUFlipout(RandomRNN, keras.layers.GRU):
    """`keras.layers.GRU` with random weights, drawn by Flipout.

    One draw for each sequence and example. Arguments as in `keras.layers.GRU`, but for
    `use_cudnn`, which is off, and `reset_after`, which has to be on; defaults, `seed`
    and `kl_scale` as in `LSTMCellFlipout`.

    Example:
    >>> layer = bl.layers.GRUFlipout(4)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 4)
    """

    parts = {keras.layers.GRUCell: GRUCellFlipout}


@register
class LSTMFlipout(RandomRNN, keras.layers.LSTM):
    """`keras.layers.LSTM` with random weights, drawn by Flipout.

    One draw for each sequence and example. Arguments as in `keras.layers.LSTM`, but
    for `use_cudnn`, which is off; defaults, `seed` and `kl_scale` as in
    `LSTMCellFlipout`.

    Example:
    >>> layer = bl.layers.LSTMFlipout(4, return_sequences=True)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 5, 4)
    """

    parts = {keras.layers.LSTMCell: LSTMCellFlipout}
