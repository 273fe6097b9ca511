"""Moment propagation: mean and covariance of activations in place of draws."""

import math

import keras
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.register import register
from bayesian_layers.layers.weights import moments
from bayesian_layers.layers.weights.monte_carlo_dropout import MonteCarlo
from bayesian_layers.layers.weights.twins import Twin, twin
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.substitution import (
    call_with,
    without_bias_and_activation,
)


class _MomentLayer(ReceivesRandomVariables):
    """What all layers of moment propagation have: shapes as Keras, in float32."""

    def __call__(self, inputs, *args, **kwargs):
        if isinstance(inputs, RandomVariable) and not self.built:
            self.build(tuple(inputs.shape))  # Keras sees shapes of tensors only.
        return super().__call__(inputs, *args, **kwargs)

    def compute_output_spec(self, inputs, *args, **kwargs):
        """Returns the shape of the outputs."""
        return moments.keras_spec(self, inputs)


class MomentPropagation(Twin, RandomWeights, _MomentLayer):
    """Propagates mean and (co)variance through a layer: no draws, no noise.

    With independent inputs' moments m and C, and a kernel with independent normal
    elements of mean W and variance V, the pre-activation has

        mean = m W + bias,    covariance = W^T C W + diag((m^2 + diag C) V),

    which is exact. It is then taken for normal, as sums over many inputs nearly are,
    and the moments of the activation are those of a function of normal variables:
    exact means and variances for `"linear"`, `"relu"` and `"leaky_relu"` (of Keras'
    default slope), by 32 Gauss-Hermite nodes for `"tanh"`, `"sigmoid"`, `"softplus"`,
    `"gelu"` and `"silu"` (for tanh, the steepest, variances are then off by 0.4% at a
    standard deviation of 2 and 2% at 3); covariances by 8 terms of a series in the
    correlation, which is off by 0.7% of the variance at most for relu. Other
    activations raise.

    A tensor as input is known. What is returned is a random variable that has moments
    but no value; any layer that does not know of moments raises. End the model with a
    likelihood: `bl.layers.GaussianLikelihood` integrates the moments in closed form,
    and with `bl.losses.NegativeLogLikelihood` the loss is a deterministic bound of the
    evidence. Where something asks for weights (`bl.weights`, `bl.predict`, `bl.tape`)
    the layer is the one of Keras at one draw of them, a function of tensors.

    Reference: Wu et al. (2019), Deterministic variational inference for robust Bayesian
    neural networks. The series is ours, in place of their fit of the same function: its
    covariances are positive semidefinite.
    """

    is_estimator = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        activation = getattr(self, "activation", None)
        moments.check_activation(
            activation or keras.activations.linear, type(self).__name__
        )

    def _check_posterior(self, weight):
        moments.check_posterior(self, weight)

    def call(self, inputs):
        """Returns the outputs; without random weights, and for tensors, as Keras."""
        if isinstance(inputs, RandomVariable):
            return self._propagated(inputs)
        return super().call(inputs)

    def estimate(self, call, inputs):
        """Returns a random variable, or a tensor if all is known."""
        if all(weight.is_wanted() for weight in self.random_weights.values()):
            if not isinstance(inputs, RandomVariable):
                return super().estimate(call, inputs)
        return self._propagated(inputs)

    def _moments_of_weight(self, name):
        """Mean and variance of a weight; the variance is `None` if it is known."""
        weight = self.random_weights.get(name)
        if weight is None:
            value = getattr(self, name, None)
            return None if value is None else ops.cast(value, "float32"), None
        if weight.is_wanted():
            return ops.cast(weight.draw(), "float32"), None
        posterior = weight.posterior
        return posterior.loc, ops.square(posterior.scale)

    def _propagated(self, inputs):
        mean, covariance = moments.moments_of(inputs, self)
        kernel, kernel_variance = self._moments_of_weight("kernel")
        bias, bias_variance = self._moments_of_weight("bias")
        attribute = "_kernel" if "_kernel" in vars(self) else "kernel"
        linear = without_bias_and_activation(self)
        if keras_contact.has_lora(self):
            linear["lora_enabled"] = False  # The kernel has it in its mean.

        def product(x, kernel):
            values = {**linear, attribute: kernel}
            return call_with(self, type(self).call, (x,), {}, values)

        new_mean = product(mean, kernel)
        new = self._passed(product, kernel, mean, covariance)
        own = 0.0
        if kernel_variance is not None:
            square = ops.square(mean)
            if covariance is not None:
                square = square + moments.variance_of(mean, covariance)
            own = product(square, kernel_variance)
        if bias is not None:
            new_mean = new_mean + self._along_channels(bias)
        if bias_variance is not None:
            own = own + self._along_channels(bias_variance)
        if new is None:
            new = own + ops.zeros_like(new_mean)
        else:
            new = moments.with_variance(new, moments.variance_of(new_mean, new) + own)
        activation = getattr(self, "activation", None) or keras.activations.linear
        new_mean, new = moments.activated(activation, new_mean, new)
        return moments.variable(new_mean, new, self.name)

    def _passed(self, product, kernel, mean, covariance):
        """The (co)variance that the inputs bring, or `None`: here, of each element."""
        if covariance is None:
            return None
        return product(moments.variance_of(mean, covariance), ops.square(kernel))

    def _along_channels(self, vector):
        """A vector over output channels, as Keras adds a bias."""
        if getattr(self, "data_format", None) == "channels_first":
            return ops.reshape(vector, (1, -1, *[1] * self.rank))
        return vector


class _WithCovariance(MomentPropagation):
    """Covariances between the outputs of an example, or variances only."""

    own_arguments = {
        "covariance": (
            "full",
            '`"full"` (the default): covariances between all features of an example, '
            "as matrices `[batch, units, units]`, for inputs of rank two; "
            '`"diagonal"`: variances only, as if features were independent.',
        )
    }

    def __init__(self, *args, covariance="full", **kwargs):
        super().__init__(*args, **kwargs)
        if covariance not in ("full", "diagonal"):
            raise ValueError(
                '`covariance` should be "full" or "diagonal". '
                f"Received: covariance={covariance!r}"
            )
        self.covariance = covariance

    def build(self, input_shape):
        """Builds the layer."""
        if self.covariance == "full" and len(input_shape) != 2:
            raise ValueError(
                f"{type(self).__name__} has covariances between the features of inputs "
                "of rank two. Flatten the inputs by `FlattenMomentPropagation`, or "
                'give `covariance="diagonal"`. '
                f"Received: input_shape={tuple(input_shape)}"
            )
        super().build(input_shape)

    def _passed(self, product, kernel, mean, covariance):
        if covariance is None or self.covariance == "diagonal":
            return super()._passed(product, kernel, mean, covariance)
        if moments.is_full(mean, covariance):
            half = covariance @ kernel
        else:
            half = covariance[..., None] * kernel
        return ops.swapaxes(half, -1, -2) @ kernel

    def get_config(self):
        """Returns the config of the layer, and what is ours."""
        return {**super().get_config(), "covariance": self.covariance}


@twin
class DenseMomentPropagation(_WithCovariance, keras.layers.Dense):
    """`keras.layers.Dense` that propagates mean and covariance of its inputs.

    `[batch, inputs] -> [batch, units]`: a random variable with the distribution
    `MultivariateNormalFullCovariance`; or `Normal`, where its elements are independent
    (known inputs) or are taken for it (`covariance="diagonal"`). See
    `bl.layers.MomentPropagation` for the formulas and what is approximate.

    Example:
    >>> model = keras.Sequential([
    ...     keras.Input((3,)),
    ...     bl.layers.DenseMomentPropagation(8, activation="relu"),
    ...     bl.layers.DenseMomentPropagation(1),
    ...     bl.layers.GaussianLikelihood(),
    ... ])
    >>> y = model(np.ones((4, 3)))
    >>> ops.shape(y.mean()), ops.shape(y.stddev())
    ((4, 1), (4, 1))
    """


@twin
class Conv2DMomentPropagation(MomentPropagation, keras.layers.Conv2D):
    """`keras.layers.Conv2D` that propagates mean and variance of its inputs.

    It returns a random variable with the distribution `Normal`, a mean and a variance
    for each position and channel. Variances are exact for inputs whose elements are
    independent; the covariances of its outputs, of which neighbours have some, are
    dropped. See `bl.layers.MomentPropagation`.

    Example:
    >>> layer = bl.layers.Conv2DMomentPropagation(4, 3, activation="relu")
    >>> y = layer(np.ones((2, 8, 8, 3)))
    >>> ops.shape(y.mean()), ops.shape(y.variance())
    ((2, 6, 6, 4), (2, 6, 6, 4))
    """


# Layers without weights.


class _LinearMoments(_MomentLayer):
    """Base of the layers that take moments through a fixed linear map of Keras."""

    def call(self, inputs):
        """Returns the moments, or a tensor for a tensor."""
        if not isinstance(inputs, RandomVariable):
            return super().call(inputs)
        mean, covariance = moments.moments_of(inputs, self)
        if moments.is_full(mean, covariance):
            return inputs  # Of rank two: there is nothing to flatten.
        variance = super().call(covariance) * self.variance_factor(mean)
        return moments.variable(super().call(mean), variance, self.name)

    def variance_factor(self, mean):
        """What the map of the variances is multiplied by."""
        return 1.0


@register
class FlattenMomentPropagation(_LinearMoments, keras.layers.Flatten):
    """`keras.layers.Flatten` for mean and variance.

    Args:
        data_format: As in `keras.layers.Flatten`.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.FlattenMomentPropagation()
    >>> y = layer(bl.Normal(np.zeros((2, 3, 4)), 1.0))
    >>> ops.shape(y.mean())
    (2, 12)
    """

    def __init__(self, data_format=None, **kwargs):
        super().__init__(data_format=data_format, **kwargs)


@register
class AveragePooling2DMomentPropagation(_LinearMoments, keras.layers.AveragePooling2D):
    """`keras.layers.AveragePooling2D` for mean and variance.

    The mean over n elements of a window, taken for independent, has 1 / n of their
    mean variance. Maxima have no such rule: there is no max pooling of moments.

    Args:
        pool_size: As in `keras.layers.AveragePooling2D`.
        strides: As there.
        padding: `"valid"`: with others, windows at the border have fewer elements.
        data_format: As there.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.AveragePooling2DMomentPropagation(2)
    >>> y = layer(bl.Normal(np.zeros((2, 4, 4, 3)), 1.0))
    >>> ops.shape(y.mean()), round(float(y.variance()[0, 0, 0, 0]), 4)
    ((2, 2, 2, 3), 0.25)
    """

    def __init__(
        self, pool_size=2, strides=None, padding="valid", data_format=None, **kwargs
    ):
        if padding != "valid":
            raise ValueError(
                'AveragePooling2DMomentPropagation needs `padding="valid"`. '
                f"Received: padding={padding!r}"
            )
        super().__init__(
            pool_size=pool_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            **kwargs,
        )

    def variance_factor(self, mean):
        """One over the number of elements of a window."""
        return 1.0 / math.prod(self.pool_size)


@register
class GlobalAveragePooling2DMomentPropagation(
    _LinearMoments, keras.layers.GlobalAveragePooling2D
):
    """`keras.layers.GlobalAveragePooling2D` for mean and variance.

    Positions are taken for independent, as in `AveragePooling2DMomentPropagation`.

    Args:
        data_format: As in `keras.layers.GlobalAveragePooling2D`.
        keepdims: As there.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.GlobalAveragePooling2DMomentPropagation()
    >>> y = layer(bl.Normal(np.zeros((2, 4, 4, 3)), 1.0))
    >>> ops.shape(y.mean()), round(float(y.variance()[0, 0]), 4)
    ((2, 3), 0.0625)
    """

    def __init__(self, data_format=None, keepdims=False, **kwargs):  # noqa: FBT002
        super().__init__(data_format=data_format, keepdims=keepdims, **kwargs)

    def variance_factor(self, mean):
        """One over the number of positions."""
        axes = (2, 3) if self.data_format == "channels_first" else (1, 2)
        return 1.0 / math.prod(ops.shape(mean)[axis] for axis in axes)


@twin
class DropoutMomentPropagation(MonteCarlo, _MomentLayer, keras.layers.Dropout):
    """Dropout whose noise is integrated: mean and variance in place of masks.

    y = x * m / (1 - rate), with m = 0 with probability `rate`, 1 otherwise, has the
    mean of x and the variance (Var x + rate (E x)^2) / (1 - rate); covariances stay. It
    drops in inference too, as `bl.layers.MonteCarloDropout` does, and is that within
    `bl.weights` and `bl.predict`.

    Example:
    >>> layer = bl.layers.DropoutMomentPropagation(0.5)
    >>> y = layer(np.ones((2, 3)))
    >>> round(float(y.mean()[0, 0]), 4), round(float(y.variance()[0, 0]), 4)
    (1.0, 1.0)
    """

    estimator = MomentPropagation

    @classmethod
    def _standardize_arguments(cls, arguments):
        """Returns the arguments; each element has a factor of its own."""
        if arguments["noise_shape"] is not None:
            raise ValueError(
                f"{cls.__name__} has a factor for each element, and no `noise_shape`. "
                f"Received: noise_shape={arguments['noise_shape']}"
            )
        return super()._standardize_arguments(arguments)

    def estimate(self, call, inputs, training=None):
        """Returns a random variable, or a tensor if the mask is held."""
        mask = self.random_weights["mask"]
        is_held = mask.is_wanted()
        if is_held and not isinstance(inputs, RandomVariable):
            return super().estimate(call, inputs, training=training)
        mean, covariance = moments.moments_of(inputs, self)
        if is_held:
            factors = self._scale * mask.draw()[None]
            if moments.is_full(mean, covariance):
                outer = factors[..., :, None] * factors[..., None, :]
                covariance = covariance * outer
            else:
                covariance = covariance * ops.square(factors)
            return moments.variable(mean * factors, covariance, self.name)
        variance = 0.0 if covariance is None else moments.variance_of(mean, covariance)
        variance = self._scale * (variance + self.rate * ops.square(mean))
        covariance = moments.with_variance(covariance, variance)
        return moments.variable(mean, covariance, self.name)
