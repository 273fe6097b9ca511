"""Flipout: draws that are independent across the examples of a batch."""

import keras
from keras import ops

from bayesian_layers.layers.register import register
from bayesian_layers.layers.weights.einsum_dense import EinsumFans, feature_axes
from bayesian_layers.layers.weights.linear_estimator import LinearEstimator
from bayesian_layers.layers.weights.random_signs import RandomSigns


class Flipout(RandomSigns, LinearEstimator):
    """Decorrelates the draws of a batch by random signs.

    f(x_n) = activation(x_n @ mean + ((x_n * s_n) @ noise) * t_n + bias), with one draw
    of noise = kernel - mean for the batch, and signs s_n and t_n of +1 or -1 for each
    example n and each input and output channel; positions in space and time share
    them. For a distribution that is symmetric around its mean and has independent
    elements, the noise times the signs s_n and t_n has the distribution of the noise:
    each example sees a draw of the kernel, and no two the same.

    Reference: Wen et al. (2018), Flipout: efficient pseudo-independent weight
    perturbations on mini-batches.
    """

    def estimate(self, inputs, kernel, bias):
        """Returns the pre-activations."""
        distribution = kernel.distribution
        noise = kernel.draw(distribution) - distribution.loc
        input_axes, output_axes, example_axis = self.feature_axes(len(inputs.shape))
        outputs = self.affine(inputs, distribution.loc, bias)
        flipped = inputs * self._signs(inputs, {0, *input_axes})
        perturbation = self.affine(flipped, noise, lora_enabled=False)
        return outputs + perturbation * self._signs(
            outputs, {example_axis, *output_axes}
        )

    def feature_axes(self, rank):
        """The axes of inputs and of outputs with channels, and that of the examples."""
        channels_first = getattr(self, "data_format", None) == "channels_first"
        channel = 1 if channels_first else rank - 1
        return {channel}, {channel}, 0

    def _signs(self, x, axes):
        """Returns signs, independent along some axes of x, shared along the others."""
        shape = [size if i in axes else 1 for i, size in enumerate(ops.shape(x))]
        return self.signs(shape, x.dtype, self.draw_seed_generator)


@register
class DenseFlipout(Flipout, keras.layers.Dense):
    """`keras.layers.Dense` with a distribution over its kernel, drawn by Flipout.

    Each example of a batch sees a draw of the kernel of its own; see the formula at
    `Flipout`. Costs two products with a kernel instead of one.

    Args:
        units: As in `keras.layers.Dense`, like all arguments that follow here and are
            not listed.
        kernel_initializer: The distribution over the kernel: one with independent
            elements that are symmetric around their location. Defaults to
            `"trainable_normal"`. With an initializer of Keras the kernel is not
            random.
        kernel_regularizer: The penalty on it. Defaults to `"normal_kl_divergence"`.
        bias_initializer: `"trainable_normal"` makes the bias random too, with one draw
            for the batch.
        seed: Integer seed of the draws. Defaults to a random one.
        kl_scale: Number that multiplies the penalties; see `bl.scale_kl`.

    Example:
    >>> layer = bl.layers.DenseFlipout(4, activation="relu")
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    """


@register
class EinsumDenseFlipout(EinsumFans, Flipout, keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` with a distribution over its kernel, by Flipout.

    The first axis of the inputs has to count the examples, and the outputs have to
    keep it. Arguments as in `keras.layers.EinsumDense`; defaults, `seed` and
    `kl_scale` as in `DenseFlipout`.

    Example:
    >>> layer = bl.layers.EinsumDenseFlipout("abc,cd->abd", (None, 4))
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 5, 4)
    """

    def feature_axes(self, rank):
        """The axes with elements of the kernel, and that of the examples."""
        return feature_axes(self.equation, rank)


@register
class Conv1DFlipout(Flipout, keras.layers.Conv1D):
    """`keras.layers.Conv1D` with a distribution over its kernel, drawn by Flipout.

    Arguments as in `keras.layers.Conv1D`; defaults, `seed` and `kl_scale` as in
    `DenseFlipout`.

    Example:
    >>> layer = bl.layers.Conv1DFlipout(4, 3, padding="causal")
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 8, 4)
    """


@register
class Conv2DFlipout(Flipout, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with a distribution over its kernel, drawn by Flipout.

    Arguments as in `keras.layers.Conv2D`; defaults, `seed` and `kl_scale` as in
    `DenseFlipout`.

    Example:
    >>> layer = bl.layers.Conv2DFlipout(4, 3, padding="same")
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 8, 8, 4)
    """


@register
class Conv3DFlipout(Flipout, keras.layers.Conv3D):
    """`keras.layers.Conv3D` with a distribution over its kernel, drawn by Flipout.

    Arguments as in `keras.layers.Conv3D`; defaults, `seed` and `kl_scale` as in
    `DenseFlipout`.

    Example:
    >>> layer = bl.layers.Conv3DFlipout(4, 2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 5, 3))))
    (2, 4, 4, 4, 4)
    """


@register
class Conv1DTransposeFlipout(Flipout, keras.layers.Conv1DTranspose):
    """`keras.layers.Conv1DTranspose` with a distribution over its kernel, by Flipout.

    Arguments as in `keras.layers.Conv1DTranspose`; defaults, `seed` and `kl_scale` as
    in `DenseFlipout`.

    Example:
    >>> layer = bl.layers.Conv1DTransposeFlipout(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 5, 3))))
    (2, 10, 4)
    """


@register
class Conv2DTransposeFlipout(Flipout, keras.layers.Conv2DTranspose):
    """`keras.layers.Conv2DTranspose` with a distribution over its kernel, by Flipout.

    Arguments as in `keras.layers.Conv2DTranspose`; defaults, `seed` and `kl_scale` as
    in `DenseFlipout`.

    Example:
    >>> layer = bl.layers.Conv2DTransposeFlipout(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 3))))
    (2, 10, 10, 4)
    """


@register
class Conv3DTransposeFlipout(Flipout, keras.layers.Conv3DTranspose):
    """`keras.layers.Conv3DTranspose` with a distribution over its kernel, by Flipout.

    Arguments as in `keras.layers.Conv3DTranspose`; defaults, `seed` and `kl_scale` as
    in `DenseFlipout`.

    Example:
    >>> layer = bl.layers.Conv3DTransposeFlipout(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 3, 3, 3, 1))))
    (2, 6, 6, 6, 4)
    """


@register
class DepthwiseConv1DFlipout(Flipout, keras.layers.DepthwiseConv1D):
    """`keras.layers.DepthwiseConv1D` with a distribution over its kernel, by Flipout.

    Arguments as in `keras.layers.DepthwiseConv1D`, with `depthwise_initializer` and
    `depthwise_regularizer` in place of the kernel's; defaults, `seed` and `kl_scale`
    as in `DenseFlipout`.

    Example:
    >>> layer = bl.layers.DepthwiseConv1DFlipout(3, depth_multiplier=2)
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 6, 6)
    """


@register
class DepthwiseConv2DFlipout(Flipout, keras.layers.DepthwiseConv2D):
    """`keras.layers.DepthwiseConv2D` with a distribution over its kernel, by Flipout.

    Arguments as in `keras.layers.DepthwiseConv2D`, with `depthwise_initializer` and
    `depthwise_regularizer` in place of the kernel's; defaults, `seed` and `kl_scale`
    as in `DenseFlipout`.

    Example:
    >>> layer = bl.layers.DepthwiseConv2DFlipout(3)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 6, 6, 3)
    """
