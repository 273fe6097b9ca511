"""Maps of numbers whose parameters a network computes: what flows are made of.

Each has `size`, the number of parameters of one number, and `forward` and `reverse`,
which get numbers `[...]` and parameters `[..., size]` and return the value and the
logarithm of its slope. Zeros as parameters are the identity.
"""

import math

from keras import ops

from bayesian_layers.distributions.functions import tiny

# The logarithms of scales are within this limit: one layer makes no number infinite.
_LIMIT = 5.0


class AffineMap:
    """shift + exp(log_scale) x, log_scale = 5 tanh(parameter / 5)."""

    size = 2

    def forward(self, x, parameters):
        """Returns y and log |dy / dx|."""
        shift, log_scale = self._read(parameters)
        return shift + ops.exp(log_scale) * x, log_scale

    def reverse(self, y, parameters):
        """Returns x and log |dx / dy|."""
        shift, log_scale = self._read(parameters)
        return (y - shift) * ops.exp(-log_scale), -log_scale

    def _read(self, parameters):
        log_scale = _LIMIT * ops.tanh(parameters[..., 1] / _LIMIT)
        return parameters[..., 0], log_scale


class AdditiveMap:
    """shift + x."""

    size = 1

    def forward(self, x, parameters):
        """Returns y and zeros."""
        return x + parameters[..., 0], ops.zeros_like(x)

    def reverse(self, y, parameters):
        """Returns x and zeros."""
        return y - parameters[..., 0], ops.zeros_like(y)


class SplineMap:
    """A monotone spline of quotients of quadratic polynomials; the identity outside.

    Args:
        num_bins: The number of pieces between `-bound` and `bound`.
        bound: A positive number.
    """

    smallest_width = 1e-3
    smallest_slope = 1e-3

    def __init__(self, num_bins, bound):
        self.num_bins = num_bins
        self.bound = bound
        self.size = 3 * num_bins - 1

    def _knots(self, parameters):
        """Positions of the knots `[..., bins + 1]` along one axis, from `-bound`."""
        floor = self.smallest_width
        widths = floor + (1.0 - floor * self.num_bins) * ops.softmax(parameters)
        inner = 2.0 * self.bound * ops.cumsum(widths, axis=-1)[..., :-1] - self.bound
        end = ops.full_like(widths[..., :1], self.bound)
        return ops.concatenate([-end, inner, end], axis=-1)

    def _read(self, parameters):
        """Knots along both axes, and the slopes there."""
        bins = self.num_bins
        # A parameter of zero is a slope of one.
        shift = math.log(math.expm1(1.0 - self.smallest_slope))
        inner = self.smallest_slope + ops.softplus(parameters[..., 2 * bins :] + shift)
        end = ops.ones_like(inner[..., :1])
        return (
            self._knots(parameters[..., :bins]),
            self._knots(parameters[..., bins : 2 * bins]),
            ops.concatenate([end, inner, end], axis=-1),
        )

    def _piece(self, position, along, *knots):
        """The left and right values of the knots of the piece that a number is in."""
        x = ops.expand_dims(position, -1)
        reached = ops.cast(x >= along[..., 1:-1], x.dtype)
        one, none = ops.ones_like(reached[..., :1]), ops.zeros_like(reached[..., :1])
        # 1 for the piece, 0 for the others: a number is past the knots before it.
        past = ops.concatenate([one, reached], axis=-1)
        here = past - ops.concatenate([reached, none], axis=-1)
        return [
            (
                ops.sum(here * values[..., :-1], axis=-1),
                ops.sum(here * values[..., 1:], axis=-1),
            )
            for values in knots
        ]

    def _of_piece(self, position, parameters, *, is_output):
        xs, ys, slopes = self._read(parameters)
        along = ys if is_output else xs
        (x0, x1), (y0, y1), (d0, d1) = self._piece(position, along, xs, ys, slopes)
        return x0, x1 - x0, y0, y1 - y0, d0, d1

    def _inside(self, position):
        inside = ops.abs(position) < self.bound
        return inside, ops.where(inside, position, 0.0)

    def forward(self, x, parameters):
        """Returns y and log |dy / dx|."""
        inside, within = self._inside(x)
        x0, width, y0, height, d0, d1 = self._of_piece(
            within, parameters, is_output=False
        )
        t = (within - x0) / width
        slope = height / width
        denominator = slope + (d0 + d1 - 2.0 * slope) * t * (1.0 - t)
        y = y0 + height * (slope * t**2 + d0 * t * (1.0 - t)) / denominator
        log_slope = _log_slope(t, slope, d0, d1, denominator)
        return ops.where(inside, y, x), ops.where(inside, log_slope, 0.0)

    def reverse(self, y, parameters):
        """Returns x and log |dx / dy|."""
        inside, within = self._inside(y)
        x0, width, y0, height, d0, d1 = self._of_piece(
            within, parameters, is_output=True
        )
        slope = height / width
        excess = (within - y0) * (d0 + d1 - 2.0 * slope)
        a = height * (slope - d0) + excess
        b = height * d0 - excess
        c = -slope * (within - y0)
        root = ops.sqrt(ops.maximum(b**2 - 4.0 * a * c, tiny("float32")))
        t = ops.clip(-2.0 * c / (b + root), 0.0, 1.0)
        denominator = slope + (d0 + d1 - 2.0 * slope) * t * (1.0 - t)
        log_slope = _log_slope(t, slope, d0, d1, denominator)
        x = x0 + width * t
        return ops.where(inside, x, y), ops.where(inside, -log_slope, 0.0)


def _log_slope(t, slope, d0, d1, denominator):
    numerator = d1 * t**2 + 2.0 * slope * t * (1.0 - t) + d0 * (1.0 - t) ** 2
    return 2.0 * ops.log(slope) + ops.log(numerator) - 2.0 * ops.log(denominator)
