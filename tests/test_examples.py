"""Every example runs, small."""

import importlib.util
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
SMALL = {
    "quickstart": {},
    "digits": {"epochs": 1, "train_size": 64, "num_draws": 2},
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


@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name, capsys):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(**SMALL[name])
    assert len(capsys.readouterr().out.splitlines()) > 3
