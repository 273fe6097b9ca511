"""Curvatures of kernels that are Kronecker products."""

import dataclasses

import numpy as np


@dataclasses.dataclass
class Kronecker:
    """The Kronecker product that stands for the curvature of a kernel.

    A kernel has n inputs, all of its axes but the last, and m outputs. Its curvature is
    a sum over derivatives V `[n, m]` (see `Curvature`), H = sum vec(V) vec(V)^T. The
    product that stands for it is

        H ~ P (x) Q / trace(H),  P = sum V V^T `[n, n]`,  Q = sum V^T V `[m, m]`,

    the one with the same two partial traces as H. For a Dense layer on vectors V is
    a g^T, of its input a and the derivative g by its outputs: P = sum |g|^2 a a^T and
    Q = sum |a|^2 g g^T, which is KFAC with each example weighted by its share in the
    trace of H. Both are exact where H is a Kronecker product (of one example, of one
    linear layer with normal noise), and tend to the same where a and g are independent.
    Where a kernel is used at several positions, in convolutions and in Dense layers on
    sequences, V is the sum of a g^T over them: nothing is supposed of positions.

    Attributes:
        rows: The partial trace P.
        columns: The partial trace Q.

    Reference: Martens and Grosse (2015), Optimizing neural networks with
    Kronecker-factored approximate curvature. Ritter, Botev and Barber (2018), A
    scalable Laplace approximation for neural networks.
    """

    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, derivatives):
        """Makes that of derivatives, `[count, *shape of the kernel]`."""
        v = derivatives.reshape(len(derivatives), -1, derivatives.shape[-1])
        return cls(
            np.tensordot(v, v, ((0, 2), (0, 2))), np.tensordot(v, v, ((0, 1), (0, 1)))
        )

    def __add__(self, other):
        return Kronecker(self.rows + other.rows, self.columns + other.columns)

    def __truediv__(self, number):
        return Kronecker(self.rows / number, self.columns / number)

    def eigenvalues(self):
        """Returns all n * m of them, not negative."""
        return np.outer(*self._spectra()[0]).reshape(-1)

    def _spectra(self):
        """The eigenvalues of both factors of the product, and their eigenvectors."""
        trace = np.trace(self.rows) or 1.0
        pairs = [np.linalg.eigh(x) for x in (self.rows / trace, self.columns)]
        values, vectors = zip(*pairs, strict=True)
        return [np.maximum(x, 0.0) for x in values], vectors

    def covariance_factors(self, precision):
        """Returns Cholesky factors of the covariances of rows and of columns.

        The inverse of the product plus `precision` times the identity is no product.
        Of all normal distributions whose covariance is one, U (x) V, this is the q with
        the smallest KL(q || p) from the p with that inverse. U and V have the
        eigenvectors of P and Q, and eigenvalues u and v such that

            u_i v_j (p_i q_j / trace(H) + precision)

        has rows with the mean 1 and columns with the mean 1: both are rescaled in turn
        until they have. So the mean variance is never above that of the prior, which
        single ones may be; without a precision it is the inverse itself.
        """
        (a, g), vectors = self._spectra()
        precisions = np.outer(a, g) + precision
        u, v = np.ones(len(a)), np.ones(len(g))
        for _ in range(1000):
            before = u
            u = 1.0 / np.mean(precisions * v, axis=1)
            v = 1.0 / np.mean(precisions.T * u, axis=1)
            if np.allclose(u, before, rtol=1e-10, atol=0.0):
                break
        # As large as each other: what one has more the other has less.
        ratio = np.exp(0.5 * (np.mean(np.log(u)) - np.mean(np.log(v))))
        return [
            np.linalg.cholesky((x * eigenvalues) @ x.T)
            for x, eigenvalues in zip(vectors, (u / ratio, v * ratio), strict=True)
        ]
