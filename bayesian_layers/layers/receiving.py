"""The base of layers that receive random variables."""

import keras

from bayesian_layers.keras_contact import leave_inputs_alone
from bayesian_layers.random_variable import RandomVariable


class ReceivesRandomVariables(keras.Layer):
    """Base of layers whose `call` sees a `RandomVariable` as what it is.

    A Keras layer turns its inputs into tensors before `call`, and so would lose the
    distribution. This base leaves random variables alone, and converts and casts all
    other inputs as Keras does. Note that `keras.Sequential` and Functional models hand
    on tensors at their own door: between layers a random variable stays one.

    Example:
    >>> class Mean(bl.layers.ReceivesRandomVariables):
    ...     def call(self, inputs):
    ...         return inputs.mean()
    >>> float(Mean()(bl.Normal(3.0, 1.0)))
    3.0
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        leave_inputs_alone(self)

    def __call__(self, *args, **kwargs):
        args, kwargs = keras.tree.map_structure(self._convert_input, (args, kwargs))
        return super().__call__(*args, **kwargs)

    def _convert_input(self, value):
        # A symbolic input may become a random variable: a cast of it, in mixed
        # precision, would be a step of the model, and make a tensor of that.
        if isinstance(value, (RandomVariable, keras.KerasTensor)):
            return value
        return self.dtype_policy.convert_input(value, self.autocast, self.input_dtype)
