"""Deep Gaussian processes on a regression data set.

Compares a linear model, a sparse Gaussian process, and deep Gaussian processes of two
and three layers by the log-likelihood of test data, over several of the splits that are
usual for the UCI data sets: 90 % for training, from `RandomState(1)`. Nothing is tuned
to a data set. By default the data are the diabetes study that comes with scikit-learn;
`--data` names an `.npz` file with arrays X and y, such as `energy.npz`.

    python examples/deep_gp.py --data energy.npz --splits 5
"""

import argparse

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np


def load(path=None):
    """Inputs `[n, D]` and targets `[n, 1]`."""
    if path is None:
        from sklearn.datasets import load_diabetes

        x, y = load_diabetes(return_X_y=True)
    else:
        with np.load(path) as data:
            x, y = data["X"], data["y"]
    return x.astype("float64"), y.reshape(-1, 1).astype("float64")


def split(x, y, rng):
    """Training and test data, standardized by the training data, and the unit of y."""
    order = rng.permutation(len(x))
    train, test = np.split(order, [round(0.9 * len(x))])

    def standardized(values):
        mean, stddev = values[train].mean(axis=0), values[train].std(axis=0)
        values = (values - mean) / np.where(stddev > 0.0, stddev, 1.0)
        return values.astype("float32")

    x, unit = standardized(x), float(y[train].std())
    y = standardized(y)
    return (x[train], y[train]), (x[test], y[test]), unit


def linear_model(x, y):
    """A line through the data, with noise."""
    return keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            keras.layers.Dense(1),
            bl.layers.GaussianLikelihood(),
        ]
    )


def process(num_layers, num_inducing):
    """A function that makes a Gaussian process of so many layers for some data."""

    def make(x, y):
        return bl.layers.deep_gaussian_process(
            x, num_layers=num_layers, num_inducing=num_inducing, y=y, seed=0
        )

    return make


def evaluate(make, train, test, unit, steps, num_samples):
    """Trains a model; its log-likelihood per example and error, in the units of y."""
    x, y = train
    model = make(x, y)
    is_process = len(model.losses) > 0
    batch_size = min(len(x), 512)
    epochs = max(1, round(steps * batch_size / len(x)))
    decay = keras.optimizers.schedules.CosineDecay(0.03, steps)
    model.compile(keras.optimizers.Adam(decay), bl.losses.NegativeLogLikelihood())
    # Inner layers have to learn something before the KL counts, or may never do.
    schedule = bl.callbacks.KLSchedule(dataset_size=len(x))
    model.fit(
        x, y, batch_size=batch_size, epochs=epochs, verbose=0, callbacks=[schedule]
    )
    prediction = bl.predict(
        model, test[0], num_samples=num_samples if is_process else 1, seed=0, verbose=0
    )
    log_likelihood = prediction.log_prob(test[1]).mean() - np.log(unit)
    error = unit * np.sqrt(np.mean(np.square(prediction.mean - test[1])))
    return log_likelihood, error


def main(data=None, splits=3, steps=4000, num_inducing=100, num_samples=100):
    """Prints a table of test log-likelihoods and errors."""
    x, y = load(data)
    print(f"{len(x)} examples with {x.shape[1]} inputs, {splits} splits, {steps} steps")
    models = {
        "linear model": linear_model,
        "sparse process": process(1, num_inducing),
        "deep, 2 layers": process(2, num_inducing),
        "deep, 3 layers": process(3, num_inducing),
    }
    rng = np.random.RandomState(1)
    parts = [split(x, y, rng) for _ in range(splits)]
    print(f"{'':16}{'log-likelihood':>24}{'RMSE':>20}")
    for name, make in models.items():
        results = []
        for number, part in enumerate(parts):
            keras.utils.set_random_seed(number)
            results.append(evaluate(make, *part, steps, num_samples))
        results = np.array(results)
        means = results.mean(axis=0)
        errors = results.std(axis=0, ddof=1 if splits > 1 else 0) / np.sqrt(splits)
        likelihood, rmse = (
            f"{m:.3f} +- {e:.3f}" for m, e in zip(means, errors, strict=True)
        )
        print(f"{name:16}{likelihood:>24}{rmse:>20}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="an .npz file with arrays X and y")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--num-inducing", type=int, default=100)
    parser.add_argument("--num-samples", type=int, default=100)
    main(**vars(parser.parse_args()))
