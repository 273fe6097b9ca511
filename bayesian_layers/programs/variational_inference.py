"""Guides that are trained by Keras' optimizers."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from bayesian_layers import backend, seeds
from bayesian_layers.programs.bound import run_symbolically
from bayesian_layers.programs.elbo import Objective


class VariationalInference(keras.Model):
    """Trains a guide, and what is to be learned in the model, by the evidence bound.

    It is a Keras model whose loss is the negative of `bl.elbo`, and trains like any:
    `compile` with an optimizer, then `fit`, which shows a progress bar, takes callbacks
    and returns a history. Each step sees all data. All trainable variables that the two
    programs read are trained; those of the model, such as biases of its layers, by the
    same bound (empirical Bayes). Set `trainable = False` for what is to stay.

    Args:
        model: The model, as in `bl.elbo`.
        guide: The guide, as in `bl.elbo`.
        data: The data, as in `bl.elbo`.
        num_particles: The number of draws in each step. Defaults to 1; take more, 8
            say, if the guide has discrete variables.
        likelihood: As in `bl.elbo`.
        seed: Integer seed of the draws. Defaults to a random one.
        **kwargs: As in `keras.Model`.

    Example:
    >>> def model():
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     return bl.Normal(w, 1.0, name="y")
    >>> data = {"y": 2.0}
    >>> guide = bl.MeanFieldGuide(model, data)
    >>> inference = bl.VariationalInference(model, guide, data, seed=0)
    >>> inference.compile(keras.optimizers.Adam(0.1))
    >>> history = inference.fit(epochs=2, steps_per_epoch=50, verbose=0)
    >>> history.history["loss"][1] < history.history["loss"][0]
    True
    """

    def __init__(
        self,
        model: Callable,
        guide: Callable | None = None,
        data: Mapping[str, Any] | tuple | None = None,
        *,
        num_particles: int = 1,
        likelihood: Callable | None = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_particles = num_particles
        self.seed_generator = seeds.generator(seed)
        self.supports_jit = backend.compiles_gamma_noise
        self._objective = Objective(model, guide, data, likelihood)
        # It builds layers, and raises if the programs do not fit each other. What they
        # read is known to Keras by being an attribute.
        self._read = run_symbolically(lambda: self._objective(1, 0))
        self.built = True

    def call(self, inputs):
        """Returns the inputs: the programs are run by the loss."""
        return inputs

    def elbo(self, num_particles: int = 1, seed: Any = None) -> Any:
        """Estimates the evidence bound as it is now; see `bl.elbo`."""
        return self._objective(num_particles, seed)

    def compute_loss(self, *args, **kwargs):
        """Returns the negative of the evidence bound."""
        return -self._objective(self.num_particles, self.seed_generator)

    def fit(self, epochs=10, steps_per_epoch=100, verbose="auto", callbacks=None):
        """Trains for `epochs * steps_per_epoch` steps.

        Args:
            epochs: The number of lines in the history and of the progress bar.
            steps_per_epoch: The number of steps of each.
            verbose: As in `keras.Model.fit`.
            callbacks: As in `keras.Model.fit`.

        Returns:
            The `History`: `loss` is the negative evidence bound, averaged over the
            steps of an epoch.
        """
        steps = np.zeros((steps_per_epoch, 1), "float32")
        return super().fit(
            steps,
            batch_size=1,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            shuffle=False,
        )
