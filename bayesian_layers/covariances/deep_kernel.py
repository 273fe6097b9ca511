"""Covariances of what a network makes of the inputs."""

import keras
from keras import ops

from bayesian_layers.covariances.covariance import Covariance, register
from bayesian_layers.covariances.identifiers import get
from bayesian_layers.covariances.one_draw import one_draw


@register
class DeepKernel(Covariance):
    """A covariance of features that a network learns: k(x, z) = g(h(x), h(z)).

    The network trains with the hyperparameters of g. It may be Bayesian: then each call
    is for one draw of its weights; see also `bl.covariances.one_draw`.

    Args:
        network: A Keras layer or model h, from `[rows, D]` to `[rows, features]`.
        covariance: The covariance g, as `bl.covariances.get` takes it.
        **kwargs: `active_dims`, and all else of `bl.covariances.Covariance` but
            `batch_shape` and `fixed`, which belong to `covariance`.

    Example:
    >>> network = keras.Sequential([keras.layers.Dense(8, "tanh")])
    >>> cov = bl.covariances.DeepKernel(network, bl.covariances.Matern52(ard=True))
    >>> ops.shape(cov(np.ones((4, 3)), np.ones((5, 3))))
    (4, 5)
    >>> ops.shape(cov.hyperparameters()["lengthscale"])
    (8,)

    Reference: Wilson, Hu, Salakhutdinov and Xing (2016), Deep kernel learning.
    """

    def __init__(self, network, covariance, **kwargs):
        covariance = get(covariance)
        super().__init__(batch_shape=covariance.batch_shape, fixed=(), **kwargs)
        if not isinstance(network, keras.Layer):
            raise ValueError(
                "`network` should be a Keras layer or model. "
                f"Received: network={network!r}"
            )
        self.network = network
        self.covariance = covariance

    def build(self, input_shape):
        """Builds the network and the covariance."""
        super().build(input_shape)
        shape = (None, self.num_dims)
        if not self.network.built:
            self.network.build(shape)
        shape = self.network.compute_output_shape(shape)
        if len(shape) != 2:
            raise ValueError(
                "`network` should return one row of features for each row of inputs. "
                f"Received: outputs of shape {shape}"
            )
        if not self.covariance.built:
            self.covariance.build(shape)

    def hyperparameters(self):
        """Returns those of the covariance of the features."""
        with self._scope():
            return self.covariance.hyperparameters()

    def _embedded(self, x):
        """The features of all rows: the network sees no batch axes."""
        *batch, columns = ops.shape(x)
        features = self.network(ops.reshape(x, (-1, columns)))
        return ops.reshape(features, (*batch, features.shape[-1]))

    def matrix(self, x, z):
        """Returns the matrix of the features."""
        with one_draw(self.network):
            x = self._embedded(x)
            z = None if z is None else self._embedded(z)
        return self.covariance(x, z)

    def variances(self, x):
        """Returns the diagonal of the features."""
        return self.covariance.diagonal(self._embedded(x))

    @property
    def has_random_features(self):
        """Whether the covariance of the features has them."""
        return self.covariance.has_random_features

    def features(self, num_features, seed):
        """Returns random features of the network's."""
        phi = self.covariance.random_features(num_features, seed)
        return lambda x: phi(self._embedded(x))

    def get_config(self):
        """Returns the constructor's arguments."""
        config = super().get_config()
        del config["batch_shape"], config["fixed"]
        return {
            **config,
            "network": keras.saving.serialize_keras_object(self.network),
            "covariance": keras.saving.serialize_keras_object(self.covariance),
        }

    @classmethod
    def from_config(cls, config):
        """Makes a covariance from what `get_config` returned."""
        network = keras.saving.deserialize_keras_object(config["network"])
        return cls(**{**config, "network": network})

    def __repr__(self):
        return f"DeepKernel({self.network.name!r}, {self.covariance!r})"
