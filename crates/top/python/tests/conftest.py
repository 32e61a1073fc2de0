"""What the tests read: the golden files of the format, and a run that the package recorded."""

import json
import subprocess
import sys
from pathlib import Path  # noqa: TC003 (pytest looks at the annotations)

import pytest

from fixtures import GOLDEN, Golden, Recorded


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> Golden:
    description: Path = request.param
    return Golden(description.with_suffix(".catch"), json.loads(description.read_text()))


@pytest.fixture(params=["events-raw", "events-lz4-missing"])
def closed_golden(request: pytest.FixtureRequest) -> Golden:
    description = next(path for path in GOLDEN if path.stem == request.param)
    return Golden(description.with_suffix(".catch"), json.loads(description.read_text()))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """One second of 90 emulated sources at 500 Hz."""
    out = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "catchment", "demo", "--json", "--seconds", "1"]
    command += ["--rate", "500", "--out", str(out)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folders = [path for path in out.iterdir() if path.is_dir()]
    assert len(folders) == 1, folders
    return Recorded(folders[0], json.loads(done.stdout))
