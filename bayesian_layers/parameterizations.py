"""Constraints as parameterizations: maps from any real number to an allowed one.

A trained parameter is stored untransformed and read through such a map. Each has an
inverse, `reverse`, which says what to store for a wanted value.
"""

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions.transforms import Exp, Softplus, Transform
from bayesian_layers.registry import by_name

__all__ = ["Exp", "Positive", "Softplus", "get"]


@keras.saving.register_keras_serializable("bayesian_layers.parameterizations")
class Positive(Transform):
    """max(x, epsilon): the identity, kept above a small number.

    Args:
        epsilon: The smallest value, positive.
    """

    def __init__(self, epsilon=1e-7):
        if not epsilon > 0.0:
            raise ValueError(
                f"`epsilon` should be positive. Received: epsilon={epsilon}"
            )
        self.epsilon = epsilon

    def __call__(self, x):
        return ops.maximum(x, self.epsilon)

    def reverse(self, y):
        """Returns y."""
        return y

    def log_det_jacobian(self, x):
        """Returns 0, or -inf where all of a half-line is mapped to one number."""
        return ops.where(x > self.epsilon, ops.zeros_like(x), -np.inf)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"epsilon": self.epsilon}


get = by_name("constraint", [Exp, Positive, Softplus], keras.constraints.get)
