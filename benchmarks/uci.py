"""Methods of uncertainty on the UCI regression data sets: log-likelihood and RMSE.

    python benchmarks/uci.py --output DIR                          # diabetes, bundled
    python benchmarks/uci.py --output DIR --data_dir DATA          # all sets below DATA
    python benchmarks/uci.py --output DIR --data_dir DATA --data energy --quick
    python benchmarks/uci.py --output DIR --data_dir DATA --methods nuts --data yacht

The protocol of Hernandez-Lobato and Adams (2015): 20 splits of 90% and 10%, drawn one
after another by `RandomState(1)`; inputs and outputs are standardized by the training
part; the table has the mean over splits of the log-likelihood per test example, in
nats, and of the RMSE, both in the units of the data, with their standard errors, and
the coverage of the central 90% intervals.

Each method of `uci_recipes.py` is one recipe, which does not know the data. A data set
is an `.npz` file with `X` and `y`, anywhere below DATA or named by its path. `--quick`
runs 3 splits.

`--validate` holds out a tenth of the training data of each split and scores on them
instead: a recipe is to be chosen so, and not by the test data.

Each result is a JSON file in DIR. What is there is not run again: a run that was cut
short goes on. A file does not know the recipe that made it: where that has changed,
give another DIR. `--processes` share the work, a core for each.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

NUM_SPLITS = 20
REQUIRED = ("flipout", "moments", "dropout", "ensemble", "sparse_gp", "deep_gp_2")


def files_of(names, data_dir):
    """Pairs of names and paths of the data sets; the bundled one has no path."""
    if data_dir is None and not names:
        return {"diabetes": None}
    found = {path.stem: path for path in pathlib.Path(data_dir or ".").rglob("*.npz")}
    files = {}
    for name in names or sorted(found):
        path = found.get(name, pathlib.Path(name))
        if name != "diabetes" and not path.exists():
            raise SystemExit(
                f"There is no {name}.npz below {data_dir}; see --data_dir."
            )
        files[path.stem] = None if name == "diabetes" else path
    return files


def load(path):
    """Inputs `[n, D]` and outputs `[n, 1]`."""
    if path is None:
        from sklearn.datasets import load_diabetes

        x, y = load_diabetes(return_X_y=True)
    else:
        with np.load(path) as arrays:
            x, y = arrays["X"], arrays["y"]
    return x.astype("float64"), y.reshape(-1, 1).astype("float64")


def split(x, y, number, validate=False):
    """Training and test data of a split, standardized, and the unit of y.

    To validate, the last tenth of the training data stand in for the test data.
    """
    rng = np.random.RandomState(1)
    for _ in range(number + 1):
        order = rng.permutation(len(x))
    train, test = np.split(order, [round(0.9 * len(x))])
    if validate:
        train, test = np.split(train, [round(0.9 * len(train))])

    def standardized(values):
        mean, stddev = values[train].mean(axis=0), values[train].std(axis=0)
        values = (values - mean) / np.where(stddev > 0.0, stddev, 1.0)
        return values[train].astype("float32"), values[test].astype("float32")

    (x_train, x_test), (y_train, y_test) = standardized(x), standardized(y)
    return (x_train, y_train), (x_test, y_test), float(y[train].std())


def run(path, method, number, validate=False):
    """The result of a method on a split, in the units of the data."""
    # Imported before keras, it selects JAX unless you have chosen a backend.
    import uci_recipes

    # isort: split
    import keras

    if method not in uci_recipes.RECIPES:
        raise SystemExit(f"--methods are {list(uci_recipes.RECIPES)}. Not: {method}")
    train, (x, y), unit = split(*load(path), number, validate)
    keras.utils.set_random_seed(number)
    start = time.perf_counter()
    prediction = uci_recipes.RECIPES[method](*train, seed=number)(x)
    low, high = prediction.interval(0.9)
    result = {
        "log_likelihood": np.mean(prediction.log_prob(y)) - np.log(unit),
        "rmse": unit * np.sqrt(np.mean(np.square(prediction.mean - y))),
        "coverage": np.mean((low <= y) & (y <= high)),
        "seconds": time.perf_counter() - start,
    }
    return {name: float(value) for name, value in result.items()}


def file_of(options, data, method, number):
    """Where a result is kept."""
    kind = "_validated" if options.validate else ""
    return pathlib.Path(options.output) / f"{data}_{method}_{number}{kind}.json"


def work(options, part):
    """Makes those of the missing results that are this process' part."""
    if hasattr(os, "sched_setaffinity"):  # Before JAX counts the cores.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[part % len(cores)]})
    for data, path in files_of(options.data, options.data_dir).items():
        for method in options.methods:
            for number in range(part, options.splits, options.processes):
                file = file_of(options, data, method, number)
                if file.exists():
                    continue
                result = run(path, method, number, options.validate)
                partial = file.with_suffix(".partial")
                partial.write_text(json.dumps(result))
                partial.rename(file)  # A run that is cut short leaves no half of one.


def share(options):
    """Runs as many processes as wanted, and waits for them."""
    pathlib.Path(options.output).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            # The splits of a data set have one shape: what was compiled is used again.
            "JAX_COMPILATION_CACHE_DIR": cache,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        command = [sys.executable, *sys.argv, "--part"]
        processes = [
            subprocess.Popen([*command, str(part)], env=environment)
            for part in range(options.processes)
        ]
        failed = [process.wait() for process in processes]
    if any(failed):
        raise SystemExit("A process failed; see above.")


def with_error(values):
    """The mean of numbers and its standard error, with decimals that show the error."""
    # Of one number there is no error.
    spread = np.std(values, ddof=1) if len(values) > 1 else np.nan
    error = spread / np.sqrt(len(values))
    decimals = 3 if not error > 0.0 else max(3, -math.floor(math.log10(error)))
    return f"{np.mean(values):.{decimals}f} +-{error:.{decimals}f}"


def table(options):
    """Prints means and standard errors over the splits."""
    kind = ", scored on held-out training data" if options.validate else ""
    print(f"{options.splits} splits{kind}")
    print(f"{'':24}{'log-likelihood':>18}{'RMSE':>18}{'in 90%':>10}{'seconds':>10}")
    for data in files_of(options.data, options.data_dir):
        for method in options.methods:
            results = [
                json.loads(file_of(options, data, method, number).read_text())
                for number in range(options.splits)
            ]
            values = {name: [r[name] for r in results] for name in results[0]}
            row = f"{data + ', ' + method:24}"
            for name in ("log_likelihood", "rmse"):
                row += f"{with_error(values[name]):>18}"
            row += f"{np.mean(values['coverage']):10.2f}"
            print(row + f"{np.mean(values['seconds']):10.1f}", flush=True)


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, help="directory of results")
    parser.add_argument("--data_dir", help="where to look for the data")
    parser.add_argument("--data", nargs="+", default=[], help="names or .npz files")
    parser.add_argument("--methods", nargs="+", default=list(REQUIRED))
    parser.add_argument("--splits", type=int, default=NUM_SPLITS)
    parser.add_argument("--quick", action="store_true", help="3 splits")
    parser.add_argument("--validate", action="store_true", help="not the test data")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.quick:
        options.splits = min(3, options.splits)
    return options


def main(options):
    """Makes the missing results, and prints the table."""
    if options.part is not None:
        work(options, options.part)
        return
    share(options)
    table(options)


if __name__ == "__main__":
    main(parse())
