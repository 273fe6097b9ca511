"""Functions of random features whose frequencies have a distribution that is learnt."""

import keras
from keras import ops

from bayesian_layers import initializers, regularizers
from bayesian_layers.layers.functions.fourier_features import FourierFeatures
from bayesian_layers.layers.register import register


@register
class RandomFourierFeatures(FourierFeatures):
    """A Gaussian process, approximated by a layer with two random weights.

    f(x) = phi(x) @ W,
    phi(x) = amplitude sqrt(2 / F) cos(x / lengthscale @ (s * Omega) + b)

    With standard normal Omega `[D, F]` and W `[F, units]`, and phases b uniform over a
    turn, f is a draw of the Gaussian process of the covariance as F grows; s are the
    scales of its frequencies, 1 for `ExponentiatedQuadratic`. These standard normal
    distributions are the priors of the two weights. Their posteriors are learnt, and
    their KLs are in `losses`, as in any layer with random weights: see `bl.scale_kl`.
    Each call draws one function; `bl.weights` holds it. Layers of this kind one after
    another are a deep Gaussian process.

    The scales s and the phases b are drawn when the layer is built, and kept. A
    hyperparameter of the shape of the covariance, such as that of `RationalQuadratic`,
    says how s is drawn and does not train here; amplitude and lengthscale do.

    At the start the mean of the projection Omega is a draw from its prior, with a
    narrow posterior around it: the functions start as those of fixed random features.
    Of its KL, the part that comes from the mean is on average what a posterior equal to
    the prior has.

    Args:
        units: The number of functions.
        num_features: The number F of features. Defaults to 128.
        covariance_fn: A covariance of distances, or its name. Defaults to
            `bl.covariances.ExponentiatedQuadratic()`, with a trained amplitude and
            lengthscale of 1 at the start.
        projection_initializer: The distribution over Omega, a
            `bl.initializers.Posterior` or its name, whose mean starts at standard
            normal noise. An initializer of Keras makes it one value; such as
            `keras.initializers.RandomNormal(stddev=1.0)`, with a regularizer of `None`.
        projection_regularizer: The KL of that distribution from a prior. Defaults to
            `"normal_kl_divergence"`, the standard normal one.
        kernel_initializer: The distribution over W, likewise; its mean starts at
            Glorot's uniform noise.
        kernel_regularizer: The KL of that distribution from a prior.
        train_projection: Whether Omega trains. Defaults to `True`.
        seed: Integer seed of draws, and of what is drawn once. Defaults to a random
            one.
        **kwargs: `kl_scale`, and those of `keras.Layer`.

    Shapes: `[..., D]` to `[..., units]`.

    Example:
    >>> layer = bl.layers.RandomFourierFeatures(2, num_features=50, seed=1)
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 2)
    >>> list(layer.random_weights), len(layer.losses)
    (['projection', 'kernel'], 2)

    Reference: Cutajar et al. (2017), Random feature expansions for deep Gaussian
    processes.
    """

    def __init__(
        self,
        units,
        num_features=128,
        covariance_fn=None,
        projection_initializer="trainable_normal_fan_in",
        projection_regularizer="normal_kl_divergence",
        kernel_initializer="trainable_normal",
        kernel_regularizer="normal_kl_divergence",
        *,
        train_projection=True,
        **kwargs,
    ):
        if covariance_fn is None:
            covariance_fn = "exponentiated_quadratic"
        super().__init__(units, num_features, covariance_fn, **kwargs)
        self.projection_initializer = initializers.get(projection_initializer)
        self.projection_regularizer = regularizers.get(projection_regularizer)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.train_projection = bool(train_projection)

    def build(self, input_shape):
        """Makes the weights."""
        super().build(input_shape)
        self.projection = self.add_weight(
            self._projection_shape,
            _starting_at(self.projection_initializer, self._standard_normal()),
            name="projection",
            regularizer=self.projection_regularizer,
            trainable=self.train_projection,
            dtype=self.precision,
            autocast=False,
        )
        self.kernel = self.add_weight(
            (self.num_features, self.units),
            self.kernel_initializer,
            name="kernel",
            regularizer=self.kernel_regularizer,
            dtype=self.precision,
            autocast=False,
        )

    def _read(self, name):
        if name in self.random_weights:
            return ops.cast(self.random_weights[name].draw(), self.precision)
        return ops.convert_to_tensor(getattr(self, name))

    def call(self, inputs):
        """Returns values of the functions of one draw."""
        features = self.features(inputs, self._read("projection"))
        outputs = ops.matmul(features, self._read("kernel"))
        return ops.cast(outputs, self.compute_dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "projection_initializer": serialize(self.projection_initializer),
            "projection_regularizer": serialize(self.projection_regularizer),
            "kernel_initializer": serialize(self.kernel_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "train_projection": self.train_projection,
        }


def _starting_at(initializer, location):
    """A posterior with its mean there, unless it says where; others as they are."""
    if isinstance(initializer, initializers.Posterior):
        return initializer.with_default(location)
    return initializer
