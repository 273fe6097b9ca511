"""Local reparameterization: draws of the pre-activations."""

import keras
from keras import ops

from bayesian_layers.distributions import Normal
from bayesian_layers.layers.weights.einsum_dense import EinsumFans, check_no_sums
from bayesian_layers.layers.weights.linear_estimator import KernelEstimator
from bayesian_layers.layers.weights.twins import twin


class LocalReparameterization(KernelEstimator):
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

    is_estimator = True
    posteriors = (Normal,)
    requirement = "a normal distribution with independent elements"

    def begin(self, kernel, posterior, input_shape, output_shape, seed):
        """Returns the variance of the kernel, and standard normal noise."""
        noise = keras.random.normal(output_shape, dtype=posterior.dtype, seed=seed)
        return ops.square(posterior.scale), noise

    def deviation(self, drawn, inputs, product):
        """Returns the noise times the standard deviation of the product."""
        variance, noise = drawn
        # In the dtype of the distribution: in half precision squares leave its range.
        variance = product(ops.square(ops.cast(inputs, noise.dtype)), variance)
        # The square root has no derivative at 0, where there is no noise anyway.
        return ops.sqrt(ops.maximum(variance, 1e-30)) * noise


@twin
class DenseLocalReparameterization(LocalReparameterization, keras.layers.Dense):
    """`keras.layers.Dense` whose pre-activations are drawn.

    f(x) = activation(x @ mean + bias + sqrt(x**2 @ variance) * z). Exact for inputs of
    rank two; for higher ranks positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.DenseLocalReparameterization(4, activation="relu")
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    """


@twin
class EinsumDenseLocalReparameterization(
    EinsumFans, LocalReparameterization, keras.layers.EinsumDense
):
    """`keras.layers.EinsumDense` whose pre-activations are drawn.

    Exact where the outputs of an example share no element of the kernel; others are
    drawn independently, an approximation. An axis of the inputs that is summed over has
    to be one of the kernel: in `"abc,cd->ad"` one element of the kernel multiplies a
    sum over b, whose square is not the sum of squares.

    Example:
    >>> layer = bl.layers.EinsumDenseLocalReparameterization("abc,cd->abd", (None, 4))
    >>> ops.shape(layer(np.ones((8, 5, 3))))
    (8, 5, 4)
    """

    @classmethod
    def _standardize_arguments(cls, arguments):
        """Returns the arguments; no sum over inputs may share a weight."""
        check_no_sums(arguments["equation"])
        return arguments


@twin
class Conv1DLocalReparameterization(LocalReparameterization, keras.layers.Conv1D):
    """`keras.layers.Conv1D` whose pre-activations are drawn.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv1DLocalReparameterization(4, 3, padding="causal")
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 8, 4)
    """


@twin
class Conv2DLocalReparameterization(LocalReparameterization, keras.layers.Conv2D):
    """`keras.layers.Conv2D` whose pre-activations are drawn.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv2DLocalReparameterization(4, 3, padding="same")
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 8, 8, 4)
    """


@twin
class Conv3DLocalReparameterization(LocalReparameterization, keras.layers.Conv3D):
    """`keras.layers.Conv3D` whose pre-activations are drawn.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv3DLocalReparameterization(4, 2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 5, 3))))
    (2, 4, 4, 4, 4)
    """


@twin
class Conv1DTransposeLocalReparameterization(
    LocalReparameterization, keras.layers.Conv1DTranspose
):
    """`keras.layers.Conv1DTranspose` whose pre-activations are drawn.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv1DTransposeLocalReparameterization(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 5, 3))))
    (2, 10, 4)
    """


@twin
class Conv2DTransposeLocalReparameterization(
    LocalReparameterization, keras.layers.Conv2DTranspose
):
    """`keras.layers.Conv2DTranspose` whose pre-activations are drawn.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv2DTransposeLocalReparameterization(4, 2, strides=2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 3))))
    (2, 10, 10, 4)
    """


@twin
class Conv3DTransposeLocalReparameterization(
    LocalReparameterization, keras.layers.Conv3DTranspose
):
    """`keras.layers.Conv3DTranspose` whose pre-activations are drawn.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.Conv3DTransposeLocalReparameterization(4, 2)
    >>> ops.shape(layer(np.ones((2, 3, 3, 3, 1))))
    (2, 4, 4, 4, 4)
    """


@twin
class DepthwiseConv1DLocalReparameterization(
    LocalReparameterization, keras.layers.DepthwiseConv1D
):
    """`keras.layers.DepthwiseConv1D` whose pre-activations are drawn.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.DepthwiseConv1DLocalReparameterization(3, depth_multiplier=2)
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 6, 6)
    """


@twin
class DepthwiseConv2DLocalReparameterization(
    LocalReparameterization, keras.layers.DepthwiseConv2D
):
    """`keras.layers.DepthwiseConv2D` whose pre-activations are drawn.

    Positions are drawn independently, an approximation.

    Example:
    >>> layer = bl.layers.DepthwiseConv2DLocalReparameterization(3)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 6, 6, 3)
    """
