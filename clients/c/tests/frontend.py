"""Front-ends of tests: the C client's driver, compiled, and what its fragments are made of."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from taken import Item, Log

HERE = Path(__file__).parent
CLIENT = HERE.parent
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g"]
NO_KEY = 2**64 - 1
# No machine is so slow: what takes as long as this does not come.
LONG_MS = 600_000


def compiled(
    folder: Path,
    name: str,
    *sources: str,
    flags: list[str] | None = None,
    compiler: str = "CC",
    libraries: tuple[str, ...] = (),
) -> Path:
    """A program made of sources of the client, without warnings."""
    program = folder / name
    chosen = os.environ.get(compiler, "cc" if compiler == "CC" else "c++").split()
    given = [str(CLIENT / source) for source in sources]
    options = WARNINGS if compiler == "CC" else WARNINGS[1:]
    command = [*chosen, *options, *(flags or SANITIZERS), f"-I{CLIENT}", "-o", str(program), *given]
    command += [*libraries, "-lpthread"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return program


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The front-end that does what a test says, with the sanitizers."""
    return compiled(tmp_path_factory.mktemp("c"), "driver", "tests/driver.c", "catchment.c")


class FrontEnd:
    """A front-end of its own process, which answers each line by one."""

    def __init__(self, program: Path, url: str, **options: object) -> None:
        given = [f"{key}={value}" for key, value in {"connect_ms": LONG_MS, **options}.items()]
        by = [sys.executable] if program.suffix == ".py" else []
        self.process = subprocess.Popen(
            [*by, program, url, "camera", *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.is_answered = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def answer(self) -> dict[str, Any]:
        """The answer to the last line, or how the connection was opened."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr
            raise AssertionError(self.process.stderr.read())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def tell(self, line: str) -> None:
        """Gives a line; its answer is to be read."""
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line: str) -> dict[str, Any]:
        self.tell(line)
        return self.answer()

    def opened(self) -> Self:
        answer = self.answer()
        assert answer["result"] == 0, answer
        return self

    def close(self, wait_ms: int = LONG_MS) -> int:
        """Closes, and returns what was not confirmed; the process has ended in order."""
        unconfirmed: int = self.do(f"close {wait_ms}")["unconfirmed"]
        _, errors = self.process.communicate()
        assert (self.process.returncode, errors) == (0, ""), errors
        return unconfirmed


def error_of(program: Path, url: str, **options: object) -> str:
    """Why a front-end was not connected, which tries again and again.

    It has more and more time, until one try has come to its end.
    """
    connect_ms, error = 200, "no answer"
    while "no answer" in error:
        with FrontEnd(program, url, connect_ms=connect_ms, **options) as camera:
            answer = camera.answer()
            assert answer["result"] < 0
            error = answer["error"]
        connect_ms *= 2
    return error


def payload(source: int, key: int, size: int) -> bytes:
    begin = (key * 31 + source * 7) % 256
    return (bytes(range(256)) * (size // 256 + 2))[begin : begin + size]


def check_sequences(log: Log) -> None:
    """Each item follows the one before: nothing is lost, and nothing is there twice."""
    position = 0
    for item in log.items:
        assert item.sequence == position
        position += item.count
    assert position == log.expected


def check_fragments(log: Log, source: int, sizes: list[int], first: int = 0) -> None:
    """The fragments of a log are those that the driver made: in order, byte by byte."""
    check_sequences(log)
    fragments: list[Item] = log.fragments
    assert [item.key for item in fragments] == list(range(first, first + len(sizes)))
    for item, size in zip(fragments, sizes, strict=True):
        assert item.data == payload(source, item.key, size), item.key
