"""Builds the wheel with the page inside: `cargo xtask web` first, then maturin (pyproject.toml)."""

import subprocess
import sys
from pathlib import Path

import maturin
from maturin import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).parents[1]


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, str] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the page, if its sources and Node are there, and then the wheel."""
    if (ROOT / "web/package.json").exists():
        made = subprocess.run(["cargo", "xtask", "web"], cwd=ROOT, check=False)
        if made.returncode != 0:
            sys.stderr.write("The page could not be built: the wheel is made without it.\n")
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
