"""Mistakes in training that nothing else would show."""

import warnings
import weakref

from keras import ops

from bayesian_layers import backend, keras_contact

UNSCALED = (
    "The KL of the Bayesian layers of {model!r} is added in full to the loss of each "
    "batch, which is an average: it counts as if the data set were one example, and "
    "the model will hardly learn from the data. Call `bl.scale_kl(model, "
    "dataset_size=N)` before training, or train with "
    "`bl.callbacks.KLSchedule(dataset_size=N)`. If that is what you want, say so with "
    "`dataset_size=1`."
)
DECAYED = (
    "The weight decay of {optimizer} pulls the untransformed parameters of posteriors "
    "and priors toward 0, and so scales toward softplus(0) = 0.69: the KL is there to "
    "regularize them. Before training call "
    "`optimizer.exclude_from_weight_decay(var_names={names})`."
)


class TrainingChecks:
    """Warns, once for each model, of training that cannot be meant.

    `fit` calls the compiled model in training mode, or, on JAX, where it is to be
    differentiated. Loops that do not compile the model, and models with a loss of
    their own, may scale the divergence as they like and are left alone.

    Args:
        layer: The layer that checks.
    """

    def __init__(self, layer):
        self._layer = layer
        self.unscaled = True
        self.decayed = True
        self._model = None

    def of_call(self):
        """Checks when the layer is called."""
        if not (self.unscaled or self.decayed):
            return
        model, is_training = keras_contact.trained_model()
        if model is not None:
            # JAX tells only when it builds the model, not when it differentiates it.
            self._model = weakref.ref(model)
        if self._model is None or keras_contact.in_symbolic_scope():
            return
        model = self._model()
        if model is not None and (is_training or self._is_differentiated()):
            self._check_scale(model)
            self._check_decay(model)

    def _is_differentiated(self):
        return any(
            backend.is_differentiated(ops.convert_to_tensor(variable))
            for weight in self._layer.random_weights.values()
            for variable in weight.variables.values()
        )

    def _check_scale(self, model):
        if not self.unscaled or keras_contact.has_own_loss(model):
            return
        layer = self._layer
        penalties = [w.regularizer for w in layer.random_weights.values()]
        in_full = [
            penalty
            for penalty in penalties
            if penalty is not None and getattr(penalty, "scale_factor", 1.0) == 1.0
        ]
        if in_full and layer._kl_scale is None:
            self._end(model, "unscaled")
            warnings.warn(UNSCALED.format(model=model.name), stacklevel=5)

    def _check_decay(self, model):
        if not self.decayed:
            return
        names = sorted(
            {
                f"{variable.name}$"
                for layer in _checked_layers(model)
                for weight in layer.random_weights.values()
                for variable in weight.other_variables()
                if keras_contact.is_decayed(model.optimizer, variable)
            }
        )
        self._end(model, "decayed")
        if names:
            optimizer = type(model.optimizer).__name__
            message = DECAYED.format(optimizer=optimizer, names=names)
            warnings.warn(message, stacklevel=5)

    @staticmethod
    def _end(model, check):
        for layer in _checked_layers(model):
            setattr(layer._checks, check, False)


def skip_checks(model):
    """Leaves the training of a model unchecked: one just like it is checked."""
    for layer in _checked_layers(model):
        layer._checks.unscaled = layer._checks.decayed = False


def _checked_layers(model):
    layers = keras_contact.flatten_layers(model)
    return [layer for layer in layers if hasattr(layer, "_checks")]
