import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bayesian_layers.default_backend import select_default_backend

WRITTEN_BY_KERAS = {
    "floatx": "float32",
    "epsilon": 1e-07,
    "backend": "tensorflow",
    "image_data_format": "channels_last",
}
BACKENDS = {"jax", "tensorflow", "torch"}
OPTIONAL = {"matplotlib", "scipy", "sklearn", "numpyro", "arviz"}

PRINT_BACKEND = """
import bayesian_layers
import keras
print(keras.backend.backend())
"""

# Keras itself imports several optional packages if they are installed, so what
# counts is who imports: modules of this package, or anything Keras did not need.
PRINT_IMPORTS = """
import builtins
import sys
import keras

def root(name):
    return name.partition(".")[0]

before = {root(name) for name in sys.modules}
original, imported = builtins.__import__, set()

def record(name, globals=None, locals=None, fromlist=(), level=0):
    if level == 0 and root((globals or {}).get("__name__", "")) == "bayesian_layers":
        imported.add(root(name))
    return original(name, globals, locals, fromlist, level)

builtins.__import__ = record
import bayesian_layers

print(*imported | ({root(name) for name in sys.modules} - before))
"""


@pytest.fixture
def keras_home(monkeypatch, tmp_path):
    """The state of a process that has not imported Keras and selected no backend."""
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    # Set first, so that what the function under test sets is undone as well.
    monkeypatch.setenv("KERAS_BACKEND", "")
    monkeypatch.delenv("KERAS_BACKEND")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "jax" or None)
    return tmp_path


def selected():
    select_default_backend()
    return os.environ.get("KERAS_BACKEND")


def run(script, **environment):
    """Returns the words that `script` prints in a new process."""
    inherited = {k: v for k, v in os.environ.items() if k != "KERAS_BACKEND"}
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[1],
        env=inherited | environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_jax_is_selected_when_nothing_is(keras_home):
    assert selected() == "jax"


def test_an_empty_variable_is_no_selection(keras_home, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "")
    assert selected() == "jax"


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_the_environment_variable_is_respected(keras_home, monkeypatch, backend):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    assert selected() == backend


def test_nothing_is_selected_once_keras_is_imported(keras_home, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", object())
    assert selected() is None


def test_nothing_is_selected_without_jax(keras_home, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert selected() is None


@pytest.mark.parametrize(
    "config",
    [
        {"backend": "torch"},
        {"backend": "tensorflow"},
        WRITTEN_BY_KERAS | {"backend": "torch"},
        WRITTEN_BY_KERAS | {"floatx": "float64"},
    ],
)
def test_a_config_file_of_the_user_is_respected(keras_home, config):
    (keras_home / "keras.json").write_text(json.dumps(config))
    assert selected() is None


def test_the_config_file_is_found_in_the_home_directory(keras_home, monkeypatch):
    monkeypatch.delenv("KERAS_HOME")
    monkeypatch.setenv("HOME", str(keras_home))
    (keras_home / ".keras").mkdir()
    (keras_home / ".keras" / "keras.json").write_text('{"backend": "torch"}')
    assert selected() is None


@pytest.mark.parametrize(
    "text",
    [json.dumps(WRITTEN_BY_KERAS), '{"floatx": "float64"}', "", "{", "[]", "null"],
)
def test_a_config_file_without_a_selection_leaves_the_default(keras_home, text):
    (keras_home / "keras.json").write_text(text)
    assert selected() == "jax"


def test_the_file_keras_writes_does_not_change_the_next_process(tmp_path):
    home = {"KERAS_HOME": str(tmp_path)}
    assert run(PRINT_BACKEND, **home) == ["jax"]
    assert json.loads((tmp_path / "keras.json").read_text()) == WRITTEN_BY_KERAS
    assert run(PRINT_BACKEND, **home) == ["jax"]


def test_the_package_imports_neither_optional_packages_nor_other_backends():
    import keras

    backend = keras.backend.backend()
    imported = set(run(PRINT_IMPORTS, KERAS_BACKEND=backend))
    assert "keras" in imported
    assert not imported & (OPTIONAL | BACKENDS - {backend})
