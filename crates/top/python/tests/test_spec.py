"""The golden messages of the links are those of the specifications' tables."""

import os
import subprocess
import sys

import pytest

from fixtures import REPOSITORY


@pytest.mark.parametrize("name", ["golden.py", "golden_trains.py"])
def test_the_specifications_make_the_golden_messages_on_pages_and_in_files(name: str) -> None:
    program = [sys.executable, str(REPOSITORY / "docs/spec" / name)]
    # No __pycache__ beside the pages.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    made = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
