"""The scale of the KL during training."""

import keras
from keras import ops

from bayesian_layers.callbacks.fit_data import examples_in_fit
from bayesian_layers.callbacks.tracked_loss import install, remove
from bayesian_layers.random_weights import scale_kl, total_kl


@keras.saving.register_keras_serializable("bayesian_layers.callbacks")
class KLSchedule(keras.callbacks.Callback):
    """Scales the KL to the data set, anneals it, and logs what the loss is made of.

    Each layer's penalty is multiplied by weight / dataset_size, where the weight grows
    linearly from `initial_weight` in the first epoch to `final_weight` in epoch
    `warmup_epochs`, and stays there. Nothing is compiled again.

    It adds to the logs, and so to the progress bar, to `History` and to what
    `EarlyStopping` can monitor:

    - `nll`: the mean over the epoch of the loss that the model was compiled with,
      without penalties: what `evaluate` would give at a KL weight of 0;
    - `val_nll`: the same of the validation data;
    - `kl`: the KL of all weights at the end of the epoch, in nats, not scaled.

    `nll` and `val_nll` are metrics of the model while it trains: the order of the
    callbacks does not matter to them. `kl` is added when the epoch ends: a callback
    that monitors it has to stand after this one, and says so itself if it does not.

    Args:
        dataset_size: The number N of training examples, that the mean of the loss is
            multiplied by to give the log-likelihood of all data. It is taken from the
            data of `fit` if these are arrays or a PyTorch `DataLoader`. Losses of
            Keras average over all elements of an output, not over examples: for such
            a loss on outputs of more than one element for each example (steps of a
            sequence, columns of a regression) give the number of elements, examples
            times elements of each.
        warmup_epochs: The number of epochs until the weight is `final_weight`.
        initial_weight: The weight of the KL in the first epoch, if there is a warm-up.
        final_weight: Its weight after that. Other values than 1 give a tempered
            posterior.

    Example:
    >>> model = keras.Sequential([bl.layers.DenseFlipout(8), bl.layers.Normal(1)])
    >>> model.compile("adam", bl.losses.NegativeLogLikelihood())
    >>> schedule = bl.callbacks.KLSchedule(warmup_epochs=2)
    >>> x, y = np.ones((32, 3)), np.ones(32)
    >>> history = model.fit(x, y, epochs=3, verbose=0, callbacks=[schedule])
    >>> sorted(history.history)
    ['kl', 'loss', 'nll']
    >>> round(model.layers[0].kl_scale * 32, 4)
    1.0
    """

    def __init__(
        self,
        dataset_size=None,
        warmup_epochs=0,
        initial_weight=0.0,
        final_weight=1.0,
    ):
        super().__init__()
        if dataset_size is not None and not dataset_size > 0:
            raise ValueError(
                "`dataset_size` should be positive, or `None` to take it from the "
                f"data. Received: dataset_size={dataset_size}"
            )
        for name, value in {
            "warmup_epochs": warmup_epochs,
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
        self._size = dataset_size

    def weight(self, epoch):
        """Returns the weight of the KL in an epoch, counted from 0."""
        if epoch >= self.warmup_epochs:
            return self.final_weight
        part = epoch / self.warmup_epochs
        return self.initial_weight + part * (self.final_weight - self.initial_weight)

    def on_train_begin(self, logs=None):
        """Finds the size of the data set, and begins to track the data term."""
        self._size = self.dataset_size or examples_in_fit(self.model)
        if self._size is None:
            raise ValueError(
                "The number of examples cannot be told from the data that `fit` was "
                "given. Use `bl.callbacks.KLSchedule(dataset_size=...)`."
            )
        self.on_epoch_begin(0)
        install(self.model)

    def on_epoch_begin(self, epoch, logs=None):
        """Sets the scale of the KL."""
        scale_kl(self.model, dataset_size=self._size, weight=self.weight(epoch))

    def on_epoch_end(self, epoch, logs=None):
        """Adds the KL to the logs."""
        if logs is not None:
            logs["kl"] = float(ops.convert_to_numpy(total_kl(self.model)))

    def on_train_end(self, logs=None):
        """Ends the tracking."""
        remove(self.model)

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
