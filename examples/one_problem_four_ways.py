"""One regression, four kinds of uncertainty: VI, NUTS, a Gaussian process, an ensemble.

Forty points of a curve with noise of a known size, and none in the middle. One Keras
network with distributions over its weights is trained by variational inference (`fit`),
and the same network has its weights drawn from their true posterior (`bl.mcmc`, on
JAX); a Gaussian process knows its posterior in closed form; an ensemble is a list of
plain networks with a penalty on their weights. What each says between the points, where
there are none, is the difference.

    python examples/one_problem_four_ways.py
"""

import argparse
import pathlib

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from scipy import stats

NOISE = 0.1
UNITS = 30
# Standard deviations of the priors of the first and of the second layer.
PRIORS = (3.0, 2.0 / UNITS**0.5)


def curve(x):
    """What is to be learned."""
    return np.sin(2.0 * x) + 0.3 * x


def data(count=40, seed=0):
    """Points on both sides of a gap, and as many others for a test."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.6, 2.0, (2 * count, 1)) * rng.choice([-1.0, 1.0], (2 * count, 1))
    y = curve(x) + NOISE * rng.normal(size=x.shape)
    x, y = x.astype("float32"), y.astype("float32")
    return (x[:count], y[:count]), (x[count:], y[count:])


def likelihood(f):
    """The distribution of observations."""
    return bl.distributions.Normal(f, NOISE)


def bayesian_network():
    """A hidden layer with distributions over all weights, and the likelihood."""

    def dense(units, prior, **kwargs):
        return bl.layers.DenseReparameterization(
            units,
            kernel_regularizer=bl.regularizers.NormalKLDivergence(stddev=prior),
            bias_initializer="trainable_normal_fan_in",
            bias_regularizer=bl.regularizers.NormalKLDivergence(stddev=prior),
            **kwargs,
        )

    hidden = dense(UNITS, PRIORS[0], activation="tanh")
    head = bl.layers.DistributionLambda(likelihood)
    return keras.Sequential([keras.Input((1,)), hidden, dense(1, PRIORS[1]), head])


def fit(model, loss, x, y, steps, **kwargs):
    """Trains by steps on all data, several of them in each epoch."""
    model.compile(keras.optimizers.Adam(1e-2), loss)
    x, y = (np.tile(array, (20, 1)) for array in (x, y))
    batch, epochs = len(x) // 20, max(1, steps // 20)
    model.fit(x, y, batch_size=batch, epochs=epochs, verbose=0, **kwargs)


def by_variational_inference(x, y, grid, steps):
    """Mean and standard deviation of the function at the grid."""
    model = bayesian_network()
    schedule = bl.callbacks.KLSchedule(dataset_size=len(x))
    loss = bl.losses.NegativeLogLikelihood()
    fit(model, loss, x, y, steps, callbacks=[schedule])
    prediction = bl.predict(model, grid, num_samples=200, seed=0, verbose=0)
    return prediction.mean[:, 0], np.sqrt(prediction.epistemic[:, 0])


def by_nuts(x, y, grid, num_draws):
    """The same network, without training."""
    model = bayesian_network()
    draws = bl.mcmc(
        model,
        (x, y),
        num_warmup=num_draws,
        num_samples=num_draws,
        num_chains=2,
        seed=0,
        max_tree_depth=8,
        start="prior",
        progress_bar=False,
    )
    prediction = bl.predict(model, grid, draws=draws, verbose=0)
    return prediction.mean[:, 0], np.sqrt(prediction.epistemic[:, 0])


def by_gaussian_process(x, y, grid, steps):
    """Hyperparameters by the marginal likelihood, then the posterior."""
    process = bl.layers.GaussianProcess(
        1, noise_variance=NOISE**2, trainable_noise=False
    )
    process.fit(x, y, epochs=steps, verbose=0)
    f = process.distribution(grid, with_noise=False)
    mean, stddev = (keras.ops.convert_to_numpy(v) for v in (f.mean(), f.stddev()))
    return mean[:, 0], stddev[:, 0]


def by_ensemble(x, y, grid, steps, size=5):
    """Plain networks from other starts; the moments are those of their mixture."""

    def dense(units, prior, **kwargs):
        # The prior of the Bayesian network as a penalty, and where they start.
        l2 = keras.regularizers.L2(NOISE**2 / (len(x) * prior**2))
        return keras.layers.Dense(
            units,
            kernel_initializer=keras.initializers.RandomNormal(stddev=prior),
            kernel_regularizer=l2,
            bias_initializer=keras.initializers.RandomNormal(stddev=prior),
            bias_regularizer=l2,
            **kwargs,
        )

    means = []
    for _ in range(size):
        hidden = dense(UNITS, PRIORS[0], activation="tanh")
        model = keras.Sequential([keras.Input((1,)), hidden, dense(1, PRIORS[1])])
        fit(model, "mse", x, y, steps)
        means.append(model.predict(grid, verbose=0)[:, 0])
    return np.mean(means, axis=0), np.std(means, axis=0)


def report(name, grid, mean, stddev, test):
    """Prints a row: at held-out points, and between them."""
    x, y = test[0][:, 0], test[1][:, 0]
    f, total = np.interp(x, grid, mean), np.hypot(np.interp(x, grid, stddev), NOISE)
    log_prob = stats.norm.logpdf(y, f, total).mean()
    rmse = np.sqrt(np.mean(np.square(f - y)))
    gap = np.abs(grid) < 0.4
    error = np.abs(mean - curve(grid))[gap]
    inside = np.mean(error < 2.0 * stddev[gap])
    print(
        f"{name:24}{rmse:8.3f}{log_prob:10.3f}{error.max():12.2f}"
        f"{stddev[gap].max():10.2f}{inside:12.0%}",
        flush=True,
    )


def draw(grid, results, train, path):
    """A panel for each."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7), sharex=True, sharey=True)
    for axis, (name, (mean, stddev)) in zip(
        axes.ravel(), results.items(), strict=False
    ):
        axis.fill_between(
            grid, mean - 2 * stddev, mean + 2 * stddev, alpha=0.3, label="2 stddev of f"
        )
        axis.plot(grid, mean, label="mean")
        axis.plot(grid, curve(grid), "k--", linewidth=1, label="truth")
        axis.scatter(*train, s=8, color="black", zorder=3)
        axis.set(title=name, ylim=(-3.0, 3.0))
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"\nPicture: {pathlib.Path(path).resolve()}")


def main(steps=4000, num_draws=500, path="one_problem_four_ways.png"):
    """Solves the problem four ways; on other backends than JAX, three."""
    keras.utils.set_random_seed(0)
    train, test = data()
    grid = np.linspace(-3.0, 3.0, 241, dtype="float32")
    results = {}
    print(
        f"{'':24}{'RMSE':>8}{'log p':>10}{'gap: error':>12}{'stddev':>10}{'inside':>12}"
    )
    ways = {
        "variational inference": (by_variational_inference, steps),
        "NUTS": (by_nuts, num_draws),
        "Gaussian process": (by_gaussian_process, max(1, steps // 10)),
        "ensemble": (by_ensemble, steps // 2),
    }
    if keras.backend.backend() != "jax":
        del ways["NUTS"]
        print("NUTS is left out: it runs on JAX (KERAS_BACKEND=jax)")
    for name, (way, effort) in ways.items():
        results[name] = way(*train, grid[:, None], effort)
        report(name, grid, *results[name], test)
    draw(grid, results, train, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--num-draws", type=int, default=500)
    parser.add_argument("--path", default="one_problem_four_ways.png")
    main(**vars(parser.parse_args()))
