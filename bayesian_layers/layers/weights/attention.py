"""Attention: Keras' own, over projections with random kernels."""

import keras

from bayesian_layers.layers.weights.composite import Composite
from bayesian_layers.layers.weights.flipout import Flipout
from bayesian_layers.layers.weights.reparameterization import Reparameterization
from bayesian_layers.layers.weights.twins import twin


@twin
class MultiHeadAttentionReparameterization(Composite, keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` with distributions over its projections.

    The kernels that project queries, keys, values and outputs (and the gate, if there
    is one) are random, each with draws of its own: one for each call.

    Example:
    >>> layer = bl.layers.MultiHeadAttentionReparameterization(num_heads=2, key_dim=4)
    >>> x = np.ones((8, 5, 3))
    >>> ops.shape(layer(x, x, use_causal_mask=True))
    (8, 5, 3)
    """

    estimator = Reparameterization


@twin
class MultiHeadAttentionFlipout(Composite, keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` with random projections, drawn by Flipout.

    Each example of a batch sees draws of its own, at all of its positions the same. The
    distribution over the kernels has to have independent elements that are symmetric
    around their location.

    Example:
    >>> layer = bl.layers.MultiHeadAttentionFlipout(num_heads=2, key_dim=4)
    >>> ops.shape(layer(np.ones((8, 5, 3)), np.ones((8, 6, 3))))
    (8, 5, 3)
    """

    estimator = Flipout


@twin
class GroupedQueryAttentionReparameterization(
    Composite, keras.layers.GroupQueryAttention
):
    """`keras.layers.GroupQueryAttention` with distributions over its projections.

    Example:
    >>> layer = bl.layers.GroupedQueryAttentionReparameterization(4, 2, 1)
    >>> x = np.ones((8, 5, 3))
    >>> ops.shape(layer(x, x))
    (8, 5, 3)
    """

    estimator = Reparameterization


@twin
class GroupedQueryAttentionFlipout(Composite, keras.layers.GroupQueryAttention):
    """`keras.layers.GroupQueryAttention` with random projections, by Flipout.

    Example:
    >>> layer = bl.layers.GroupedQueryAttentionFlipout(4, 2, 1)
    >>> x = np.ones((8, 5, 3))
    >>> ops.shape(layer(x, x))
    (8, 5, 3)
    """

    estimator = Flipout
