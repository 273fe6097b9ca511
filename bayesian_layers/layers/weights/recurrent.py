"""Recurrent layers: Keras' own, over cells with random weights."""

import keras

from bayesian_layers.layers.weights.composite import Composite
from bayesian_layers.layers.weights.flipout import Flipout
from bayesian_layers.layers.weights.reparameterization import Reparameterization
from bayesian_layers.layers.weights.twins import twin


class RandomRNN(Composite):
    """Base of the recurrent layers: the biases are random, fused kernels are off."""

    known_weights = ()

    @classmethod
    def _standardize_arguments(cls, arguments):
        """Returns the arguments, with fused kernels off."""
        if "use_cudnn" in arguments:
            if arguments["use_cudnn"] is True:
                raise ValueError(
                    f"{cls.__name__} cannot use fused kernels, which would not see the "
                    "weights that are drawn. Received: use_cudnn=True"
                )
            arguments["use_cudnn"] = False
        return arguments


@twin
class SimpleRNNReparameterization(RandomRNN, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN` with a distribution over its weights.

    One draw for each sequence.

    Example:
    >>> layer = bl.layers.SimpleRNNReparameterization(4)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 4)
    """

    estimator = Reparameterization


@twin
class GRUReparameterization(RandomRNN, keras.layers.GRU):
    """`keras.layers.GRU` with a distribution over its weights.

    One draw for each sequence.

    Example:
    >>> layer = bl.layers.GRUReparameterization(4)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 4)
    """

    estimator = Reparameterization


@twin
class LSTMReparameterization(RandomRNN, keras.layers.LSTM):
    """`keras.layers.LSTM` with a distribution over its weights.

    One draw for each sequence.

    Example:
    >>> layer = bl.layers.LSTMReparameterization(4, return_sequences=True)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 5, 4)
    """

    estimator = Reparameterization


@twin
class SimpleRNNFlipout(RandomRNN, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN` with random weights, drawn by Flipout.

    One draw for each sequence and example.

    Example:
    >>> layer = bl.layers.SimpleRNNFlipout(4)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 4)
    """

    estimator = Flipout


@twin
class GRUFlipout(RandomRNN, keras.layers.GRU):
    """`keras.layers.GRU` with random weights, drawn by Flipout.

    One draw for each sequence and example.

    Example:
    >>> layer = bl.layers.GRUFlipout(4)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 4)
    """

    estimator = Flipout


@twin
class LSTMFlipout(RandomRNN, keras.layers.LSTM):
    """`keras.layers.LSTM` with random weights, drawn by Flipout.

    One draw for each sequence and example.

    Example:
    >>> layer = bl.layers.LSTMFlipout(4, return_sequences=True)
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 5, 4)
    """

    estimator = Flipout
