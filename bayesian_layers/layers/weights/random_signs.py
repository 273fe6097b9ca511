"""The random signs of Flipout."""

import keras
from keras import ops

from bayesian_layers.distributions import Cauchy, Laplace, Logistic, Normal


class RandomSigns:
    """What the Flipout of a layer and that of a recurrent cell share."""

    posteriors = (Normal, Cauchy, Laplace, Logistic)
    requirement = "independent elements that are symmetric around their location"

    def signs(self, shape, dtype, seed):
        """Returns independent fair signs, +1 or -1."""
        one = ops.ones((), dtype=dtype)
        return ops.where(keras.random.uniform(shape, seed=seed) < 0.5, -one, one)
