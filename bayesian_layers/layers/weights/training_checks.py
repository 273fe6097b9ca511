"""Mistakes in training that nothing else would show."""

import warnings

from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.trainers.trainer import Trainer

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


def check_training(layer):
    """Warns if a layer is being trained by `fit` in a way that cannot be meant.

    Keras notes which layer was called first: in training the compiled model. On JAX,
    where it runs a train step without that, it calls the model once before, inside of
    a stateless scope. Custom loops, which need not compile, are left alone.

    Returns:
        Whether it was being trained, and so has been checked.
    """
    call = model_call()
    if call is None or not (call.get_value("training") or in_stateless_scope()):
        return False
    model = call.entry_layer
    optimizer = getattr(model, "optimizer", None)
    if not isinstance(model, Trainer) or optimizer is None:
        return False
    penalized = [w for w in layer.random_weights.values() if w.regularizer is not None]
    if penalized and not layer.kl_scale_is_given:
        warnings.warn(UNSCALED.format(layer=layer.name), stacklevel=3)
    if any(_is_decayed(optimizer, weight) for weight in layer.random_weights.values()):
        warnings.warn(DECAYED.format(optimizer=type(optimizer).__name__), stacklevel=3)
    return True


def _is_decayed(optimizer, weight):
    """Whether an optimizer decays the scale of a random weight."""
    scale = weight.variables.get("scale")
    if scale is None or not getattr(optimizer, "weight_decay", None):
        return False
    return optimizer._use_weight_decay(scale)
