"""The base of what is fitted to the predictions of a model."""

import keras
import numpy as np

from bayesian_layers.calibrate.predictions import has_random_draws
from bayesian_layers.prediction import Prediction, predict

register = keras.saving.register_keras_serializable("bayesian_layers.calibrate")


class Calibrator:
    """Base of what is fitted to predictions of held-out data.

    A subclass fills `_fitted`, a dictionary of what it found, of plain numbers and
    lists: the config keeps it.

    Args:
        model: What `bl.predict` takes for a model, or `None`: then predictions are
            given in the place of inputs.
        num_samples: The number of draws of the weights, or `None`.
        seed: Integer: which draws, or `None`.
    """

    store_samples = False  # Whether the predictions are needed draw by draw.
    from_logits = None

    def __init__(self, model, num_samples, seed):
        self.model = model
        self.num_samples = num_samples
        # All predictions are by the same draws: they are those of one function.
        self.seed = int(np.random.randint(2**31) if seed is None else seed)
        self._fitted = None

    @property
    def model(self):
        """The model, which may be set: a config does not hold it."""
        return self._model

    @model.setter
    def model(self, model):
        models = model if isinstance(model, (list, tuple)) else [model]
        if model is not None and not all(isinstance(m, keras.Model) for m in models):
            raise TypeError(
                "Expected a `keras.Model`, a list of such, or `None`. "
                f"Received: {model!r}"
            )
        self._model = model

    def get_config(self):
        """Returns the constructor's arguments but the model, and what was fitted."""
        return {
            "num_samples": self.num_samples,
            "seed": self.seed,
            "fitted": self._fitted,
        }

    @classmethod
    def from_config(cls, config):
        """Returns an object without a model, from what `get_config` returned."""
        arguments = dict(config)
        fitted = arguments.pop("fitted", None)
        calibrator = cls(**arguments)
        calibrator._fitted = fitted
        return calibrator

    def _fitted_value(self, name):
        if self._fitted is None:
            raise ValueError(
                f"This {type(self).__name__} was not fitted. Call `fit(x, y)` first, "
                "with data that the model was not trained on."
            )
        return self._fitted[name]

    def _predict(self, x, batch_size, verbose):
        """The `Prediction` of x, which may be one already."""
        if isinstance(x, Prediction):
            return x
        if self.model is None:
            raise ValueError(
                "Without a model a `bl.Prediction` is expected in the place of x. "
                f"Received: model=None, x={x!r}"
            )
        count = self.num_samples
        if count is None and not has_random_draws(self.model):
            count = 1
        prediction = predict(
            self.model,
            x,
            count,
            batch_size,
            seed=self.seed,
            store_samples=self.store_samples,
            from_logits=self.from_logits,
            verbose=verbose,
        )
        if not isinstance(prediction, Prediction):
            raise ValueError(
                "Expected a model with one output. Give one of the predictions that "
                f"`bl.predict(model, x)` returns. Received: {prediction}"
            )
        return prediction
