"""Packages that are used where they are installed."""

import importlib
from typing import Any


def optional(name: str) -> Any:  # noqa: ANN401 (a module without a type of its own)
    """Import a package, or say what is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"this needs {package}: pip install {package}", name=name) from error
