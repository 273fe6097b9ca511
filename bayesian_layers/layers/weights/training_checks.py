"""Mistakes in training that nothing else would show."""

import warnings

from keras import ops
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.symbolic_scope import in_symbolic_scope
from keras.src.trainers.trainer import Trainer

from bayesian_layers import backend
from bayesian_layers.layers.weights.sequence import model_call

UNSCALED = (
    "The KL of a Bayesian layer (of {layer!r}, and perhaps others) is added in full to "
    "the loss of each batch, which is an average: it counts as if the data set were "
    "one example, and the model will hardly learn from the data. Call "
    "`bl.scale_kl(model, dataset_size=N)` before training, or train with "
    "`bl.callbacks.KLSchedule()`. If that is what you want, say so with "
    "`dataset_size=1`."
)
DECAYED = (
    "The weight decay of {optimizer} pulls the untransformed scales of posteriors "
    "toward 0, and so the scales toward softplus(0) = 0.69: the KL is there to "
    "regularize them. Before training call "
    "`optimizer.exclude_from_weight_decay(var_names=['_scale$'])`."
)


class TrainingChecks:
    """Warns, once for each layer, of training that cannot be meant.

    On TensorFlow and PyTorch `fit` calls the compiled model in training mode. On JAX
    it calls it once before that, in a stateless scope, and then reads the penalties to
    differentiate them, as a loop with `stateless_call` does. Other loops, which need
    not compile, and read `bl.total_kl(model)`, are left alone.
    """

    def __init__(self, layer):
        self._layer = layer
        self._unscaled = True
        self._decayed = True

    def of_call(self):
        """Checks when the layer is called."""
        if not (self._unscaled or self._decayed):
            return
        call = model_call()
        optimizer = _optimizer(call)
        if optimizer is None:
            return
        training = bool(call.get_value("training"))
        if training and not in_symbolic_scope():
            self._check_scale()
        if training or in_stateless_scope():
            self._check_decay(optimizer)

    def of_penalty(self, variable):
        """Checks when the penalty on a variable is read."""
        if backend.is_differentiated(ops.convert_to_tensor(variable)):
            self._check_scale()

    def _check_scale(self):
        weights = self._layer.random_weights.values()
        is_penalized = any(weight.regularizer is not None for weight in weights)
        if self._unscaled and is_penalized and not self._layer.kl_scale_is_given:
            self._unscaled = False
            warnings.warn(UNSCALED.format(layer=self._layer.name), stacklevel=4)

    def _check_decay(self, optimizer):
        weights = self._layer.random_weights.values()
        if self._decayed and any(_is_decayed(optimizer, weight) for weight in weights):
            self._decayed = False
            name = type(optimizer).__name__
            warnings.warn(DECAYED.format(optimizer=name), stacklevel=4)


def _optimizer(call):
    """The optimizer of the model whose call is under way, if it is compiled."""
    model = None if call is None else call.entry_layer
    return getattr(model, "optimizer", None) if isinstance(model, Trainer) else None


def _is_decayed(optimizer, weight):
    """Whether an optimizer decays the scale of a random weight."""
    scale = weight.variables.get("scale")
    if scale is None or not getattr(optimizer, "weight_decay", None):
        return False
    return optimizer._use_weight_decay(scale)
