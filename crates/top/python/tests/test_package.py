"""The installed package."""

from importlib.metadata import version

import catchment


def test_the_version_is_the_installed_packages_version() -> None:
    assert catchment.__version__ == version("catchment")
