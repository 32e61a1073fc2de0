"""The installed package."""

import ast
from importlib.metadata import metadata, version
from pathlib import Path
from typing import TypeGuard

import catchment
from catchment import _native


def test_the_version_is_the_installed_packages_version() -> None:
    assert catchment.__version__ == version("catchment")


def test_the_package_says_what_it_is_and_what_goes_with_it() -> None:
    about = metadata("catchment")
    assert "# Catchment" in about.json["description"]
    extras = {"xarray", "pandas", "arrow", "dask", "zarr", "all"}
    assert set(about.get_all("Provides-Extra") or []) == extras


def test_the_stubs_say_what_the_native_module_says() -> None:
    """What an editor shows for a name is what `help` prints."""
    stub = Path(catchment.__file__).with_name("_native.pyi")
    compared = 0
    for node in ast.parse(stub.read_text()).body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        native = getattr(_native, node.name)
        inner = node.body if isinstance(node, ast.ClassDef) else []
        parts = [(part, getattr(native, part.name)) for part in inner if _is_public(part)]
        for part, owner in [(node, native), *parts]:
            # Lines may be broken elsewhere.
            found = (ast.get_docstring(part) or "").split()
            assert found == (owner.__doc__ or "").split(), f"{node.name}: {ast.unparse(part)}"
            compared += bool(found)
    assert compared > 100


def _is_public(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
