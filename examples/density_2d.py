"""A density in the plane, by a normalizing flow.

Reversible layers carry a normal distribution to that of the data. The flow is trained
by maximum likelihood with `fit`; then it draws, and it tells the density of any point.
Needs matplotlib for the picture.
"""

import argparse
import pathlib

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from keras import ops


def data(count, rng):
    """Two half circles, one in the other, with noise."""
    angle = np.pi * rng.uniform(size=count)
    upper = rng.integers(0, 2, count)
    sign = 2.0 * upper - 1.0
    points = np.stack([sign * np.cos(angle), sign * np.sin(angle)], axis=-1)
    points += np.stack([0.5 - upper, 0.25 - 0.5 * upper], axis=-1)
    return (points + 0.07 * rng.normal(size=points.shape)).astype("float32")


def network(units):
    return keras.Sequential([keras.layers.Dense(units, "relu") for _ in range(2)])


def flow_of(x, num_layers, units):
    """Spline couplings, in turns of the first and of the second coordinate."""
    layers = [
        bl.layers.SplineCoupling(network(units), parity=i % 2)
        for i in range(num_layers)
    ]
    # From the standardized plane to that of the data.
    return bl.Sequential([*layers, bl.layers.Affine(x.mean(axis=0), x.std(axis=0))])


def draw(variable, x, rng, path):
    """Data, samples and density."""
    import matplotlib.pyplot as plt

    samples = ops.convert_to_numpy(variable.sample(len(x), seed=1))
    low, high = x.min(axis=0) - 0.4, x.max(axis=0) + 0.4
    axes_points = [np.linspace(*ends, 200) for ends in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes_points), axis=-1).astype("float32")
    density = ops.convert_to_numpy(variable.prob(grid))
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), sharex=True, sharey=True)
    for axis, points, title in zip(
        axes, (x, samples), ("data", "samples"), strict=False
    ):
        axis.scatter(*points.T, s=2, color="tab:blue")
        axis.set_title(title)
    extent = (low[0], high[0], low[1], high[1])
    axes[2].imshow(density, origin="lower", extent=extent, aspect="auto")
    axes[2].set(title="density", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    area = np.prod(high - low) / density.size
    print(f"The density sums to {area * density.sum():.3f} over the picture.")
    print(f"Picture: {pathlib.Path(path).resolve()}")


def main(epochs=60, count=4000, num_layers=4, units=64, path="density_2d.png"):
    """Trains a flow, prints its likelihood and draws its density."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, x_test = data(count, rng), data(count, rng)
    flow = flow_of(x, num_layers, units)
    base = bl.layers.BaseDistribution()
    model = keras.Sequential([keras.Input((2,)), base, flow])
    model.compile(keras.optimizers.Adam(2e-3), bl.losses.NegativeLogLikelihood())
    # The targets are the data; of the inputs only the number of examples matters.
    model.fit(x, x, batch_size=256, epochs=epochs, verbose=0)
    variable = flow(bl.Normal(np.zeros(2, "float32"), 1.0))
    normal = bl.distributions.Normal(x.mean(axis=0), x.std(axis=0))
    by_normal = ops.convert_to_numpy(normal.log_prob(x_test)).sum(axis=1).mean()
    by_flow = ops.convert_to_numpy(variable.log_prob(x_test)).mean()
    print("log-likelihood of held-out points")
    print(f"  normal distribution {by_normal:8.3f}")
    print(f"  flow                {by_flow:8.3f}")
    draw(variable, x, rng, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--num_layers", type=int, default=4)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--path", default="density_2d.png")
    main(**vars(parser.parse_args()))
