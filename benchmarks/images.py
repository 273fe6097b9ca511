"""Methods of uncertainty on MNIST and Fashion-MNIST: error, NLL, ECE, OOD AUROC.

    python benchmarks/images.py --output DIR
    python benchmarks/images.py --output DIR --data_dir DATA --data mnist
    python benchmarks/images.py --output DIR --methods deterministic flipout --quick

A fully connected network of 2 x 400 units and LeNet-5 are trained by each method of
`image_recipes.py`, by one recipe for both data sets and both networks, on all training
images. The table has, of the test images, the error in percent, the negative
log-likelihood (NLL) in nats and the expected calibration error in percent (ECE, 15
bins); and the AUROC in percent by which the entropy of the predictive distribution
tells them from the test images of the other data set (OOD). Means over seeds.

The data are `mnist.npz` and `fashion_mnist.npz` anywhere below DATA, with `x_train`,
`y_train`, `x_test` and `y_test`; what is not there `keras.datasets` fetches.

Each result is a JSON file in DIR. What is there is not run again: a run that was cut
short goes on, and two runs with other `--data` or `--networks` can share the work. A
file knows the arguments that it was made by, not the recipes: where these have changed,
give another DIR.

`--validate` holds out the last sixth of the training images and scores on them instead:
what was chosen in the recipes was chosen so, and not by the test images.
"""

import argparse
import json
import pathlib
import time

import numpy as np

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import image_recipes
import keras

OTHER = {"mnist": "fashion_mnist", "fashion_mnist": "mnist"}
COLUMNS = {"error": 100.0, "nll": 1.0, "ece": 100.0, "auroc": 100.0, "seconds": 1.0}


def arrays_of(name, data_dir):
    """The arrays of a data set, from its file if there is one."""
    found = (
        [] if data_dir is None else sorted(pathlib.Path(data_dir).rglob(f"{name}.npz"))
    )
    if not found:
        train, test = getattr(keras.datasets, name).load_data()
        return *train, *test
    with np.load(found[0]) as file:
        return tuple(file[key] for key in ("x_train", "y_train", "x_test", "y_test"))


def load(name, options):
    """Images `[n, 28, 28, 1]` between 0 and 1, and labels: to learn from, and new."""
    x, y, x_new, y_new = arrays_of(name, options.data_dir)
    if options.validate:
        held_out = len(x) // 6
        x, x_new, y, y_new = x[:-held_out], x[-held_out:], y[:-held_out], y[-held_out:]
    x, y = x[: options.train_size], y[: options.train_size]
    x_new, y_new = x_new[: options.test_size], y_new[: options.test_size]
    images = [part[..., None].astype("float32") / 255.0 for part in (x, x_new)]
    labels = [part.astype("int32") for part in (y, y_new)]
    return (images[0], labels[0]), (images[1], labels[1])


def scores(probs, labels, other_probs):
    """What the table says of predictions for new images, and for other ones."""
    known, other = (
        -np.sum(p * np.log(p + 1e-12), axis=-1) for p in (probs, other_probs)
    )
    is_other = np.repeat([0, 1], [len(known), len(other)])
    ece = bl.metrics.ExpectedCalibrationError(num_bins=15)
    chosen = np.take_along_axis(probs, labels[:, None], axis=-1)
    return {
        "error": np.mean(np.argmax(probs, axis=-1) != labels),
        "nll": -np.mean(np.log(chosen + 1e-12)),
        "ece": ece(labels, probs),
        "auroc": bl.metrics.AUROC()(is_other, np.concatenate([known, other])),
    }


def run(data, network, method, seed, options):
    """One result."""
    (x, y), (x_new, y_new) = load(data, options)
    x_other = load(OTHER[data], options)[1][0]
    keras.utils.set_random_seed(seed)
    start = time.perf_counter()
    model = image_recipes.METHODS[method](network, x, y, options.epochs)
    seconds = time.perf_counter() - start
    probs, other_probs = (
        image_recipes.probabilities(method, model, part) for part in (x_new, x_other)
    )
    result = {**scores(probs, y_new, other_probs), "seconds": seconds}
    return {name: float(value) for name, value in result.items()}


def settings_of(options):
    """What all results of a directory have in common."""
    names = ("epochs", "train_size", "test_size", "validate")
    return {name: getattr(options, name) for name in names}


def result_of(data, network, method, seed, options):
    """A result, from its file if there is one."""
    file = pathlib.Path(options.output) / f"{data}_{network}_{method}_{seed}.json"
    settings = settings_of(options)
    if file.exists():
        stored = json.loads(file.read_text())
        if stored["settings"] != settings:
            raise SystemExit(
                f"{file} is of other settings, {stored['settings']}, than "
                f"{settings}. Give another --output."
            )
        return stored["result"]
    result = run(data, network, method, seed, options)
    stored = {
        "settings": settings,
        "backend": keras.backend.backend(),
        "result": result,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(stored, indent=2))
    partial.rename(file)  # A run that is cut short leaves no half of a result.
    return result


def main(options):
    """Prints a table, row by row."""
    if options.quick:
        options.epochs, options.train_size, options.test_size = 1, 256, 200
    print(f"{settings_of(options)}, seeds {options.seeds}")
    print(f"{'':38}" + "".join(f"{column:>10}" for column in COLUMNS))
    for data in options.data:
        for network in options.networks:
            for method in options.methods:
                results = [
                    result_of(data, network, method, seed, options)
                    for seed in options.seeds
                ]
                cells = [
                    f"{scale * np.mean([r[column] for r in results]):10.4g}"
                    for column, scale in COLUMNS.items()
                ]
                name = f"{data}, {network}, {method}"
                print(f"{name:38}" + "".join(cells), flush=True)


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, help="directory of results")
    parser.add_argument("--data_dir", help="where to look for the data")
    for name, choices in {
        "data": OTHER,
        "networks": image_recipes.NETWORKS,
        "methods": image_recipes.METHODS,
    }.items():
        parser.add_argument(
            f"--{name}", nargs="+", choices=list(choices), default=list(choices)
        )
    parser.add_argument("--epochs", type=int, default=15, help="of the plain network")
    parser.add_argument("--train_size", type=int, help="leave out training images")
    parser.add_argument("--test_size", type=int, help="leave out new images")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--validate", action="store_true", help="not the test images")
    parser.add_argument("--quick", action="store_true", help="small, to see it run")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(parse())
