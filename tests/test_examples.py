"""Every example runs, small."""

import importlib.util
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
SMALL = {
    "quickstart": {"epochs": 2, "num_samples": 3},
    "digits": {"epochs": 1, "train_size": 64, "num_draws": 2},
    "vae": {"epochs": 1, "units": 2, "code_size": 2, "batch_size": 500},
    "mixture_density": {"epochs": 1, "count": 64},
    "deep_gp": {"splits": 1, "steps": 2, "num_inducing": 5, "num_samples": 2},
    "density_2d": {"epochs": 1, "count": 64, "num_layers": 1, "units": 4},
    "real_nvp": {"epochs": 1, "hidden_dims": (8,), "batch_size": 500},
    "cox_process": {"splits": 1, "steps": 2, "num_samples": 2},
    "one_problem_four_ways": {"steps": 20, "num_draws": 3},
    "sngp": {"epochs": 1, "units": 4, "num_blocks": 1, "num_features": 8},
    "bayesian_rnn": {
        "epochs": 1,
        "units": 4,
        "length": 5,
        "num_draws": 2,
        "num_characters": 500,
    },
}


def test_every_example_is_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SMALL)


# The other branches of examples that have several.
BRANCHES = [
    ("vae", {**SMALL["vae"], "network": "dense"}),
    ("vae", {**SMALL["vae"], "images": "photos"}),
    ("cox_process", {**SMALL["cox_process"], "splits": 0, "data": "redwood"}),
]


@pytest.mark.parametrize(("name", "arguments"), [*SMALL.items(), *BRANCHES])
def test_example_runs(name, arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Pictures are written to the current directory.
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(**arguments)
    assert len(capsys.readouterr().out.splitlines()) > 3
