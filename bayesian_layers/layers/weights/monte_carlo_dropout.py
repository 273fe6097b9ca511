"""Dropout that stays random: a distribution over masks."""

import math

import keras
from keras import ops

from bayesian_layers.distributions import Bernoulli, Normal
from bayesian_layers.layers.weights.masks import Mask
from bayesian_layers.layers.weights.twins import Twin, twin
from bayesian_layers.random_weights import RandomWeights


class MonteCarlo(Twin, RandomWeights):
    """Makes a dropout layer of Keras random in inference as it is in training.

    f(x) = x * m, with factors m of mean one

    A call draws factors for each example, as Keras does in training, whatever
    `training` is. Within `bl.weights(model, seed=...)` and for each draw of
    `bl.predict` the layer is one function of its inputs: one mask over the features of
    an example is shared by all examples, over calls, batches and their order. Within
    `bl.weights(model, "mean")` nothing is dropped. The mask is seen by `bl.tape`, and
    set by `bl.condition`, under the name `"<layer>/mask"`; its shape is that of one
    example, with 1 along the axes that share a factor.

    There is no divergence: the prior of the weights behind dropout is the weight decay
    of the layer that follows. `bl.layers.DenseConcreteDropout` has both, and learns the
    rate.

    Reference: Gal and Ghahramani (2016), Dropout as a Bayesian approximation.
    """

    is_estimator = True

    @classmethod
    def _standardize_arguments(cls, arguments):
        """Returns the arguments; with a rate of one nothing would be left."""
        rate = arguments["rate"]
        if not 0.0 <= rate < 1.0:
            raise ValueError(
                f"`rate` of {cls.__name__} should be at least 0 and below 1: the "
                f"factors have a mean of one. Received: rate={rate}"
            )
        return arguments

    def build(self, input_shape):
        """Makes the distribution of masks for examples of a shape."""
        self._mask_shape = self._shape_of_mask(tuple(input_shape))
        if self.rate > 0.0:
            self.random_weights["mask"] = Mask(self, self._distribution)

    def _shape_of_mask(self, input_shape):
        """The shape of a mask of one example; `None` along axes of unknown size."""
        given = getattr(self, "noise_shape", None) or (None,) * len(input_shape)
        return tuple(
            size if fixed is None else fixed
            for size, fixed in zip(input_shape[1:], given[1:], strict=True)
        )

    def _distribution(self):
        if None in self._mask_shape:
            raise ValueError(
                f"Layer {self.name!r} cannot be one function of its inputs: it has a "
                "factor for each element of an example, and their number is not "
                f"known: the mask has the shape {self._mask_shape}. Share factors "
                "along the axis of unknown size, with `noise_shape=(None, 1, "
                "features)` or `MonteCarloSpatialDropout1D`."
            )
        return self._of_factors(ops.ones(self._mask_shape, dtype="float32"))

    def _of_factors(self, ones):
        """The distribution of the factors, up to `_scale`, with the shape of `ones`."""
        keep = (1.0 - self.rate) * ones
        return Bernoulli.rebuild({"logits": None, "probs": keep, "dtype": "float32"})

    @property
    def _scale(self):
        """What a draw of `_distribution` is multiplied by: its mean is then one."""
        return 1.0 / (1.0 - self.rate)

    def estimate(self, call, inputs, training=None):
        """Returns the inputs times the factors."""
        mask = self.random_weights["mask"]
        if not mask.is_wanted():
            return call(self, inputs, training=True)
        factors = self._scale * mask.draw()
        return inputs * ops.cast(factors[None], inputs.dtype)


class _Spatial:
    """One factor for each channel of an example."""

    def _shape_of_mask(self, input_shape):
        first = getattr(self, "data_format", None) == "channels_first"
        channel = 1 if first else len(input_shape) - 1
        return tuple(
            input_shape[axis] if axis == channel else 1
            for axis in range(1, len(input_shape))
        )


@twin
class MonteCarloDropout(MonteCarlo, keras.layers.Dropout):
    """`keras.layers.Dropout` that drops in inference too: a distribution over masks.

    f(x) = x * m / (1 - rate), with m = 0 with probability `rate`, 1 otherwise

    Each call draws a mask for each example; a draw of `bl.predict`, and the block of
    `bl.weights(model, seed=7)`, have one for all examples, which makes the model one
    function. See `bl.layers.MonteCarlo`.

    Example:
    >>> model = keras.Sequential(
    ...     [keras.Input((3,)), bl.layers.MonteCarloDropout(0.5), keras.layers.Dense(2)]
    ... )
    >>> prediction = bl.predict(model, np.ones((4, 3)), num_samples=5, verbose=0)
    >>> prediction.stddev.shape
    (4, 2)
    """


@twin
class MonteCarloSpatialDropout1D(_Spatial, MonteCarlo, keras.layers.SpatialDropout1D):
    """`keras.layers.SpatialDropout1D` that drops channels in inference too.

    Example:
    >>> layer = bl.layers.MonteCarloSpatialDropout1D(0.5)
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 8, 3)
    """


@twin
class MonteCarloSpatialDropout2D(_Spatial, MonteCarlo, keras.layers.SpatialDropout2D):
    """`keras.layers.SpatialDropout2D` that drops channels in inference too.

    Example:
    >>> layer = bl.layers.MonteCarloSpatialDropout2D(0.5)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 8, 8, 3)
    """


@twin
class MonteCarloSpatialDropout3D(_Spatial, MonteCarlo, keras.layers.SpatialDropout3D):
    """`keras.layers.SpatialDropout3D` that drops channels in inference too.

    Example:
    >>> layer = bl.layers.MonteCarloSpatialDropout3D(0.5)
    >>> ops.shape(layer(np.ones((2, 4, 4, 4, 3))))
    (2, 4, 4, 4, 3)
    """


@twin
class MonteCarloGaussianDropout(MonteCarlo, keras.layers.GaussianDropout):
    """`keras.layers.GaussianDropout` that is noisy in inference too.

    f(x) = x * m, with m ~ Normal(1, sqrt(rate / (1 - rate)))

    Example:
    >>> layer = bl.layers.MonteCarloGaussianDropout(0.5)
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 3)
    """

    def _of_factors(self, ones):
        scale = math.sqrt(self.rate / (1.0 - self.rate))
        return Normal.rebuild({"loc": ones, "scale": scale * ones})

    @property
    def _scale(self):
        """The factors have a mean of one."""
        return 1.0
