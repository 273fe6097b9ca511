"""The benchmark of images runs, small, and goes on where it was cut short."""

import importlib
import json
import pathlib

import keras
import numpy as np
import pytest

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
NUM_PIXELS = 6


@pytest.fixture
def images(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("images")


@pytest.fixture
def recipes(images, monkeypatch):
    """The recipes with a network of few units, which is trained by all methods."""

    def small(dense, conv, between):
        return [keras.layers.Flatten(), dense(4, activation="relu"), *between()]

    recipes = images.image_recipes
    monkeypatch.setitem(recipes.NETWORKS, "mlp", small)
    monkeypatch.setattr(recipes, "NUM_DRAWS", 2)
    monkeypatch.setattr(recipes, "NUM_FEATURES", 8)
    monkeypatch.setattr(recipes, "ENSEMBLE_SIZE", 2)
    return recipes


@pytest.fixture
def arguments(tmp_path):
    """Arguments for data in files of the format of MNIST, all of random numbers."""
    rng = np.random.default_rng(0)
    for name in ("mnist", "fashion_mnist"):
        arrays = {}
        for part, count in {"train": 64, "test": 20}.items():
            shape = (count, NUM_PIXELS, NUM_PIXELS)
            arrays[f"x_{part}"] = rng.integers(256, size=shape).astype("uint8")
            arrays[f"y_{part}"] = rng.integers(10, size=count).astype("uint8")
        np.savez(tmp_path / f"{name}.npz", **arrays)
    return ["--data_dir", str(tmp_path), "--output", str(tmp_path / "results")]


def rows(text):
    return [line for line in text.splitlines() if line.startswith("mnist")]


@pytest.mark.parametrize(
    "methods",
    [
        ("deterministic", "dropout", "laplace", "sngp", "ensemble"),
        # Half of the time of all: their steps take long to compile.
        pytest.param(("flipout", "moped"), marks=pytest.mark.slow),
    ],
)
def test_images_have_a_result_of_each_method_which_is_not_run_again(
    images, recipes, arguments, methods, capsys, monkeypatch, tmp_path
):
    options = [*arguments, "--data", "mnist", "--networks", "mlp", "--quick"]
    options += ["--methods", *methods]
    images.main(images.parse(options))
    table = rows(capsys.readouterr().out)
    assert [row.split()[2] for row in table] == list(methods)
    for method in methods:
        file = tmp_path / "results" / f"mnist_mlp_{method}_0.json"
        result = json.loads(file.read_text())["result"]
        assert set(result) == set(images.COLUMNS)
        assert all(np.isfinite(value) for value in result.values())
        monkeypatch.setitem(recipes.METHODS, method, None)  # Cannot be run.
    images.main(images.parse(options))
    assert rows(capsys.readouterr().out) == table
    with pytest.raises(SystemExit, match="other settings"):
        images.main(images.parse([*options, "--validate"]))


def test_images_for_validation_are_not_those_of_training(images, arguments):
    (x, _), (x_test, _) = images.load("mnist", images.parse(arguments))
    (x_part, _), (x_new, _) = images.load(
        "mnist", images.parse([*arguments, "--validate"])
    )
    assert len(x) == 64 and len(x_test) == 20
    assert np.array_equal(np.concatenate([x_part, x_new]), x)
    assert len(x_new) == 10


def test_scores_of_images_are_those_of_their_definitions(images):
    probs = np.array([[0.75, 0.25], [0.75, 0.25]], "float32")
    other_probs = np.array([[0.5, 0.5], [1.0, 0.0]], "float32")
    scores = images.scores(probs, np.array([0, 1]), other_probs)
    expected = {
        "error": 0.5,
        "nll": -0.5 * np.log(0.75 * 0.25),
        "ece": 0.25,
        "auroc": 0.5,
    }
    for name, value in expected.items():
        assert float(scores[name]) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(("network", "size"), [("mlp", 478410), ("lenet", 61706)])
def test_networks_for_images_have_the_size_of_the_literature(images, network, size):
    model = images.image_recipes.classifier(network, (28, 28, 1))
    assert model.count_params() == size
