"""Inducing points: where they start, and the prior of what the functions are there."""

import numpy as np
from keras import ops

from bayesian_layers import covariances, linalg
from bayesian_layers.distributions import MultivariateNormalTriL
from bayesian_layers.regularizers import KLDivergence


def inducing_inputs(x, num_inducing, *, method="kmeans", seed=None, num_steps=20):
    """Chooses inducing inputs for `bl.layers.SparseGaussianProcess` from data.

    Args:
        x: Points `[n, D]`, an array. Columns count as they are: standardize them
            before, as the process wants it too.
        num_inducing: How many. If there are fewer points, some are repeated, moved by
            noise of a thousandth of the columns' standard deviations.
        method: `"kmeans"` (the default), centres of clusters, from k-means++ and
            `num_steps` of Lloyd's algorithm; or `"subset"`, some of the points.
        seed: Integer. Defaults to NumPy's global state, which
            `keras.utils.set_random_seed` sets.
        num_steps: The number of steps.

    Returns:
        A NumPy array `[num_inducing, D]`.

    Example:
    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> points = bl.layers.inducing_inputs(x, 8, seed=0)
    >>> layer = bl.layers.SparseGaussianProcess(1, 8, inducing_inputs=points)
    >>> points.shape
    (8, 3)
    """
    x = np.asarray(x)
    if x.ndim != 2 or not len(x):
        raise ValueError(f"`x` should be points [n, D]. Received: x.shape={x.shape}")
    if method not in ("kmeans", "subset"):
        raise ValueError(
            f'`method` should be "kmeans" or "subset". Received: method={method!r}'
        )
    if seed is None:
        seed = np.random.randint(2**31)
    rng = np.random.default_rng(seed)
    points = np.unique(x, axis=0)
    if len(points) <= num_inducing:
        repeated = points[rng.integers(len(points), size=num_inducing - len(points))]
        noise = 1e-3 * x.std(axis=0) * rng.normal(size=repeated.shape)
        return np.concatenate([points, repeated + noise]).astype(x.dtype)
    if method == "subset":
        return points[rng.choice(len(points), num_inducing, replace=False)]
    return _kmeans(x.astype("float64"), num_inducing, num_steps, rng).astype(x.dtype)


def _kmeans(x, count, num_steps, rng):
    """Lloyd's algorithm from centres that k-means++ chooses."""
    centres = x[rng.integers(len(x), size=1)]
    nearest = _squared_distances(x, centres)[:, 0]
    while len(centres) < count:
        chosen = x[rng.choice(len(x), size=1, p=nearest / nearest.sum())]
        centres = np.concatenate([centres, chosen])
        nearest = np.minimum(nearest, _squared_distances(x, chosen)[:, 0])
    for _ in range(num_steps):
        members = np.argmin(_squared_distances(x, centres), axis=1)
        sizes = np.bincount(members, minlength=count)
        sums = np.zeros_like(centres)
        np.add.at(sums, members, x)
        filled = sizes > 0
        centres[filled] = sums[filled] / sizes[filled, None]
    return centres


def _squared_distances(x, z):
    products = x @ z.T
    squares = np.sum(x**2, axis=1)[:, None] - 2.0 * products + np.sum(z**2, axis=1)
    return np.maximum(squares, 0.0)


class ProcessKLDivergence(KLDivergence):
    """The divergence of inducing values from what a process is at inducing inputs.

    KL(q(u) || N(m(Z), K(Z, Z))), for values that are not whitened. It belongs to one
    layer, which makes it.

    Args:
        layer: The sparse Gaussian process.
    """

    def __init__(self, layer):
        self.layer = layer
        self.scale_factor = 1.0

    @property
    def prior(self):
        """`None`: it follows the layer, see `prior_of`."""
        return None

    def prior_of(self, weight):
        """Returns the distribution of the process at its inducing inputs."""
        layer = self.layer
        with covariances.one_draw(layer.covariance_fn):
            points = layer.inducing_points()
            tril = linalg.cholesky(layer.covariance_fn(points))
            shape = (layer.units, layer.num_inducing)
            loc = layer.mean_at_inducing_points() + ops.zeros(shape, dtype=tril.dtype)
            return MultivariateNormalTriL.rebuild({"loc": loc, "scale_tril": tril})
