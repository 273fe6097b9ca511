"""Temperature scaling of classifiers."""

import numpy as np
from keras import ops

from bayesian_layers.calibrate.calibrator import Calibrator, register
from bayesian_layers.calibrate.scaled_model import (
    LEAST,
    LEAST_FAILURE,
    scaled_model,
)
from bayesian_layers.calibrate.targets import class_labels, is_binary
from bayesian_layers.calibrate.temperature import best_temperature
from bayesian_layers.prediction import Prediction
from bayesian_layers.prediction.moments import Moments, moments_of


@register
class TemperatureScaling(Calibrator):
    """Class probabilities of a trained model, with the right degree of confidence.

    p(y = k | x) = mean_s softmax(logits_s(x) / T)[k]

    The logits of each draw s of the weights are divided by one temperature T > 0, and
    the probabilities are averaged over draws; a model that is not random has one draw.
    For outputs that are 0 or 1 it is the sigmoid. T is that of the least negative
    log-likelihood of these probabilities on held-out data: above 1 for a model that was
    too sure. With one draw the most probable class, and so the accuracy, stays the
    same. Of probabilities the logits are their logarithms, or log(p / (1 - p)) for 0 or
    1; those that were rounded to 0 are taken for the smallest normal number of float32,
    so that in half precision logits are the better outputs.

    For plain classifiers, for heads `bl.layers.Categorical`, `OneHotCategorical` and
    `Bernoulli`, and for Bayesian models. Several outputs, or steps of a sequence, have
    one temperature, and count in the likelihood each by itself.

    Args:
        model: A model, or several, as in `bl.predict`. Without one, a `bl.Prediction`
            is given in the place of x.
        from_logits: As in `bl.predict`: for plain outputs `True` if these are logits,
            `False` if they are probabilities.
        num_samples: The number of draws of the weights of a Bayesian model. Defaults
            to that of `bl.predict`, and to one if nothing is random.
        seed: Integer: which draws. Defaults to a random one.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Rescaling(10.0)])
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 3))
    >>> y = np.argmax(x + rng.gumbel(size=x.shape), axis=1)  # P(y) = softmax(x)
    >>> calibrated = bl.calibrate.TemperatureScaling(model, from_logits=True)
    >>> round(calibrated.fit(x, y, verbose=0).temperature)
    10
    >>> calibrated.predict(x, verbose=0).shape
    (1000, 3)

    Reference:
        Guo et al. 2017, On Calibration of Modern Neural Networks.
    """

    store_samples = True

    def __init__(self, model=None, *, from_logits=None, num_samples=None, seed=None):
        super().__init__(model, num_samples, seed)
        self.from_logits = from_logits

    @property
    def temperature(self):
        """T, by which logits are divided."""
        return self._fitted_value("temperature")

    def fit(self, x, y, batch_size=32, verbose="auto"):
        """Finds the temperature from held-out data.

        Args:
            x: Inputs that the model was not trained on, as in `bl.predict`, or their
                `bl.Prediction`.
            y: Their classes: integers, or one-hot vectors.
            batch_size: As in `bl.predict`.
            verbose: As in `bl.predict`.

        Returns:
            The object itself.
        """
        prediction = self._predict(x, batch_size, verbose)
        labels, logits = class_labels(y, prediction), _logits(prediction)
        if is_binary(prediction):
            logits = np.stack([np.zeros_like(logits), logits], axis=-1)
        logits = logits.reshape(len(logits), -1, logits.shape[-1])
        self._fitted = {"temperature": best_temperature(logits, labels.ravel())}
        return self

    def predict(self, x, batch_size=32, verbose="auto"):
        """Returns the class probabilities, averaged over draws.

        Args:
            x: Inputs, as in `bl.predict`, or their `bl.Prediction`.
            batch_size: As in `bl.predict`.
            verbose: As in `bl.predict`.

        Returns:
            An array of the shape of `prediction.probs`: `[examples, classes]`, or
            `[examples, 1]` for 0 or 1.
        """
        return self.scale(self._predict(x, batch_size, verbose)).probs

    def scale(self, prediction):
        """Returns a prediction by the logits of another, divided by the temperature.

        Args:
            prediction: A `bl.Prediction` of a classifier, with its samples.

        Returns:
            A `bl.Prediction`, with probabilities, entropies and all else.
        """
        logits, family = _logits(prediction), type(prediction.distribution)
        logits = (logits / self.temperature).astype(logits.dtype)
        distribution = family(logits=ops.convert_to_tensor(logits))
        moments = moments_of(distribution)
        totals = {
            "mean": ops.convert_to_numpy(ops.mean(moments["mean"], axis=0)),
            "entropy": ops.convert_to_numpy(ops.sum(moments["entropy"], axis=0)),
        }
        moments = Moments(family, prediction.num_samples, totals)
        return Prediction(moments, distribution, prediction.seed)

    def to_keras(self):
        """Returns a plain Keras model of the scaled outputs.

        It gives logits if the model gives logits, and probabilities if not; those of a
        model with a head, too. It is of layers of Keras if the model is, and saved by
        `save("model.keras")`. Its layers are those of the model, or copies if that has
        a head.

        Raises:
            ValueError: If the model is random, or no Sequential or Functional one.
        """
        if self.model is None:
            raise ValueError("Expected a model to scale. Received: model=None")
        return scaled_model(self.model, self.temperature, self.from_logits)

    def get_config(self):
        """Returns the constructor's arguments but the model, and what was fitted."""
        return {**super().get_config(), "from_logits": self.from_logits}


def _logits(prediction):
    """The logits of all draws, an array of finite numbers."""
    binary, logits = is_binary(prediction), prediction.distribution.logits
    if not binary:
        # Of these -inf can be replaced: they are logarithms of probabilities.
        logits = ops.log_softmax(logits, axis=-1)
    logits = ops.convert_to_numpy(logits)
    highest = -np.log(LEAST_FAILURE) if binary else np.inf
    ends = np.where(logits < 0.0, np.log(LEAST), highest)
    logits = np.where(np.isinf(logits), ends, logits).astype(logits.dtype)
    if not np.all(np.isfinite(logits)):
        raise ValueError(
            "Expected finite predictions. Received: logits with "
            f"{np.sum(~np.isfinite(logits))} numbers that are not."
        )
    return logits
