"""Packages that only some functions need."""

import importlib
from typing import Any


def optional_module(module: str, extra: str) -> Any:
    """Imports a module that comes with an extra, or says how to install that.

    Args:
        module: The name of the module.
        extra: The name of the extra of this package, as in `pyproject.toml`.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"This needs {module.split('.')[0]}, which comes with the extra `{extra}`: "
            f'`pip install "bayesian-layers[{extra}]"`.'
        ) from error
