"""A mixture density network: one input, several answers.

For each x there are up to three values of y, on the branches of a curve. A network with
a normal output predicts their average, where no data are; one with a mixture predicts
the branches. Needs matplotlib for the picture.
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
    """Points on a curve that is a function of y, not of x (Bishop, 1994)."""
    y = rng.uniform(0.0, 1.0, size=(count, 1))
    x = y + 0.3 * np.sin(2.0 * np.pi * y) + rng.uniform(-0.1, 0.1, size=(count, 1))
    return x.astype("float32"), y.astype("float32")


def network(head):
    """The same hidden layers under another head."""
    return keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Dense(32, activation="tanh"),
            keras.layers.Dense(32, activation="tanh"),
            head,
        ]
    )


def draw(models, x, y, rng, path):
    """The data, and samples from each model."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 1 + len(models), figsize=(11, 3.6), sharey=True)
    axes[0].scatter(x, y, s=2, color="black")
    axes[0].set(title="data", ylabel="y")
    grid = rng.uniform(x.min(), x.max(), size=(2000, 1)).astype("float32")
    for axis, (name, model) in zip(axes[1:], models.items(), strict=True):
        axis.scatter(grid, model.predict(grid, verbose=0), s=2, color="tab:blue")
        axis.set_title(name)
    for axis in axes:
        axis.set(xlabel="x", ylim=(-0.3, 1.3))
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"Picture: {pathlib.Path(path).resolve()}")


def main(epochs=300, count=2000, path="mixture_density.png"):
    """Trains both networks, prints their likelihoods and draws samples."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    (x, y), (x_test, y_test) = data(count, rng), data(count, rng)
    heads = {
        "one normal": bl.layers.Normal(1),
        "mixture of five": bl.layers.MixtureNormal(1, num_components=5),
    }
    models = {}
    print(f"{'':18}{'log-likelihood of held-out points':>36}")
    for name, head in heads.items():
        model = models[name] = network(head)
        model.compile(keras.optimizers.Adam(3e-3), bl.losses.NegativeLogLikelihood())
        model.fit(x, y, batch_size=128, epochs=epochs, verbose=0)
        log_prob = ops.convert_to_numpy(model(x_test).log_prob(y_test))
        print(f"{name:18}{log_prob.mean():36.3f}")
    draw(models, x, y, rng, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--path", default="mixture_density.png")
    main(**vars(parser.parse_args()))
