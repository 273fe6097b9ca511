"""Draws of the weights that a sampling optimizer passes through."""

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import Deterministic
from bayesian_layers.draws import Draws
from bayesian_layers.keras_contact import flatten_layers
from bayesian_layers.random_weights.kl import random_weights


@keras.saving.register_keras_serializable("bayesian_layers.callbacks")
class CollectDraws(keras.callbacks.Callback):
    """Keeps the weights of a model, now and then, as draws from their posterior.

    For training by `bl.optimizers.SGLD` or `SGHMC`. What is kept are all weights but
    those of frozen layers, in the memory of the host. A second `fit` with the same
    callback adds its draws to the same chain, without another burn-in.

    Args:
        burn_in: The number of steps (batches) before the first draw, while the weights
            are on their way.
        every: The number of steps from one draw to the next; neighbouring ones are
            alike.
        max_draws: The number of draws after which no more are kept, or `None`.

    Attributes:
        draws: The `bl.Draws`, one chain of arrays `[1, draws, ...]` by the paths of the
            weights: for `bl.predict(model, x, draws=callback.draws)`.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> model.compile(bl.optimizers.SGLD(0.01, dataset_size=64), "mse")
    >>> callback = bl.callbacks.CollectDraws(burn_in=4, every=2)
    >>> x, y = np.ones((64, 3)), np.ones(64)
    >>> history = model.fit(
    ...     x, y, batch_size=16, epochs=4, verbose=0, callbacks=[callback]
    ... )
    >>> callback.draws.num_draws, [name.split("/")[-1] for name in callback.draws]
    (6, ['kernel', 'bias'])
    """

    def __init__(self, burn_in=0, every=1, max_draws=None):
        super().__init__()
        for name, value, least in (
            ("burn_in", burn_in, 0),
            ("every", every, 1),
            ("max_draws", 1 if max_draws is None else max_draws, 1),
        ):
            if not (isinstance(value, int) and value >= least):
                raise ValueError(
                    f"`{name}` should be an integer of at least {least}. "
                    f"Received: {name}={value!r}"
                )
        self.burn_in = burn_in
        self.every = every
        self.max_draws = max_draws
        self._step = 0  # How many are done, in all trainings.
        self._batch = -1
        self._positions = {}
        self._kept = []

    @property
    def draws(self):
        """The draws so far."""
        if not self._kept:
            raise ValueError(
                "There are no draws: train a model with this callback, for more than "
                f"burn_in={self.burn_in} + every={self.every} steps. Received: "
                f"{self._step} steps"
            )
        columns = [np.stack(column)[None] for column in zip(*self._kept, strict=True)]
        values = dict(zip(self._positions, columns, strict=True))
        return Draws(values, kind="weights", positions=self._positions)

    def on_train_begin(self, logs=None):
        """Finds the weights to keep."""
        model = self.model
        _check_points(model)
        frozen = {
            id(variable)
            for layer in flatten_layers(model)
            if not layer.trainable
            for variable in layer.variables
        }
        positions = {}
        for position, variable in enumerate(model.weights):
            if id(variable) not in frozen:
                path = variable.path
                unique = f"{path}_{position}" if path in positions else path
                positions[unique] = position
        if self._kept and positions != self._positions:
            raise ValueError(
                "The callback has draws of other weights: use a new one for another "
                f"model. Received: weights {list(positions)} after "
                f"{list(self._positions)}"
            )
        self._positions = positions

    def on_epoch_begin(self, epoch, logs=None):
        """Counts batches anew."""
        self._batch = -1

    def on_train_batch_end(self, batch, logs=None):
        """Keeps the weights, if it is time."""
        # Several at once with `steps_per_execution`.
        before, self._step = self._step, self._step + batch - self._batch
        self._batch = batch
        due = (
            max(step - self.burn_in, 0) // self.every for step in (before, self._step)
        )
        if next(due) == next(due) or len(self._kept) == self.max_draws:
            return
        weights = self.model.weights
        self._kept.append(
            # A copy: the memory of the variable may be used again.
            [
                np.array(ops.convert_to_numpy(weights[p]))
                for p in self._positions.values()
            ]
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            "burn_in": self.burn_in,
            "every": self.every,
            "max_draws": self.max_draws,
        }

    @classmethod
    def from_config(cls, config):
        """Makes a callback from what `get_config` returned."""
        return cls(**config)


def _check_points(model):
    """Raises `ValueError` if what is trained are parameters of distributions."""
    random = [
        f"{weight.layer.name}/{weight.name}"
        for weight in random_weights(model)
        if weight.is_trainable() and not isinstance(weight.posterior, Deterministic)
    ]
    if random:
        raise ValueError(
            "CollectDraws is for weights that are points: each draw of a point is one "
            f"of the posterior. Received: a model with distributions over {random}, "
            "whose parameters would be drawn instead. Use Keras' layers, or "
            '`kernel_initializer="trainable_deterministic"`; or draw the weights of '
            "the model as it is by `bl.mcmc`."
        )
