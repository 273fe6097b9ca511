"""Variational dropout: noise that multiplies the weights, and prunes them."""

import keras
from keras import ops

from bayesian_layers.layers.register import register
from bayesian_layers.layers.weights.local_reparameterization import (
    LocalReparameterization,
)


class VariationalDropout(LocalReparameterization):
    """Local reparameterization with a log-uniform prior and clipped noise.

    The kernel is mean * (1 + sqrt(alpha) * z). The prior pulls alpha up: weights with
    a large alpha are all noise and can be set to zero.

    Reference: Molchanov, Ashukha and Vetrov (2017), Variational dropout sparsifies
    deep neural networks.
    """

    default_initializer = "trainable_dropout_normal"
    default_regularizer = "log_uniform_kl_divergence"

    def log_alpha(self):
        """Returns log(alpha) of each element of the kernel, clipped to [-8, 8]."""
        distribution = self.random_weights["kernel"].distribution
        square = ops.maximum(ops.square(distribution.loc), 1e-16)
        return 2.0 * ops.log(distribution.scale) - ops.log(square)

    def sparsity(self, threshold=3.0):
        """Returns the part of the kernel with log(alpha) above a threshold, a float.

        The default is that of the paper: more than 95% of the noise's binary
        information is noise there.
        """
        above = ops.cast(self.log_alpha() > threshold, "float32")
        return float(ops.convert_to_numpy(ops.mean(above)))


@register
class DenseVariationalDropout(VariationalDropout, keras.layers.Dense):
    """`keras.layers.Dense` with variational dropout on its kernel.

    Args:
        units: As in `keras.layers.Dense`, like all arguments that follow here and are
            not listed.
        kernel_initializer: The distribution over the kernel. Defaults to
            `"trainable_dropout_normal"`.
        kernel_regularizer: The penalty on it. Defaults to
            `"log_uniform_kl_divergence"`.
        seed: Integer seed of the draws. Defaults to a random one.
        kl_scale: Number that multiplies the penalties; see `bl.scale_kl`.

    Example:
    >>> layer = bl.layers.DenseVariationalDropout(4)
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    >>> 0.0 <= layer.sparsity() <= 1.0
    True
    """


@register
class Conv2DVariationalDropout(VariationalDropout, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with variational dropout on its kernel.

    Positions are drawn independently, an approximation. Arguments as in
    `keras.layers.Conv2D`; defaults, `seed` and `kl_scale` as in
    `DenseVariationalDropout`.

    Example:
    >>> layer = bl.layers.Conv2DVariationalDropout(4, 3)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 6, 6, 4)
    """
