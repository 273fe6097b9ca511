"""Concrete dropout: a rate that is learnt."""

import math

import keras
from keras import ops

from bayesian_layers.distributions import Bernoulli
from bayesian_layers.initializers import Posterior
from bayesian_layers.layers.weights.masks import Mask
from bayesian_layers.layers.weights.twins import Twin, twin
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.substitution import call_with


class ConcreteDropout(Twin, RandomWeights):
    """Drops the inputs of a linear layer at a rate that is trained with its kernel.

    f(x) = activation(product(x * m / (1 - p), kernel) + bias), with m = 0 with
    probability p, 1 otherwise, for each of the K input features. It stands for a
    distribution over kernels: a row is kernel[k] / (1 - p) with probability 1 - p, and
    zero otherwise. Its divergence from the prior Normal(0, `prior_stddev`) is, up to a
    constant,

        KL = |kernel|^2 / (2 prior_stddev^2 (1 - p)) - K H(p),

    where H(p) = -p log p - (1 - p) log(1 - p) is the entropy of one factor, in nats.
    It is in `losses` like that of any random weight, and `bl.scale_kl` divides it by
    the number of examples.

    A call draws m for each example; positions in space or time share it. It draws from
    the concrete distribution, m = sigmoid((logit(1 - p) + logistic noise) /
    temperature), which has a gradient for p. Where something asks for one mask
    (`bl.weights`, `bl.predict`, `bl.tape`) it is one of zeros and ones for all
    examples; within `bl.weights(model, "mean")` nothing is dropped.

    Reference: Gal, Hron and Kendall (2017), Concrete dropout, equations 2 to 5.
    """

    is_estimator = True
    known_weights = ("bias", "kernel")
    own_arguments = {
        "initial_rate": (0.1, "The rate p that training starts at. Defaults to 0.1."),
        "prior_stddev": (
            1.0,
            "The standard deviation of the prior of the kernel. Defaults to 1.",
        ),
        "temperature": (
            0.1,
            "The temperature of the concrete distribution: the closer to zero, the "
            "closer are its draws to zeros and ones, and the noisier the gradient of "
            "the rate. Defaults to 0.1, that of the paper.",
        ),
    }

    def __init__(
        self, *args, initial_rate=0.1, prior_stddev=1.0, temperature=0.1, **kwargs
    ):
        super().__init__(*args, **kwargs)
        if not 0.0 < initial_rate < 1.0:
            raise ValueError(
                "`initial_rate` should be above 0 and below 1. "
                f"Received: initial_rate={initial_rate}"
            )
        for name, value in (
            ("prior_stddev", prior_stddev),
            ("temperature", temperature),
        ):
            if not value > 0.0:
                raise ValueError(f"`{name}` should be positive. Received: {value}")
        # A posterior brings its prior along, and is refused when it is built.
        is_random = isinstance(getattr(self, "kernel_initializer", None), Posterior)
        if getattr(self, "kernel_regularizer", None) is not None and not is_random:
            raise ValueError(
                f"The kernel of {type(self).__name__} has a prior, whose penalty "
                "depends on the rate: give `prior_stddev` in place of "
                f"`kernel_regularizer`. Received: {self.kernel_regularizer}"
            )
        self.initial_rate = initial_rate
        self.prior_stddev = prior_stddev
        self.temperature = temperature

    def _is_random_by_default(self, name, dtype, kwargs):
        return False

    def _check_posterior(self, weight):
        if weight.name == "kernel":
            raise ValueError(
                f"{type(self).__name__} needs a kernel that is one value: its rows are "
                "random by being dropped. Received: a posterior of "
                f"{type(weight.posterior).__name__} for 'kernel'."
            )

    def build(self, input_shape):
        """Builds the layer, and its rate."""
        super().build(input_shape)
        self._channel_axis = (
            1
            if getattr(self, "data_format", None) == "channels_first"
            else len(input_shape) - 1
        )
        self._num_features = input_shape[self._channel_axis]
        start = math.log(self.initial_rate / (1.0 - self.initial_rate))
        # Not by our own `add_weight`: a deterministic layer does not have it.
        self.rate_logit = super(RandomWeights, self).add_weight(
            name="rate_logit",
            shape=(),
            initializer=keras.initializers.Constant(start),
            dtype="float32",
            autocast=False,
        )
        mask = _Mask(
            self, self._factors, {"rate_logit": self.rate_logit}, self._divergence
        )
        mask.kernel = next(v for v in self._layer_weights if v.name == "kernel")
        self.random_weights["mask"] = mask
        self._add_kl_scale()

    @property
    def rate(self):
        """The rate p as it is now, a scalar tensor."""
        return ops.sigmoid(ops.convert_to_tensor(self.rate_logit))

    def _factors(self):
        logits = -ops.convert_to_tensor(self.rate_logit)
        logits = ops.broadcast_to(logits, (self._num_features,))
        return Bernoulli.rebuild({"logits": logits, "probs": None, "dtype": "float32"})

    def _divergence(self, mask):
        """The divergence of the kernel that is dropped by a random mask."""
        kernel = ops.cast(ops.convert_to_tensor(self.kernel), "float32")
        inverse = 1.0 + ops.exp(ops.convert_to_tensor(self.rate_logit))  # 1 / (1 - p)
        penalty = 0.5 * inverse * ops.sum(ops.square(kernel)) / self.prior_stddev**2
        return penalty - ops.sum(mask.entropy())

    def estimate(self, call, inputs, *args, **kwargs):
        """Returns the outputs for inputs of which some are dropped."""
        mask = self.random_weights["mask"]
        shape = [1] * len(inputs.shape)
        shape[self._channel_axis] = self._num_features
        if mask.is_wanted():
            factors = ops.reshape(mask.draw(), shape)
        else:
            shape[0] = ops.shape(inputs)[0]
            factors = self._concrete(shape)
        factors = factors / (1.0 - self.rate)
        inputs = inputs * ops.cast(factors, inputs.dtype)
        values = self.draw_weights(names=set(self.random_weights) - {"mask"})
        return call_with(self, call, (inputs, *args), kwargs, values)

    def _concrete(self, shape):
        """Draws that have a gradient, one for each example and feature."""
        tiny = 1e-6  # The paper's; the logarithms of 0 and 1 are out of reach.
        u = keras.random.uniform(shape, tiny, 1.0 - tiny, seed=self.draw_seed_generator)
        noise = ops.log(u) - ops.log1p(-u)
        logits = -ops.convert_to_tensor(self.rate_logit)
        return ops.sigmoid((logits + noise) / self.temperature)

    def get_config(self):
        """Returns the config of the layer, and what is ours."""
        names = ("initial_rate", "prior_stddev", "temperature")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


class _Mask(Mask):
    """The mask, whose divergence depends on the kernel as well."""

    kernel = None

    def is_trainable(self):
        """Whether the rate or the kernel is trained."""
        return super().is_trainable() or self.kernel.trainable


@twin
class DenseConcreteDropout(ConcreteDropout, keras.layers.Dense):
    """`keras.layers.Dense` whose inputs are dropped at a rate that is trained.

    f(x) = activation((x * m / (1 - p)) @ kernel + bias), with a factor m of 0 or 1 for
    each example and input feature; positions of an example share it. For the
    divergence see `bl.layers.ConcreteDropout`.

    Example:
    >>> layer = bl.layers.DenseConcreteDropout(4, activation="relu")
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    >>> round(float(ops.convert_to_numpy(layer.rate)), 4), len(layer.losses)
    (0.1, 1)
    """


@twin
class Conv1DConcreteDropout(ConcreteDropout, keras.layers.Conv1D):
    """`keras.layers.Conv1D` whose input channels are dropped at a trained rate.

    Example:
    >>> layer = bl.layers.Conv1DConcreteDropout(4, 3, padding="causal")
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 8, 4)
    """


@twin
class Conv2DConcreteDropout(ConcreteDropout, keras.layers.Conv2D):
    """`keras.layers.Conv2D` whose input channels are dropped at a trained rate.

    Example:
    >>> layer = bl.layers.Conv2DConcreteDropout(4, 3, padding="same")
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 8, 8, 4)
    """


@twin
class Conv3DConcreteDropout(ConcreteDropout, keras.layers.Conv3D):
    """`keras.layers.Conv3D` whose input channels are dropped at a trained rate.

    Example:
    >>> layer = bl.layers.Conv3DConcreteDropout(4, 2)
    >>> ops.shape(layer(np.ones((2, 5, 5, 5, 3))))
    (2, 4, 4, 4, 4)
    """
