"""Continuous outputs over a grid of values."""

import keras

from bayesian_layers import distributions, seeds
from bayesian_layers.keras_contact import called_path
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.register import register
from bayesian_layers.random_variable import RandomVariable


@register
class Discretize(ReceivesRandomVariables):
    """A continuous random variable over `num_bins` values from `low` to `high`.

    P(v) = P(v - step / 2 < x <= v + step / 2), step = (high - low) / (num_bins - 1);
    the outer bins are open-ended. Probabilities are right far in the tails: of an 8-bit
    image under a logistic mixture each of the 256 values has a finite log-probability.

    It receives the random variable of an output layer of numbers (also a mixture), and
    returns one of the same shape. Without arguments it is for 8-bit images as they are
    usually scaled, `pixels / 255`: 256 values from 0 to 1.

    Args:
        low: The lowest value. Defaults to 0.
        high: The highest value. Defaults to 1.
        num_bins: The number of values, at least 2. Defaults to 256.
        seed: Integer seed of the draws. Defaults to a random one.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> pixels = keras.Sequential(
    ...     [bl.layers.MixtureLogistic(3), bl.layers.Discretize()]
    ... )
    >>> ops.shape(pixels(np.ones((8, 4))))
    (8, 3)
    """

    def __init__(self, low=0.0, high=1.0, num_bins=256, *, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not low < high or not (isinstance(num_bins, int) and num_bins > 1):
            raise ValueError(
                "Discretize expects `low` < `high` and an integer `num_bins` of at "
                f"least 2. Received: low={low}, high={high}, num_bins={num_bins}"
            )
        self.supports_masking = True
        self.low, self.high, self.num_bins = low, high, num_bins
        self.seed = seed
        self.seed_generator = seeds.generator(seed)

    def call(self, inputs):
        """Returns a random variable."""
        if not isinstance(inputs, RandomVariable):
            raise TypeError(
                "Discretize needs a random variable, as `bl.layers.MixtureLogistic` "
                f"returns it. Received: inputs of type {type(inputs).__name__}"
            )
        distribution = distributions.Quantized(
            inputs.distribution, self.low, self.high, num_bins=self.num_bins
        )
        return RandomVariable(
            distribution, name=called_path(self), seed=self.seed_generator
        )

    def compute_output_spec(self, inputs):
        """Returns the shape and dtype of the random variable."""
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "low": self.low,
            "high": self.high,
            "num_bins": self.num_bins,
            "seed": self.seed,
        }
