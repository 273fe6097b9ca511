"""The precision of Laplace heads during training."""

import keras

from bayesian_layers.keras_contact import flatten_layers
from bayesian_layers.layers import RandomFeatureGaussianProcess


@keras.saving.register_keras_serializable("bayesian_layers.callbacks")
class ResetPrecision(keras.callbacks.Callback):
    """Lets each example count once in `RandomFeatureGaussianProcess` layers.

    These layers add up the information in the examples of training. At the start of
    each epoch the sum is reset, so that at its end it is that of the epoch: of all
    examples, each with the weights of the model when it was seen. Before validation,
    evaluation and prediction, and after `fit`, the covariance is computed once; in
    `evaluate` and `predict` only if something has changed since.

    The precision after `fit` is that of the last epoch. If that was cut short
    (`steps_per_epoch`, an interruption), it knows of fewer examples; if weights of an
    earlier epoch are restored afterwards (`EarlyStopping(restore_best_weights=True)`),
    the precision of that epoch comes with them.

    Example:
    >>> head = bl.layers.RandomFeatureGaussianProcess(
    ...     1, 16, likelihood="gaussian", noise_variance=0.5, seed=1
    ... )
    >>> model = keras.Sequential([keras.Input((2,)), head])
    >>> model.compile("sgd", "mse")
    >>> bl.scale_kl(model, dataset_size=32)
    >>> x, y = np.ones((32, 2)), np.ones((32, 1))
    >>> history = model.fit(
    ...     x, y, epochs=2, verbose=0, callbacks=[bl.callbacks.ResetPrecision()]
    ... )
    >>> phi = ops.convert_to_numpy(head.features(x[:1], head.projection))
    >>> expected = 32 / 0.5 * phi.T @ phi
    >>> bool(np.allclose(ops.convert_to_numpy(head.information), expected, atol=1e-4))
    True
    """

    def _layers(self):
        layers = [
            layer
            for layer in flatten_layers(self.model)
            if isinstance(layer, RandomFeatureGaussianProcess)
        ]
        if not layers:
            raise ValueError(
                "ResetPrecision expects a model with "
                "`bl.layers.RandomFeatureGaussianProcess` layers. "
                f"Received: {self.model!r} with none."
            )
        return [layer for layer in layers if layer.built]

    def _update(self):
        for layer in self._layers():
            layer.update_covariance()

    def on_epoch_begin(self, epoch, logs=None):
        """Resets the precision."""
        for layer in self._layers():
            layer.reset_precision()

    def on_test_begin(self, logs=None):
        """Computes the covariance."""
        self._update()

    def on_predict_begin(self, logs=None):
        """Computes the covariance."""
        self._update()

    def on_train_end(self, logs=None):
        """Computes the covariance."""
        self._update()

    def get_config(self):
        """Returns the constructor's arguments: none."""
        return {}

    @classmethod
    def from_config(cls, config):
        """Makes a callback from what `get_config` returned."""
        return cls(**config)
