"""Variational dropout: noise that multiplies the weights, and prunes them."""

import keras
from keras import ops

from bayesian_layers.layers.weights.local_reparameterization import (
    LocalReparameterization,
)
from bayesian_layers.layers.weights.twins import twin


class VariationalDropout(LocalReparameterization):
    """Local reparameterization with a log-uniform prior and bounded noise.

    The kernel is mean * (1 + sqrt(alpha) * z). The prior pulls alpha up: weights with
    a large alpha are all noise and can be set to zero.

    Reference: Molchanov, Ashukha and Vetrov (2017), Variational dropout sparsifies
    deep neural networks.
    """

    is_estimator = True
    default_initializer = "trainable_dropout_normal"
    default_regularizer = "log_uniform_kl_divergence"

    def log_alpha(self):
        """Returns log(alpha) of each element of the kernel.

        The posterior `"trainable_dropout_normal"` keeps it in [-8, 8].
        """
        distribution = self.random_weights["kernel"].posterior
        square = ops.maximum(ops.square(distribution.loc), 1e-16)
        return 2.0 * ops.log(distribution.scale) - ops.log(square)

    def sparsity(self, threshold=3.0):
        """Returns the part of the kernel with log(alpha) above a threshold, a float.

        The default is that of the paper: alpha = exp(3) = 20 there, and a binary
        dropout of the same variance would drop more than 95% of the weights.
        """
        above = ops.cast(self.log_alpha() > threshold, "float32")
        return float(ops.convert_to_numpy(ops.mean(above)))


@twin
class DenseVariationalDropout(VariationalDropout, keras.layers.Dense):
    """`keras.layers.Dense` with variational dropout on its kernel.

    Example:
    >>> layer = bl.layers.DenseVariationalDropout(4)
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    >>> 0.0 <= layer.sparsity() <= 1.0
    True
    """


@twin
class Conv1DVariationalDropout(VariationalDropout, keras.layers.Conv1D):
    """`keras.layers.Conv1D` with variational dropout on its kernel.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv1DVariationalDropout(4, 3)
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 6, 4)
    """


@twin
class Conv2DVariationalDropout(VariationalDropout, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with variational dropout on its kernel.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv2DVariationalDropout(4, 3)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 6, 6, 4)
    """


@twin
class Conv3DVariationalDropout(VariationalDropout, keras.layers.Conv3D):
    """`keras.layers.Conv3D` with variational dropout on its kernel.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv3DVariationalDropout(4, 2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 5, 3))))
    (2, 4, 4, 4, 4)
    """
