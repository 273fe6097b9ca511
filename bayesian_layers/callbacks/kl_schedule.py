"""The scale of the KL during training."""

import keras
from keras import ops

from bayesian_layers.keras_contact import flatten_layers
from bayesian_layers.random_weights import scale_kl, total_kl
from bayesian_layers.random_weights.kl import check_losses

# The share of the epochs of `fit` over which the weight grows, unless told otherwise.
WARMUP_SHARE = 0.5


@keras.saving.register_keras_serializable("bayesian_layers.callbacks")
class KLSchedule(keras.callbacks.Callback):
    """Scales the KL to the data set, warms it up, and logs it.

    Each layer's penalty is multiplied by weight / dataset_size, where the weight grows
    linearly from `initial_weight` in the first epoch to `final_weight` in epoch
    `warmup_epochs`, and stays there: over the first half of the epochs that `fit` runs,
    unless told otherwise. Nothing is compiled again.

    In validation the KL has its final weight, in all epochs: `val_loss` is the negative
    evidence bound per example throughout, so that `EarlyStopping` and checkpoints
    compare like with like. After `fit`, however early it stops, and in
    `evaluate(callbacks=[...])` the weight is the final one, too.

    It adds `kl` to the logs: the KL of all weights at the end of the epoch, in nats,
    not scaled. A callback that monitors it has to stand after this one. For the other
    part of the loss, `nll` and `val_nll`, compile the model with
    `metrics=[bl.metrics.NegativeLogLikelihood()]`.

    A model without Bayesian layers has no KL: the schedule then does nothing and logs
    nothing, so that a network and its Bayesian twin can share their training code.

    With `fit(initial_epoch=...)` a training goes on where the schedule was: epochs are
    counted from 0, and shares are of `epochs`, as for one `fit` over all of them.

    Args:
        dataset_size: The number N of training examples, that the mean of the loss is
            multiplied by to give the log-likelihood of all data. Losses of Keras
            average over all elements of an output, not over examples: for such a loss
            on outputs of more than one element for each example (steps of a sequence,
            columns of a regression) give the number of elements, examples times
            elements of each.
        warmup_epochs: The number of epochs until the weight is `final_weight`; 0 for
            no warm-up. Defaults to half of the epochs that `fit` runs, rounded down.
        initial_weight: The weight of the KL in the first epoch, if there is a warm-up.
        final_weight: Its weight after that. Other values than 1 give a tempered
            posterior.

    Example:
    >>> model = keras.Sequential([bl.layers.DenseFlipout(8), bl.layers.Normal(1)])
    >>> model.compile(
    ...     "adam",
    ...     bl.losses.NegativeLogLikelihood(),
    ...     metrics=[bl.metrics.NegativeLogLikelihood()],
    ... )
    >>> x, y = np.ones((32, 3)), np.ones(32)
    >>> schedule = bl.callbacks.KLSchedule(dataset_size=len(x))
    >>> history = model.fit(x, y, epochs=3, verbose=0, callbacks=[schedule])
    >>> sorted(history.history)
    ['kl', 'loss', 'nll']
    >>> round(model.layers[0].kl_scale * 32, 4)
    1.0
    """

    def __init__(
        self,
        dataset_size=None,
        warmup_epochs=None,
        initial_weight=0.0,
        final_weight=1.0,
    ):
        super().__init__()
        if dataset_size is None or not dataset_size > 0:
            raise ValueError(
                "`dataset_size` should be the number of training examples: "
                "`bl.callbacks.KLSchedule(dataset_size=len(x_train))`. "
                f"Received: dataset_size={dataset_size}"
            )
        for name, value in {
            "warmup_epochs": 0 if warmup_epochs is None else warmup_epochs,
            "initial_weight": initial_weight,
            "final_weight": final_weight,
        }.items():
            if not value >= 0:
                raise ValueError(
                    f"`{name}` should not be negative. Received: {name}={value}"
                )
        self.dataset_size = dataset_size
        self.warmup_epochs = warmup_epochs
        self.initial_weight = initial_weight
        self.final_weight = final_weight
        self._epoch = None  # The one that is under way in `fit`.
        self._is_checked = False

    def weight(self, epoch, epochs):
        """Returns the weight of the KL in an epoch, counted from 0, of so many."""
        warmup = self.warmup_epochs
        if warmup is None:
            warmup = int(WARMUP_SHARE * epochs)
        if epoch >= warmup:
            return self.final_weight
        part = epoch / warmup
        return self.initial_weight + part * (self.final_weight - self.initial_weight)

    def set_params(self, params):
        """Takes the parameters of a `fit` or `evaluate` that begins."""
        super().set_params(params)
        self._epoch = None  # A `fit` that was interrupted does not tell.

    def on_epoch_begin(self, epoch, logs=None):
        """Sets the weight of the epoch."""
        self._epoch = epoch
        self._scale(self.weight(epoch, self.params["epochs"]))

    def on_test_begin(self, logs=None):
        """Sets the final weight."""
        self._scale(self.final_weight)

    def on_test_end(self, logs=None):
        """Sets the weight of the epoch again, if this was the validation of one."""
        if self._epoch is not None:
            self._scale(self.weight(self._epoch, self.params["epochs"]))

    def on_epoch_end(self, epoch, logs=None):
        """Adds the KL to the logs."""
        if not self._has_kl():
            return
        if not self._is_checked:
            check_losses(self.model)
            self._is_checked = True
        if logs is not None:
            logs["kl"] = float(ops.convert_to_numpy(total_kl(self.model)))

    def on_train_end(self, logs=None):
        """Sets the final weight."""
        self._epoch = None
        self._scale(self.final_weight)

    def _has_kl(self):
        return any(hasattr(layer, "kl_scale") for layer in flatten_layers(self.model))

    def _scale(self, weight):
        if self._has_kl():
            scale_kl(self.model, dataset_size=self.dataset_size, weight=weight)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            "dataset_size": self.dataset_size,
            "warmup_epochs": self.warmup_epochs,
            "initial_weight": self.initial_weight,
            "final_weight": self.final_weight,
        }

    @classmethod
    def from_config(cls, config):
        """Makes a callback from what `get_config` returned."""
        return cls(**config)
