"""What tests are given: golden files with their descriptions, and recorded runs."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[4]
GOLDEN = sorted((REPOSITORY / "crates/format/frame/tests/golden").glob("v*/events-*.json"))

CONFIG = """
[run]
folder = "{folder}"
[memory]
budget = "256 MiB"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "4 MiB"
[frame]
time = "50 ms"
[control]
listen = "127.0.0.1:0"
emulate = true
start = "manual"
requests_per_second = 1000000
drain = "1 h"
[emulator]
preset = "hades-90"
rate = "200 Hz"
water_mark = 0
[[source_groups]]
group = "small"
count = 3
address = "127.0.0.1:0"
first_sub_event_id = 0x8000
"""


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


def free_port() -> int:
    """Return a free port, below those that the system gives to connections of other tests."""
    while True:
        port = 27_000 + secrets.randbelow(3_000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def catchment_command(*arguments: str, status: int = 0) -> dict[str, Any]:
    """Run the installed command, which ends so, and return the object that it prints."""
    command = [sys.executable, "-m", "catchment", *arguments, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def generate(path: Path, *options: str) -> Generated:
    """Six seconds of a thousand channels in frames of two."""
    start_ns = 1_800_000_000_000_000_000
    timing = ["--seconds", "6", "--frame", "2 s", "--start", str(start_ns)]
    catchment_command("generate", "ligo-1000", "--out", str(path), *timing, *options)
    return Generated(path, start_ns)


class Node:
    """`catchment run`, and the way to it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        config = folder / "node.toml"
        self.runs = folder / "runs"
        config.write_text(CONFIG.format(folder=self.runs))
        program = os.environ.get("CATCHMENT_PROGRAM")
        command = [program] if program else [sys.executable, "-m", "catchment"]
        self.process = subprocess.Popen(
            [*command, "run", str(config), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Serving "), line
        self.url = line.removeprefix("Serving ").strip()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code
