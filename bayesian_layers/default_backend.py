"""The choice of a Keras backend for users who have made none."""

import importlib.util
import json
import os
import sys

# The file Keras writes on its first import, whatever KERAS_BACKEND says.
_WRITTEN_BY_KERAS = {
    "floatx": "float32",
    "epsilon": 1e-7,
    "backend": "tensorflow",
    "image_data_format": "channels_last",
}


def select_default_backend():
    """Selects JAX as the Keras backend if the user has selected none.

    Keras decides on its backend while it is imported, so this runs before. It sets
    the environment variable `KERAS_BACKEND` to `"jax"` if all of these hold:

    * Keras is not imported yet;
    * `KERAS_BACKEND` is unset, or empty, which Keras takes for unset;
    * `keras.json` selects no backend. Keras writes this file on its first import,
      so one equal to what Keras writes is no selection;
    * JAX is installed.

    A selection by the user is never overridden.
    """
    if "keras" in sys.modules or os.environ.get("KERAS_BACKEND"):
        return
    if _config_selects_backend(_read_config()):
        return
    if importlib.util.find_spec("jax") is not None:
        os.environ["KERAS_BACKEND"] = "jax"


def _config_selects_backend(config):
    return "backend" in config and config != _WRITTEN_BY_KERAS


def _read_config():
    """Returns the content of `keras.json`, empty if there is none to be read."""
    try:
        with open(_config_path()) as file:
            config = json.load(file)
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def _config_path():
    """Returns where Keras looks for `keras.json` (`keras/src/backend/config.py`)."""
    if "KERAS_HOME" in os.environ:
        directory = os.environ["KERAS_HOME"]
    else:
        home = os.path.expanduser("~")
        directory = os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    return os.path.expanduser(os.path.join(directory, "keras.json"))
