"""Flipout: draws that are independent across the examples of a batch."""

import keras
from keras import ops

from bayesian_layers.distributions import Cauchy, Laplace, Logistic, Normal
from bayesian_layers.layers.weights.einsum_dense import EinsumFans, feature_axes
from bayesian_layers.layers.weights.linear_estimator import KernelEstimator
from bayesian_layers.layers.weights.twins import twin


class Flipout(KernelEstimator):
    """Decorrelates the draws of a batch by random signs.

    f(x_n) = activation(x_n @ mean + ((x_n * s_n) @ noise) * t_n + bias), with one draw
    of noise = kernel - mean for the batch, and signs s_n and t_n of +1 or -1 for each
    example n and each input and output channel; positions in space and time share
    them. For a distribution that is symmetric around its mean and has independent
    elements, the noise times the signs s_n and t_n has the distribution of the noise:
    each example sees a draw of the kernel, and no two the same.

    It stands before a Keras layer, one of Keras or your own, in the bases of a class.

    Example:
    >>> class MyDense(keras.Layer):
    ...     def build(self, input_shape):
    ...         self.kernel = self.add_weight((input_shape[-1], 4), name="kernel")
    ...     def call(self, inputs):
    ...         return inputs @ self.kernel
    >>> class MyDenseFlipout(bl.layers.Flipout, MyDense):
    ...     pass
    >>> layer = MyDenseFlipout()
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    >>> list(layer.random_weights)
    ['kernel']

    Reference: Wen et al. (2018), Flipout: efficient pseudo-independent weight
    perturbations on mini-batches.
    """

    is_estimator = True
    posteriors = (Normal, Cauchy, Laplace, Logistic)
    requirement = "independent elements that are symmetric around their location"

    def begin(self, kernel, posterior, input_shape, output_shape, seed):
        """Returns the noise of the kernel, and the signs of inputs and outputs."""
        noise = kernel.draw(posterior, seed) - posterior.loc
        input_axes, output_axes, example_axis = self._feature_axes(len(input_shape))
        return (
            ops.cast(noise, self.compute_dtype),
            self._signs(input_shape, {0, *input_axes}, seed),
            self._signs(output_shape, {example_axis, *output_axes}, seed),
        )

    def deviation(self, drawn, inputs, product):
        """Returns the product with the noise, seen through the signs."""
        noise, input_signs, output_signs = drawn
        return product(inputs * input_signs, noise) * output_signs

    def _feature_axes(self, rank):
        """The axes of inputs and of outputs with channels, and that of the examples."""
        channels_first = getattr(self, "data_format", None) == "channels_first"
        channel = 1 if channels_first else rank - 1
        return {channel}, {channel}, 0

    def _signs(self, shape, axes, seed):
        """Returns fair signs, independent along some axes, shared along the others."""
        shape = [size if axis in axes else 1 for axis, size in enumerate(shape)]
        one = ops.ones((), dtype=self.compute_dtype)
        return ops.where(keras.random.uniform(shape, seed=seed) < 0.5, -one, one)


@twin
class DenseFlipout(Flipout, keras.layers.Dense):
    """`keras.layers.Dense` with a distribution over its kernel, drawn by Flipout.

    Each example of a batch sees a draw of the kernel of its own; see the formula at
    `Flipout`. Costs two products with a kernel instead of one.

    Example:
    >>> layer = bl.layers.DenseFlipout(4, activation="relu")
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    """


@twin
class EinsumDenseFlipout(EinsumFans, Flipout, keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` with a distribution over its kernel, by Flipout.

    The first axis of the inputs has to count the examples, and the outputs have to
    keep it.

    Example:
    >>> layer = bl.layers.EinsumDenseFlipout("abc,cd->abd", (None, 4))
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 5, 4)
    """

    def _feature_axes(self, rank):
        """The axes with elements of the kernel, and that of the examples."""
        return feature_axes(self.equation, rank)


@twin
class Conv1DFlipout(Flipout, keras.layers.Conv1D):
    """`keras.layers.Conv1D` with a distribution over its kernel, drawn by Flipout.

    Example:
    >>> layer = bl.layers.Conv1DFlipout(4, 3, padding="causal")
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 8, 4)
    """


@twin
class Conv2DFlipout(Flipout, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with a distribution over its kernel, drawn by Flipout.

    Example:
    >>> layer = bl.layers.Conv2DFlipout(4, 3, padding="same")
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 8, 8, 4)
    """


@twin
class Conv3DFlipout(Flipout, keras.layers.Conv3D):
    """`keras.layers.Conv3D` with a distribution over its kernel, drawn by Flipout.

    Example:
    >>> layer = bl.layers.Conv3DFlipout(4, 2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 5, 3))))
    (2, 4, 4, 4, 4)
    """


@twin
class Conv1DTransposeFlipout(Flipout, keras.layers.Conv1DTranspose):
    """`keras.layers.Conv1DTranspose` with a distribution over its kernel, by Flipout.

    Example:
    >>> layer = bl.layers.Conv1DTransposeFlipout(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 5, 3))))
    (2, 10, 4)
    """


@twin
class Conv2DTransposeFlipout(Flipout, keras.layers.Conv2DTranspose):
    """`keras.layers.Conv2DTranspose` with a distribution over its kernel, by Flipout.

    Example:
    >>> layer = bl.layers.Conv2DTransposeFlipout(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 3))))
    (2, 10, 10, 4)
    """


@twin
class Conv3DTransposeFlipout(Flipout, keras.layers.Conv3DTranspose):
    """`keras.layers.Conv3DTranspose` with a distribution over its kernel, by Flipout.

    Example:
    >>> layer = bl.layers.Conv3DTransposeFlipout(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 3, 3, 3, 1))))
    (2, 6, 6, 6, 4)
    """


@twin
class DepthwiseConv1DFlipout(Flipout, keras.layers.DepthwiseConv1D):
    """`keras.layers.DepthwiseConv1D` with a distribution over its kernel, by Flipout.

    Example:
    >>> layer = bl.layers.DepthwiseConv1DFlipout(3, depth_multiplier=2)
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 6, 6)
    """


@twin
class DepthwiseConv2DFlipout(Flipout, keras.layers.DepthwiseConv2D):
    """`keras.layers.DepthwiseConv2D` with a distribution over its kernel, by Flipout.

    Example:
    >>> layer = bl.layers.DepthwiseConv2DFlipout(3)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 6, 6, 3)
    """
