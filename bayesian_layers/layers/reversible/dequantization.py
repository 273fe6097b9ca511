"""From counts to numbers of a continuum."""

import math

import numpy as np
from keras import ops

from bayesian_layers import keras_contact, seeds
from bayesian_layers.distributions import Uniform
from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.reversible_layer import ReversibleLayer
from bayesian_layers.trace import draw


@register
class UniformDequantization(ReversibleLayer):
    """Spreads integers, such as pixels, over the interval from 0 to 1.

        y = (x + u) / levels,  u uniform on [0, 1);    x = floor(levels * y)

    A density p of y is then one of integers: the probability of x is the integral of p
    over its cell, and for one draw of u

        log p(y) + log |det| = log p(y) - D log(levels)

    is, on average, a bound from below on its logarithm (Jensen). A flow of images
    begins with it. The noise is drawn anew in each call, whatever `training` is, and is
    seen by `bl.tape` and other handlers under the name of the layer. What is reversed
    is the integer: x is found from y exactly, but not y from x.

    Args:
        levels: The number of integers, from 0 to levels - 1.
        seed: Integer seed of the noise. Defaults to a random one.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.UniformDequantization(levels=4, seed=1)
    >>> x = np.array([[0.0, 1.0, 2.0, 3.0]], "float32")
    >>> ops.convert_to_numpy(layer.reverse(layer(x))).tolist()
    [[0.0, 1.0, 2.0, 3.0]]
    >>> round(float(layer.log_det_jacobian(x)[0]), 4)  # -4 log 4
    -5.5452

    Reference: Theis, van den Oord and Bethge (2016), A note on the evaluation of
    generative models.
    """

    def __init__(self, levels=256, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not (isinstance(levels, int) and levels > 1):
            raise ValueError(
                f"`levels` should be an integer above 1. Received: levels={levels!r}"
            )
        self.levels = levels
        self.seed = seed
        self.seed_generator = seeds.generator(seed)

    def forward_and_log_det(self, x):
        """Returns y and the log-determinant of each element."""
        x = ops.cast(x, self.input_dtype)
        cells = Uniform(ops.zeros_like(x), ops.ones_like(x))
        noise = draw(
            cells, name=keras_contact.called_path(self), seed=self.seed_generator
        )
        # Rounding must not lead from the border of a cell into the next one.
        margin = 2.0 * self.levels * float(np.finfo(self.input_dtype).eps)
        y = (x + margin + (1.0 - 2.0 * margin) * noise) / self.levels
        return y, ops.full_like(y, -math.log(self.levels))

    def reverse_and_log_det(self, y):
        """Returns x and the log-determinant of each element."""
        x = ops.clip(ops.floor(y * self.levels), 0, self.levels - 1)
        return x, ops.full_like(y, math.log(self.levels))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "levels": self.levels, "seed": self.seed}
