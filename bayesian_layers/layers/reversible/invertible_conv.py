"""Invertible linear maps of channels."""

import numpy as np
from keras import ops

from bayesian_layers import linalg, seeds
from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.channels import ChannelsLayer


@register
class InvertibleConv1x1(ChannelsLayer):
    """A 1x1 convolution that can be undone: a learned permutation of channels.

        y = W x at each position,    W = P L (U + diag(s)),    s = sign * exp(log_s)

    P is a permutation and `sign` are signs, both fixed; L is lower triangular with ones
    on its diagonal, U strictly upper triangular; L, U and `log_s` are trained. Nothing
    that training does to them makes W singular, and

    log |det| = positions * sum(log_s)

    costs nothing. The reverse is two triangular solves. W starts as a random rotation.
    Of vectors, with no position, it is a dense layer without bias.

    Args:
        seed: Integer seed of the rotation. Defaults to a random one.
        event_rank: The number of trailing axes that are one example. Defaults to all
            axes of the inputs but the first. Channels are the last.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.InvertibleConv1x1(seed=1)
    >>> x = np.random.default_rng(0).normal(size=(2, 8, 8, 6)).astype("float32")
    >>> bool(ops.all(ops.abs(ops.subtract(layer.reverse(layer(x)), x)) < 1e-4))
    True

    Reference: Kingma and Dhariwal (2018), Glow: generative flow with invertible 1x1
    convolutions, section 3.2.
    """

    def __init__(self, seed=None, event_rank=None, **kwargs):
        super().__init__(event_rank=event_rank, **kwargs)
        self.seed = seed

    def build(self, inputs_shape, context_shape=None):
        """Makes the factors of a rotation."""
        super().build(inputs_shape)
        size = self.num_channels
        permutation, lower, upper, diagonal = _factors(_rotation(size, self.seed))

        def add(name, value, **kwargs):
            # The numbers, not a tensor: the layer may be built while one is traced.
            return self.add_weight(
                value.shape,
                lambda shape, dtype=None: ops.convert_to_tensor(value, dtype),
                name=name,
                **{"dtype": self.input_dtype, "autocast": False, **kwargs},
            )

        self.lower = add("lower", lower)
        self.upper = add("upper", upper)
        self.log_diagonal = add("log_diagonal", np.log(np.abs(diagonal)))
        self.sign = add("sign", np.sign(diagonal), trainable=False)
        self.permutation = add(
            "permutation", permutation, trainable=False, dtype="int32"
        )

    def _triangles(self):
        """L and U + diag(s)."""
        lower, upper = ops.tril(self.lower, -1), ops.triu(self.upper, 1)
        identity = ops.eye(self.num_channels, dtype=lower.dtype)
        diagonal = self.sign * ops.exp(self.log_diagonal)
        return lower + identity, upper + diagonal * identity

    @property
    def kernel(self):
        """W, `[channels, channels]`."""
        lower, upper = self._triangles()
        return ops.take(lower @ upper, self.permutation, axis=0)

    def forward_and_log_det(self, x):
        """Returns y and the log-determinant."""
        y = ops.matmul(x, ops.transpose(self.kernel))
        return y, self.at_each_position(ops.sum(self.log_diagonal), x)

    def reverse_and_log_det(self, y):
        """Returns x and the log-determinant."""
        lower, upper = self._triangles()
        columns = ops.transpose(ops.reshape(y, (-1, self.num_channels)))
        columns = ops.take(columns, ops.argsort(self.permutation), axis=0)
        columns = linalg.solve_lower(lower, columns)
        columns = ops.solve_triangular(upper, columns, lower=False)
        x = ops.reshape(ops.transpose(columns), ops.shape(y))
        return x, self.at_each_position(-ops.sum(self.log_diagonal), y)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "seed": self.seed}


def _rotation(size, seed):
    """A random orthogonal matrix."""
    (seed,) = seeds.split(seed, 1)
    noise = np.random.default_rng(seed).normal(size=(size, size))
    return np.linalg.qr(noise)[0]


def _factors(matrix):
    """The factors of a matrix: rows `permutation` of (I + lower) (diagonal + upper).

    Gaussian elimination with the largest pivot of each column.
    """
    size = len(matrix)
    work, rows = matrix.copy(), np.arange(size)
    for i in range(size):
        pivot = i + np.argmax(np.abs(work[i:, i]))
        work[[i, pivot]], rows[[i, pivot]] = work[[pivot, i]], rows[[pivot, i]]
        work[i + 1 :, i] /= work[i, i]
        work[i + 1 :, i + 1 :] -= np.outer(work[i + 1 :, i], work[i, i + 1 :])
    # matrix[rows] = L U, and so matrix = (L U)[argsort(rows)].
    return np.argsort(rows), np.tril(work, -1), np.triu(work, 1), np.diag(work)
