"""Local reparameterization: draws of the pre-activations."""

import keras
from keras import ops

from bayesian_layers.distributions import Normal
from bayesian_layers.layers.register import register
from bayesian_layers.layers.weights.linear_estimator import LinearEstimator


class LocalReparameterization(LinearEstimator):
    """Draws the pre-activations, which are normal if the kernel is.

    f(x) = activation(x @ mean + bias + sqrt(x**2 @ variance) * z), with standard
    normal z for each element of the outputs.

    It is exact for one product per example: a dense layer on inputs of rank two, where
    each example sees a draw of the kernel of its own. Where several positions of an
    example share a kernel (convolutions, dense layers on inputs of higher rank) they
    are drawn as if each had its own: mean and variance of each output are exact, the
    covariance between positions of one example is dropped.

    Reference: Kingma, Salimans and Welling (2015), Variational dropout and the local
    reparameterization trick.
    """

    posteriors = (Normal,)
    requirement = "a normal distribution with independent elements"

    def estimate(self, inputs, kernel, bias):
        """Returns the pre-activations."""
        distribution = kernel.distribution
        mean = self.affine(inputs, distribution.loc, bias)
        variance = self.affine(
            ops.square(inputs), ops.square(distribution.scale), lora_enabled=False
        )
        # The square root has no derivative at 0, where there is no noise anyway.
        stddev = ops.sqrt(ops.maximum(ops.cast(variance, distribution.dtype), 1e-30))
        noise = keras.random.normal(
            ops.shape(mean), dtype=distribution.dtype, seed=self.draw_seed_generator
        )
        return mean + self.to_compute_dtype(stddev * noise)


@register
class DenseLocalReparameterization(LocalReparameterization, keras.layers.Dense):
    """`keras.layers.Dense` whose pre-activations are drawn.

    f(x) = activation(x @ mean + bias + sqrt(x**2 @ variance) * z). Exact for inputs of
    rank two; for higher ranks positions are drawn independently, an approximation.

    Args:
        units: As in `keras.layers.Dense`, like all arguments that follow here and are
            not listed.
        kernel_initializer: The distribution over the kernel: a normal one with
            independent elements. Defaults to `"trainable_normal"`. With an
            initializer of Keras the kernel is not random.
        kernel_regularizer: The penalty on it. Defaults to `"normal_kl_divergence"`.
        bias_initializer: `"trainable_normal"` makes the bias random too, with one draw
            for the batch.
        seed: Integer seed of the draws. Defaults to a random one.
        kl_scale: Number that multiplies the penalties; see `bl.scale_kl`.

    Example:
    >>> layer = bl.layers.DenseLocalReparameterization(4, activation="relu")
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    """


@register
class Conv1DLocalReparameterization(LocalReparameterization, keras.layers.Conv1D):
    """`keras.layers.Conv1D` whose pre-activations are drawn.

    Positions are drawn independently, an approximation. Arguments as in
    `keras.layers.Conv1D`; defaults, `seed` and `kl_scale` as in
    `DenseLocalReparameterization`.

    Example:
    >>> layer = bl.layers.Conv1DLocalReparameterization(4, 3, padding="causal")
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 8, 4)
    """


@register
class Conv2DLocalReparameterization(LocalReparameterization, keras.layers.Conv2D):
    """`keras.layers.Conv2D` whose pre-activations are drawn.

    Positions are drawn independently, an approximation. Arguments as in
    `keras.layers.Conv2D`; defaults, `seed` and `kl_scale` as in
    `DenseLocalReparameterization`.

    Example:
    >>> layer = bl.layers.Conv2DLocalReparameterization(4, 3, padding="same")
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 8, 8, 4)
    """


@register
class Conv3DLocalReparameterization(LocalReparameterization, keras.layers.Conv3D):
    """`keras.layers.Conv3D` whose pre-activations are drawn.

    Positions are drawn independently, an approximation. Arguments as in
    `keras.layers.Conv3D`; defaults, `seed` and `kl_scale` as in
    `DenseLocalReparameterization`.

    Example:
    >>> layer = bl.layers.Conv3DLocalReparameterization(4, 2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 5, 3))))
    (2, 4, 4, 4, 4)
    """
