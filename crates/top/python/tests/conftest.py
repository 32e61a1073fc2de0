"""What the tests read: the golden files of the format, and a run that the package recorded."""

import json
import subprocess
import sys
from pathlib import Path  # noqa: TC003 (pytest looks at the annotations)

import pytest

from fixtures import GOLDEN, Generated, Golden, Recorded, generate


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
    folders = [path for path in out.iterdir() if path.name != ".catchment"]
    assert len(folders) == 1, folders
    return Recorded(folders[0], json.loads(done.stdout))


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    """Channels in every codec."""
    rules = {
        "L1:FAST-*": "shuffle+zstd:1",
        "L1:FAST-000?": "zstd:1",
        "L1:MEDIUM-*": "bitshuffle+lz4",
        "L1:MEDIUM-001?": "bitshuffle+zstd:1",
        "L1:SLOW-*": "pcodec",
        "L1:FAST-0001": "lz4",
        "L1:STATE-*": "for",
    }
    options = [f"--rule={pattern}={codec}" for pattern, codec in rules.items()]
    return generate(tmp_path_factory.mktemp("channels") / "run", *options)


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    """The same channels, uncompressed."""
    return generate(tmp_path_factory.mktemp("raw") / "run", "--codec", "none")
