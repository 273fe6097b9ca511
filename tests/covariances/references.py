"""Slow and obvious covariances, in NumPy, of what scikit-learn lacks."""

import numpy as np
from sklearn.gaussian_process import kernels


def loop(k):
    """The matrix of a function of two rows."""

    def matrix(x, z=None):
        z = x if z is None else z
        return np.array([[k(a, b) for b in z] for a in x])

    return matrix


def periodic(amplitude, lengthscales, periods):
    """The product over dimensions of scikit-learn's kernel of one dimension."""
    parts = [
        kernels.ExpSineSquared(*pair)
        for pair in zip(lengthscales, periods, strict=True)
    ]

    def matrix(x, z=None):
        z = x if z is None else z
        factors = [k(x[:, i : i + 1], z[:, i : i + 1]) for i, k in enumerate(parts)]
        return amplitude**2 * np.prod(factors, axis=0)

    return matrix


def cosine(amplitude, periods):
    return loop(
        lambda a, b: amplitude**2 * np.cos(2 * np.pi * np.sum((a - b) / periods))
    )


def polynomial(amplitude, lengthscale, bias, degree):
    kernel = kernels.DotProduct(bias) ** degree

    def matrix(x, z=None):
        z = None if z is None else z / lengthscale
        return amplitude**2 * kernel(x / lengthscale, z)

    return matrix


def arc_cosine(amplitude, lengthscale, bias, order):
    """Cho and Saul (2009), equations 3 to 6."""

    def k(a, b):
        u, v = np.append(a / lengthscale, bias), np.append(b / lengthscale, bias)
        lengths = np.linalg.norm(u) * np.linalg.norm(v)
        t = np.arccos(np.clip(u @ v / lengths, -1.0, 1.0))
        angular = (
            np.pi - t,
            np.sin(t) + (np.pi - t) * np.cos(t),
            3 * np.sin(t) * np.cos(t) + (np.pi - t) * (1 + 2 * np.cos(t) ** 2),
        )[order]
        return amplitude**2 / np.pi * lengths**order * angular

    return loop(lambda a, b: k(a.astype("float64"), b.astype("float64")))
