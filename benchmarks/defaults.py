"""Defaults that train: networks and their Bayesian twins, one recipe for all data.

    python benchmarks/defaults.py
    python benchmarks/defaults.py --data_dir DIR --data concrete energy yacht wine power
    python benchmarks/defaults.py --data_dir DIR --data mnist fashion_mnist \\
        --train_size 6000 --epochs 30

The first line needs scikit-learn only, which brings digits and diabetes. The others
look below DIR for `<name>.npz`: `X` and `y` for regression (the UCI sets), `x_train`,
`y_train`, `x_test` and `y_test` for images.

Regression follows Hernandez-Lobato and Adams (2015): splits of 90% and 10%, drawn one
after another by `RandomState(1)`, inputs and outputs standardized by the training part,
one hidden layer of 50 relu units and noise that is the same for all inputs; RMSE and
NLL are in the units of the data. Images have two hidden layers of 128 units. Both are
trained by Adam on batches of 32, and by `KLSchedule` as it is unless told otherwise.

The last column is the coverage of the central 90% interval (regression), or the
expected calibration error (classes).
"""

import argparse
import pathlib

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np

LAYERS = {
    "deterministic": keras.layers.Dense,
    "flipout": bl.layers.DenseFlipout,
    "local": bl.layers.DenseLocalReparameterization,
    "reparameterization": bl.layers.DenseReparameterization,
}


def load(name, data_dir):
    """The inputs and outputs of a data set, and its test set if it has one."""
    if name in ("digits", "diabetes"):
        from sklearn import datasets

        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return x / 16.0 if name == "digits" else x, y, None
    found = sorted(pathlib.Path(data_dir or ".").rglob(f"{name}.npz"))
    if not found:
        raise SystemExit(f"There is no {name}.npz below {data_dir}; see --data_dir.")
    arrays = np.load(found[0])
    if "X" in arrays:
        return arrays["X"], arrays["y"].reshape(-1), None
    x, x_test = (arrays[key] / 255.0 for key in ("x_train", "x_test"))
    test = x_test.reshape(len(x_test), -1), arrays["y_test"]
    return x.reshape(len(x), -1), arrays["y_train"], test


def splits(x, y, test, count, train_size):
    """Pairs of training and test data, of the standard protocol if none are given."""
    rng = np.random.RandomState(1)
    for _ in range(count):
        order = rng.choice(range(len(x)), len(x), replace=False)
        size = int(round(0.9 * len(x))) if test is None else len(x)
        train, rest = order[:size], order[size:]
        train = train[: train_size or size]
        yield (x[train], y[train]), test or (x[rest], y[rest])


def dense(name, fan_in, units, options, **kwargs):
    """A layer; a Bayesian one may have another initial scale or prior."""
    if name != "deterministic" and options.initial_noise is not None:
        stddev = options.initial_noise / np.sqrt(fan_in)
        untransformed = keras.initializers.Constant(np.log(np.expm1(stddev)))
        kwargs["kernel_initializer"] = bl.initializers.TrainableNormal(
            stddev_initializer=untransformed
        )
    if name != "deterministic" and options.prior_stddev is not None:
        kwargs["kernel_regularizer"] = bl.regularizers.NormalKLDivergence(
            stddev=options.prior_stddev
        )
    return LAYERS[name](units, **kwargs)


def train(name, x, y, sizes, head, options):
    """A trained network."""
    layers = [keras.Input((x.shape[1],))]
    fan_in = x.shape[1]
    for units in sizes[:-1]:
        layers.append(dense(name, fan_in, units, options, activation="relu"))
        fan_in = units
    layers += [dense(name, fan_in, sizes[-1], options), head]
    model = keras.Sequential(layers)
    optimizer = keras.optimizers.Adam(options.learning_rate)
    model.compile(optimizer, bl.losses.NegativeLogLikelihood())
    warmup = {}
    if options.warmup_share is not None:
        warmup["warmup_epochs"] = int(options.warmup_share * options.epochs)
    schedule = bl.callbacks.KLSchedule(
        dataset_size=len(x), final_weight=options.kl_weight, **warmup
    )
    model.fit(
        x,
        y,
        batch_size=options.batch_size,
        epochs=options.epochs,
        callbacks=[schedule],
        verbose=0,
    )
    return model


def regression(name, train_data, test_data, options):
    """RMSE, NLL and coverage, in the units of the data."""
    (x, y), (x_test, y_test) = train_data, test_data
    scale = np.std(x, axis=0)
    scale[scale == 0.0] = 1.0
    mean, y_mean, y_scale = np.mean(x, axis=0), np.mean(y), np.std(y)
    x, x_test = ((part - mean) / scale for part in (x, x_test))
    y, y_test = ((part - y_mean) / y_scale for part in (y, y_test))
    head = bl.layers.Normal(homoscedastic=True)
    model = train(name, x, y[:, None], (50, 1), head, options)
    prediction = bl.predict(model, x_test, options.num_samples, seed=0, verbose=0)
    rmse = y_scale * np.sqrt(np.mean((prediction.mean[:, 0] - y_test) ** 2))
    nll = np.log(y_scale) - np.mean(prediction.log_prob(y_test[:, None]))
    low, high = prediction.interval(0.9)
    coverage = np.mean((low[:, 0] <= y_test) & (y_test <= high[:, 0]))
    return rmse, nll, coverage


def classification(name, train_data, test_data, options):
    """Accuracy, NLL and expected calibration error."""
    (x, y), (x_test, y_test) = train_data, test_data
    sizes = (128, 128, int(np.max(y)) + 1)
    model = train(name, x, y, sizes, bl.layers.Categorical(), options)
    probs = bl.predict(model, x_test, options.num_samples, seed=0, verbose=0).probs
    chosen = np.take_along_axis(probs, y_test[:, None].astype(int), axis=-1)
    correct = np.argmax(probs, axis=-1) == y_test
    ece = float(bl.metrics.ExpectedCalibrationError()(y_test, probs))
    return np.mean(correct), -np.mean(np.log(chosen + 1e-12)), ece


def main(options):
    """Prints a table, of means over splits."""
    print(f"{vars(options)}")
    print(f"{'':14}{'':20}{'RMSE/acc.':>10}{'NLL':>8}{'cover./ECE':>12}")
    for name in options.data:
        x, y, test = load(name, options.data_dir)
        is_regression = not np.issubdtype(y.dtype, np.integer)
        measure = regression if is_regression else classification
        for layer in options.layers:
            keras.utils.set_random_seed(0)
            rows = [
                measure(layer, *split, options)
                for split in splits(x, y, test, options.splits, options.train_size)
            ]
            first, nll, last = np.mean(rows, axis=0)
            print(f"{name:14}{layer:20}{first:10.3f}{nll:8.3f}{last:12.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=["digits", "diabetes"])
    parser.add_argument("--data_dir")
    parser.add_argument(
        "--layers",
        nargs="+",
        choices=list(LAYERS),
        default=["deterministic", "flipout", "local"],
    )
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--train_size", type=int, help="leave out training examples")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--num_samples", type=int, default=100)
    parser.add_argument("--warmup_share", type=float, help="of the epochs")
    parser.add_argument("--kl_weight", type=float, default=1.0, help="tempers")
    parser.add_argument("--prior_stddev", type=float)
    parser.add_argument(
        "--initial_noise", type=float, help="initial scale * sqrt(fan-in)"
    )
    main(parser.parse_args())
