"""A Cox process: points whose intensity is a deep Gaussian process.

The log-intensity is a Gaussian process, or one of another (figure 9 of the paper), and
its posterior a sparse one. Points are held out by thinning: each goes to the training
or to the test pattern by the toss of a coin, which makes two independent Poisson
processes of half the intensity. Compared are a constant intensity and a kernel estimate
with corrected edges, whose bandwidth is the best for each training point by the others.

The data are dates of disasters in British coal mines (1851 to 1962), or with `--data`
the places of redwood seedlings (62 in a square) or of trees in the tropical forest of
Barro Colorado (bei, 3604 in 50 hectares); see `data/README.md`.

    python examples/cox_process.py --data redwood --splits 10
"""

import argparse
import pathlib

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from scipy import optimize, stats

DATA = pathlib.Path(__file__).parent / "data"
# The region that was watched, and the number of inducing inputs.
REGIONS = {
    "coal": ([1851.2], [1962.22], 20),
    "redwood": ([0.0, -1.0], [1.0, 0.0], 50),
    "bei": ([0.0, 0.0], [1000.0, 500.0], 100),
}


def load(name):
    """The points `[n, D]`, and the lower and upper ends of their region."""
    points = np.loadtxt(DATA / f"{name}.csv", delimiter=",", skiprows=1, ndmin=2)
    low, high, num_inducing = REGIONS[name]
    return points.reshape(-1, len(low)), np.array(low), np.array(high), num_inducing


def grid_of(low, high):
    """The midpoints of a fine grid `[n, D]`, and the volume of a cell."""
    along = {1: 512, 2: 64}[len(low)]
    axes = [l + (h - l) * (np.arange(along) + 0.5) / along for l, h in zip(low, high)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    return points.reshape(-1, len(low)), np.prod((high - low) / along)


def constant_intensity(points, low, high):
    """A homogeneous process: as a function of places, its intensity there."""
    level = len(points) / np.prod(high - low)
    return lambda x: np.full(len(x), level)


def kernel_intensity(points, low, high):
    """A sum of normal densities around the points, each of mass one in the region."""

    def kernels(x, bandwidth):
        inside = stats.norm.cdf((high - points) / bandwidth)
        inside -= stats.norm.cdf((low - points) / bandwidth)
        values = stats.norm.pdf(x[:, None], points, bandwidth) / inside
        return np.prod(values, axis=-1)

    def left_out(log_bandwidth):
        values = kernels(points, np.exp(log_bandwidth))
        np.fill_diagonal(values, 0.0)
        return -np.sum(np.log(values.sum(axis=1) + 1e-300))

    span = np.log(np.max(high - low))
    best = optimize.minimize_scalar(left_out, bounds=(span - 5.0, span), method="bounded")
    bandwidth = np.exp(best.x)
    return lambda x: kernels(x, bandwidth).sum(axis=1)


class CoxProcess:
    """A Poisson process whose log-intensity is a (deep) Gaussian process.

    Args:
        points: The training pattern `[n, D]`.
        low, high: The ends of the region.
        num_layers: The number of Gaussian processes behind each other.
        num_inducing: The number of inducing inputs of each.
    """

    def __init__(self, points, low, high, num_layers, num_inducing, seed):
        count, size = points.shape
        # In these units a homogeneous process has the intensity 1, and f the mean 0.
        self.unit = (np.prod(high - low) / count) ** (1.0 / size)
        self.points = (points / self.unit).astype("float32")
        low, high = low / self.unit, high / self.unit
        middle, spread = 0.5 * (low + high), (high - low) / np.sqrt(12.0)
        rng = np.random.default_rng(seed)
        # Inducing inputs are wanted where there are no points, too.
        everywhere = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (1000, size))
        processes = bl.layers.deep_gaussian_process(
            everywhere,
            num_layers=num_layers,
            num_inducing=num_inducing,
            seed=seed,
        ).layers[:-1]  # Without the likelihood of regression.
        standardize = keras.layers.Rescaling(1.0 / spread, -middle / spread)
        self.function = keras.Sequential([keras.Input((size,)), standardize, *processes])
        process = bl.layers.PoissonProcess(
            self.function, low.tolist(), high.tolist(), num_points=count
        )
        self.model = keras.Sequential([keras.Input((size,)), process])
        bl.scale_kl(self.model, dataset_size=count)

    def fit(self, steps):
        """Maximizes the evidence bound; all points are one batch."""
        decay = keras.optimizers.schedules.CosineDecay(0.02, steps, alpha=0.05)
        self.model.compile(
            keras.optimizers.Adam(decay), bl.losses.NegativeLogLikelihood()
        )
        count = len(self.points)
        # As one long epoch: `fit` takes its time between epochs.
        points = np.tile(self.points, (steps, 1))
        self.model.fit(
            points, np.ones(len(points)), batch_size=count, shuffle=False, verbose=0
        )

    def draws(self, x, num_samples):
        """Draws of the intensity `[num_samples, n]`, each one function."""
        f = bl.predict(
            self.function,
            (x / self.unit).astype("float32"),
            num_samples,
            batch_size=4096,
            seed=0,
            verbose=0,
        )
        return np.exp(f.samples[..., 0]) / self.unit ** x.shape[1]


def log_likelihood(intensity, points, grid, cell):
    """log p(points), for a function that gives intensities."""
    return np.sum(np.log(intensity(points))) - cell * np.sum(intensity(grid))


def main(data="coal", splits=5, steps=1500, num_samples=300, path="cox_process.png"):
    """Prints held-out log-likelihoods, and draws the intensity of all points."""
    points, low, high, num_inducing = load(data)
    grid, cell = grid_of(low, high)

    def cox(num_layers):
        def make(points, low, high):
            model = CoxProcess(points, low, high, num_layers, num_inducing, seed=0)
            model.fit(steps)
            return lambda x: model.draws(x, num_samples).mean(axis=0)

        return make

    models = {
        "constant": constant_intensity,
        "kernel estimate": kernel_intensity,
        "Gaussian process": cox(1),
        "deep Gaussian process": cox(2),
    }
    results = []
    for number in range(splits):
        rng = np.random.default_rng(number)
        is_train = rng.uniform(size=len(points)) < 0.5
        train, test = points[is_train], points[~is_train]
        row = []
        for make in models.values():
            keras.utils.set_random_seed(number)
            intensity = make(train, low, high)
            row.append(log_likelihood(intensity, test, grid, cell) / len(test))
        results.append(row)
        print(np.round(np.array(row)-row[0],4), flush=True)
    results = np.array(results)
    gains = results - results[:, :1]
    for name, gain in zip(models, gains.T, strict=True):
        print(f"{name:24}{gain.mean():8.4f} +- {gain.std(ddof=1)/np.sqrt(splits):.4f}")


if __name__ == "__main__":
    import sys
    main(*sys.argv[1:2], **{k:int(v) for k,v in (a.split("=") for a in sys.argv[2:])})
