"""Sums over examples that make up the curvature of a kernel."""

import numpy as np

from bayesian_layers.conversion.kronecker import Kronecker

# Examples whose products are added up at once.
BLOCK = 512


class Sum:
    """The sum of a function of the derivatives V of a kernel (see `Curvature`).

    Args:
        of: From the derivatives of a batch, `[count, *shape of the kernel]`, to what is
            added up.
    """

    def __init__(self, of):
        self._of = of
        self._total = None

    def add(self, jacobian, roots):
        """Adds a batch.

        Args:
            jacobian: The derivatives of the outputs, `[batch, k, *shape]`.
            roots: The roots R of each example, `[batch, k, k]`.
        """
        derivatives = np.einsum("bkr,bk...->br...", roots, jacobian)
        self._add(self._of(derivatives.reshape(-1, *jacobian.shape[2:])))

    def _add(self, part):
        self._total = part if self._total is None else self._total + part

    def total(self):
        """Returns the sum."""
        return self._total


class FullSum(Sum):
    """The sum of vec(V) vec(V)^T, a matrix over all elements of a kernel.

    A kernel has n inputs, all of its axes but the last, and m outputs. In a Dense layer
    on vectors all derivatives of an example are V = a g^T, of its input a and the
    derivative g by its outputs. Their sum is

        a a^T (x) sum g g^T,

    so m (m + 1) / 2 weighted products of the inputs `[n, n]` of many examples are all
    of it. Other kernels take a product `[n m, n m]` for each output of each example.
    Which of both it is, the derivatives tell: how a layer is used, and how often, need
    not be known.
    """

    def __init__(self):
        super().__init__(_full)
        self._waiting = []  # Inputs and derivatives of batches.
        self._blocks = None  # `[m, n, m, n]`, of outputs j and l only with j <= l.

    def add(self, jacobian, roots):
        """Adds a batch."""
        factors = _factors(jacobian)
        if factors is None:
            super().add(jacobian, roots)
            return
        inputs, slopes = factors
        self._waiting.append((inputs, np.matmul(roots.transpose(0, 2, 1), slopes)))
        if sum(len(a) for a, _ in self._waiting) >= BLOCK:
            self._add_products()

    def total(self):
        """Returns the sum."""
        self._add_products()
        if self._blocks is not None:
            m, n = self._blocks.shape[:2]
            for j in range(m):
                self._blocks[j + 1 :, :, j] = self._blocks[j, :, j + 1 :].swapaxes(0, 1)
            self._add(self._blocks.transpose(1, 0, 3, 2).reshape(m * n, m * n))
            self._blocks = None
        return self._total

    def _add_products(self):
        if not self._waiting:
            return
        a, g = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting = []
        n, m = a.shape[1], g.shape[2]
        if self._blocks is None:
            self._blocks = np.zeros((m, n, m, n))
        for j in range(m):
            weights = np.matmul(g[:, None, :, j], g[:, :, j:]).transpose(0, 2, 1)
            weighted = (weights * a[:, None]).reshape(len(a), -1)
            self._blocks[j, :, j:] += (a.T @ weighted).reshape(n, m - j, n)


def _factors(jacobian):
    """a `[batch, n]` and g `[batch, k, m]`, whose products are the derivatives.

    Returns `None` if there are none, up to the rounding of derivatives in float32.
    """
    batch, count = jacobian.shape[:2]
    rows = jacobian.reshape(batch, count, -1, jacobian.shape[-1])
    sizes = np.abs(rows)
    largest = np.argmax(sizes.reshape(batch, -1), axis=1)
    k, i, j = np.unravel_index(largest, rows.shape[1:])
    each = np.arange(batch)
    pivots = rows[each, k, i, j][:, None]
    inputs = rows[each, k, :, j]
    slopes = rows[each, :, i] / np.where(pivots == 0.0, 1.0, pivots)[:, :, None]
    errors = np.abs(rows - inputs[:, None, :, None] * slopes[:, :, None])
    # Products that underflow are no more than a tiny part of the largest one.
    allowed = 1e-6 * sizes + 1e-12 * np.abs(pivots)[:, :, None, None]
    return (inputs, slopes) if np.all(errors <= allowed) else None


def _full(derivatives):
    rows = derivatives.reshape(len(derivatives), -1)
    return rows.T @ rows


def _diagonal(derivatives):
    return np.sum(derivatives**2, axis=0).reshape(-1)


SUMS = {
    "full": FullSum,
    "diagonal": lambda: Sum(_diagonal),
    "kronecker": lambda: Sum(Kronecker.of),
}
