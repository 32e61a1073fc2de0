"""What tests are given: golden files with their descriptions, and recorded runs."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[4]
GOLDEN = sorted((REPOSITORY / "crates/format/frame/tests/golden").glob("v*/events-*.json"))


@dataclass(frozen=True)
class Golden:
    """A golden file and what its description says is in it."""

    path: Path
    about: dict[str, Any]

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The frames that hold events."""
        return [frame for frame in self.about["frames"] if frame["keys"]]

    def fragments(self, source: str) -> list[tuple[int, bytes | None]]:
        """Key and fragment of every event, None where it is missing."""
        return [
            (key, None if text is None else bytes.fromhex(text))
            for frame in self.frames
            for key, text in zip(frame["keys"], frame["fragments"][source], strict=True)
        ]


@dataclass(frozen=True)
class Recorded:
    """A run that the installed command recorded, and the summary that it printed."""

    path: Path
    summary: dict[str, Any]


@dataclass(frozen=True)
class Generated:
    """A run of emulated channels, and when it begins."""

    path: Path
    start_ns: int


def catchment_command(*arguments: str) -> dict[str, Any]:
    """Run the installed command, and return the object that it prints."""
    command = [sys.executable, "-m", "catchment", *arguments, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def generate(path: Path, *options: str) -> Generated:
    """Six seconds of a thousand channels in frames of two."""
    start_ns = 1_800_000_000_000_000_000
    timing = ["--seconds", "6", "--frame", "2 s", "--start", str(start_ns)]
    catchment_command("generate", "ligo-1000", "--out", str(path), *timing, *options)
    return Generated(path, start_ns)
