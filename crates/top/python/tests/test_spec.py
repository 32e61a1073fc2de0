"""The golden messages of the links are those of the specifications' tables."""

import os
import subprocess
import sys

from fixtures import REPOSITORY


def test_the_tables_of_the_links_make_the_golden_messages_on_pages_and_in_files() -> None:
    program = [sys.executable, str(REPOSITORY / "docs/spec/golden.py")]
    # No __pycache__ beside the pages.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    made = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
