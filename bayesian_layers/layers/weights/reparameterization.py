"""Reparameterization: one draw of the weights for each call."""

import keras

from bayesian_layers.layers.weights.einsum_dense import EinsumFans
from bayesian_layers.layers.weights.twins import Twin, twin
from bayesian_layers.random_weights import RandomWeights


class Reparameterization(Twin, RandomWeights):
    """Draws the weights once for each call, for all examples of the batch.

    f(x) = layer(x; w), w = mean + scale * z, with one z for the batch.

    Works for any layer and any distribution. The examples of a batch share the draw:
    their outputs are correlated, and gradients have more variance than by Flipout.

    Reference: Kingma and Welling (2014), Auto-encoding variational Bayes, section 2.4.
    """

    is_estimator = True


@twin
class DenseReparameterization(Reparameterization, keras.layers.Dense):
    """`keras.layers.Dense` with a distribution over its kernel.

    f(x) = activation(x @ kernel + bias), with one draw of the kernel for each call.

    Example:
    >>> layer = bl.layers.DenseReparameterization(4, activation="relu")
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    """


@twin
class EinsumDenseReparameterization(
    EinsumFans, Reparameterization, keras.layers.EinsumDense
):
    """`keras.layers.EinsumDense` with a distribution over its kernel.

    f(x) = activation(einsum(equation, x, kernel) + bias), with one draw of the kernel
    for each call.

    Example:
    >>> layer = bl.layers.EinsumDenseReparameterization("abc,cd->abd", (None, 4))
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 5, 4)
    """


@twin
class Conv1DReparameterization(Reparameterization, keras.layers.Conv1D):
    """`keras.layers.Conv1D` with a distribution over its kernel.

    f(x) = activation(conv(x, kernel) + bias), with one draw of the kernel for each
    call.

    Example:
    >>> layer = bl.layers.Conv1DReparameterization(4, 3, padding="causal")
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 8, 4)
    """


@twin
class Conv2DReparameterization(Reparameterization, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with a distribution over its kernel.

    f(x) = activation(conv(x, kernel) + bias), with one draw of the kernel for each
    call.

    Example:
    >>> layer = bl.layers.Conv2DReparameterization(4, 3, padding="same")
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 8, 8, 4)
    """


@twin
class Conv3DReparameterization(Reparameterization, keras.layers.Conv3D):
    """`keras.layers.Conv3D` with a distribution over its kernel.

    f(x) = activation(conv(x, kernel) + bias), with one draw of the kernel for each
    call.

    Example:
    >>> layer = bl.layers.Conv3DReparameterization(4, 2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 5, 3))))
    (2, 4, 4, 4, 4)
    """


@twin
class Conv1DTransposeReparameterization(
    Reparameterization, keras.layers.Conv1DTranspose
):
    """`keras.layers.Conv1DTranspose` with a distribution over its kernel.

    One draw of the kernel for each call.

    Example:
    >>> layer = bl.layers.Conv1DTransposeReparameterization(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 5, 3))))
    (2, 10, 4)
    """


@twin
class Conv2DTransposeReparameterization(
    Reparameterization, keras.layers.Conv2DTranspose
):
    """`keras.layers.Conv2DTranspose` with a distribution over its kernel.

    One draw of the kernel for each call.

    Example:
    >>> layer = bl.layers.Conv2DTransposeReparameterization(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 3))))
    (2, 10, 10, 4)
    """


@twin
class Conv3DTransposeReparameterization(
    Reparameterization, keras.layers.Conv3DTranspose
):
    """`keras.layers.Conv3DTranspose` with a distribution over its kernel.

    One draw of the kernel for each call.

    Example:
    >>> layer = bl.layers.Conv3DTransposeReparameterization(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 3, 3, 3, 1))))
    (2, 6, 6, 6, 4)
    """


@twin
class DepthwiseConv1DReparameterization(
    Reparameterization, keras.layers.DepthwiseConv1D
):
    """`keras.layers.DepthwiseConv1D` with a distribution over its kernel.

    One draw of the kernel for each call.

    Example:
    >>> layer = bl.layers.DepthwiseConv1DReparameterization(3, depth_multiplier=2)
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 6, 6)
    """


@twin
class DepthwiseConv2DReparameterization(
    Reparameterization, keras.layers.DepthwiseConv2D
):
    """`keras.layers.DepthwiseConv2D` with a distribution over its kernel.

    One draw of the kernel for each call.

    Example:
    >>> layer = bl.layers.DepthwiseConv2DReparameterization(3)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 6, 6, 3)
    """


@twin
class SeparableConv1DReparameterization(
    Reparameterization, keras.layers.SeparableConv1D
):
    """`keras.layers.SeparableConv1D` with distributions over both of its kernels.

    One draw of the kernels for each call.

    Example:
    >>> layer = bl.layers.SeparableConv1DReparameterization(4, 3)
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 6, 4)
    """


@twin
class SeparableConv2DReparameterization(
    Reparameterization, keras.layers.SeparableConv2D
):
    """`keras.layers.SeparableConv2D` with distributions over both of its kernels.

    One draw of the kernels for each call.

    Example:
    >>> layer = bl.layers.SeparableConv2DReparameterization(4, 3)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 6, 6, 4)
    """


class StartsAtWeights:
    """Takes `weights` last: Keras would build the layer within its constructor."""

    def __init__(self, *, weights=None, **kwargs):
        super().__init__(**kwargs)
        if weights is not None:
            self.build()
            is_list = isinstance(weights, list) and len(weights) == 1
            self.set_weights(weights if is_list else [weights])


@twin
class EmbeddingReparameterization(
    StartsAtWeights, Reparameterization, keras.layers.Embedding
):
    """`keras.layers.Embedding` with a distribution over its vectors.

    One draw of the table for each call: equal indices have equal vectors. A table that
    is given by `weights` is the mean.

    Example:
    >>> layer = bl.layers.EmbeddingReparameterization(10, 4)
    >>> ops.shape(layer(np.array([[1, 2, 3]])))
    (1, 3, 4)
    """

    # The first axis of its table counts indices, over which nothing is summed.
    default_initializer = "trainable_normal"
