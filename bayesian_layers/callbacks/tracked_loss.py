"""The data term of the loss as a metric of its own, while a model trains."""

import weakref

import keras
from keras.src.trainers.compile_utils import MetricsList

from bayesian_layers.callbacks.fit_data import fit_of
from bayesian_layers.keras_contact import exchange_compiled_functions as exchange
from bayesian_layers.trace import is_tracing

_tracked = weakref.WeakKeyDictionary()


class TrackedLoss:
    """Stands in for the loss that a model was compiled with, and averages its values.

    Keras adds the penalties afterwards, so this is the data term alone. The metric is
    among those of the loss, which Keras resets, logs and carries through `jit`.
    """

    def __init__(self, loss, model):
        self.loss = loss
        self.before = {}
        self._model = weakref.ref(model)
        self.mean = keras.metrics.Mean(name="nll")
        # `EarlyStopping` and its like look for it in such a list only, and read from
        # it that less is better.
        self.mean._direction = "down"
        self._list = _Results([self.mean])

    def __call__(self, y_true, y_pred, sample_weight=None):
        value = self.loss(y_true, y_pred, sample_weight)
        # As Keras weighs its own mean of the loss: by the size of the batch.
        first = keras.tree.flatten(y_pred)[0]
        self.mean.update_state(value, sample_weight=keras.ops.shape(first)[0])
        return value

    @property
    def metrics(self):
        """The metrics of the loss, and, while the model trains, the mean of values.

        Keras does not tell callbacks when `fit` ends with an exception. It asks for
        the metrics when it begins something else: then the tracking ends.
        """
        model = self._model()
        if model is not None and fit_of(model) is None:
            remove(model)
            _make_missing(model)
            return self.loss.metrics
        return [*self.loss.metrics, self._list]

    def __getattr__(self, name):
        return getattr(self.loss, name)


class _Results(MetricsList):
    """A list of metrics that reports their results by name."""

    def result(self):
        return {metric.name: metric.result() for metric in self.metrics}


def install(model):
    """Has a compiled model track its loss, until `remove`."""
    loss = model._compile_loss
    if isinstance(loss, TrackedLoss):
        remove(model)  # Left by a `fit` that ended with an exception.
        loss = model._compile_loss
    if loss is None:
        return
    tracked, functions = _tracked.pop(model, (None, {}))
    # What was compiled under handlers, or for another loss, does not hold here.
    if tracked is None or tracked.loss is not loss or is_tracing():
        tracked, functions = TrackedLoss(loss, model), {}
    model._compile_loss = tracked
    tracked.before = exchange(model, functions)
    _make_missing(model)


def remove(model):
    """Undoes `install`; what was compiled under it is kept for the next time."""
    tracked = model._compile_loss
    if not isinstance(tracked, TrackedLoss):
        return
    model._compile_loss = tracked.loss
    functions = exchange(model, tracked.before)
    if not is_tracing():
        _tracked[model] = (tracked, functions)


def _make_missing(model):
    """Keras has made its functions before it tells callbacks that it begins."""
    if model.train_function is None:
        model.make_train_function()
    if model.test_function is None:
        model.make_test_function()
