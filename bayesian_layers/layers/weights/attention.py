"""Attention: Keras' own, over projections with random kernels."""

import keras

from bayesian_layers.layers.register import register
from bayesian_layers.layers.weights.composite import Composite
from bayesian_layers.layers.weights.flipout import EinsumDenseFlipout
from bayesian_layers.layers.weights.reparameterization import (
    EinsumDenseReparameterization,
)


@register
class MultiHeadAttentionReparameterization(Composite, keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` with distributions over its projections.

    The kernels that project queries, keys, values and outputs (and the gate, if there
    is one) are random, each with draws of its own: one for each call.

    Args:
        num_heads: As in `keras.layers.MultiHeadAttention`, like all arguments that
            follow here and are not listed.
        kernel_initializer: The distribution over each kernel. Defaults to
            `"trainable_normal"`. With an initializer of Keras they are not random.
        kernel_regularizer: The penalty on it. Defaults to `"normal_kl_divergence"`.
        bias_initializer: `"trainable_normal"` makes the biases random too.
        seed: Integer seed of the draws and of dropout. Defaults to a random one.
        kl_scale: Number that multiplies the penalties; see `bl.scale_kl`.

    Example:
    >>> layer = bl.layers.MultiHeadAttentionReparameterization(num_heads=2, key_dim=4)
    >>> x = np.ones((8, 5, 3))
    >>> ops.shape(layer(x, x, use_causal_mask=True))
    (8, 5, 3)
    """

    parts = {keras.layers.EinsumDense: EinsumDenseReparameterization}


@register
class MultiHeadAttentionFlipout(Composite, keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` with random projections, drawn by Flipout.

    Each example of a batch sees draws of its own, at all of its positions the same.
    Arguments as in `MultiHeadAttentionReparameterization`; the distribution over the
    kernels has to have independent elements that are symmetric around their location.

    Example:
    >>> layer = bl.layers.MultiHeadAttentionFlipout(num_heads=2, key_dim=4)
    >>> ops.shape(layer(np.ones((8, 5, 3)), np.ones((8, 6, 3))))
    (8, 5, 3)
    """

    parts = {keras.layers.EinsumDense: EinsumDenseFlipout}


@register
class GroupedQueryAttentionReparameterization(
    Composite, keras.layers.GroupQueryAttention
):
    """`keras.layers.GroupQueryAttention` with distributions over its projections.

    Arguments as in `keras.layers.GroupQueryAttention`; defaults, `seed` and `kl_scale`
    as in `MultiHeadAttentionReparameterization`.

    Example:
    >>> layer = bl.layers.GroupedQueryAttentionReparameterization(4, 2, 1)
    >>> x = np.ones((8, 5, 3))
    >>> ops.shape(layer(x, x))
    (8, 5, 3)
    """

    parts = {keras.layers.EinsumDense: EinsumDenseReparameterization}


@register
class GroupedQueryAttentionFlipout(Composite, keras.layers.GroupQueryAttention):
    """`keras.layers.GroupQueryAttention` with random projections, by Flipout.

    Arguments as in `keras.layers.GroupQueryAttention`; defaults, `seed` and `kl_scale`
    as in `MultiHeadAttentionFlipout`.

    Example:
    >>> layer = bl.layers.GroupedQueryAttentionFlipout(4, 2, 1)
    >>> x = np.ones((8, 5, 3))
    >>> ops.shape(layer(x, x))
    (8, 5, 3)
    """

    parts = {keras.layers.EinsumDense: EinsumDenseFlipout}
