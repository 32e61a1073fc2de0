"""The Python of the README and of the guide, run as it is printed, each block in a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import catchment
from catchment import frontend
from fixtures import REPOSITORY, Node, Recorded, catchment_command

# 2026-11-21T06:00:37 TAI, where the guide's range of a channel begins.
START_NS = 1_795_240_837 * 10**9


def blocks(page: str, language: str = "python") -> list[str]:
    """Return a page's blocks of a language."""
    parts = (REPOSITORY / page).read_text().split(f"\n```{language}\n")[1:]
    return [part.split("\n```\n")[0] for part in parts]


def run_block(block: str, folder: Path) -> str:
    """Run it as a reader would, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=folder, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{block}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the guide's blocks run: RUN, MIRROR, CHANNELS and runs are as the guide says."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "RUN").symlink_to(recorded.path)
    (folder / "MIRROR").symlink_to(recorded.path)
    (folder / "runs").symlink_to(recorded.path.parent)
    channels = str(folder / "CHANNELS")
    timing = ["--seconds", "6", "--frame", "2 s", "--start", str(START_NS)]
    catchment_command("generate", "ligo-1000", "--out", channels, *timing)
    catchment_command("trend", channels)
    catchment_command("refs", channels)
    return folder


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.end()


def is_of_a_node(block: str) -> bool:
    return "catchment.Control(" in block


@pytest.mark.parametrize(
    "block", [block for block in blocks("docs/guide/python.md") if not is_of_a_node(block)]
)
def test_the_guides_blocks_run_as_printed(block: str, folder: Path) -> None:
    run_block(block, folder)


def test_the_guides_block_about_a_node_runs_as_printed(node: Node, tmp_path: Path) -> None:
    [block] = filter(is_of_a_node, blocks("docs/guide/python.md"))
    address = "http://127.0.0.1:8750"
    assert address in block
    # The state of the first moments is what it is.
    assert run_block(block.replace(address, node.url), tmp_path).endswith(" 3\n")


def test_the_guides_front_end_sends_as_printed(tmp_path: Path) -> None:
    [block, timed, commanded] = blocks("docs/guide/frontend.md")
    address = "catchment+tcp://127.0.0.1:7100"
    recorder = frontend.TestRecorder()
    assert len(block.splitlines()) <= 20
    assert address in block
    assert address in timed
    assert address in commanded
    run_block(block.replace(address, recorder.url), tmp_path)
    assert [key for key, _ in recorder.taken("camera")] == list(range(1000))
    run_block(timed.replace(address, recorder.url), tmp_path)
    run_block(commanded.replace(address, recorder.url), tmp_path)
    assert recorder.faults == []


# A machine with little memory can run tests beside each other.
SMALL = """
[memory]
budget = "256 MiB"
[write]
buffer_bytes = "256 KiB"
preallocate_bytes = "1 MiB"
"""


def test_the_guides_front_end_is_recorded_as_the_guide_says(tmp_path: Path) -> None:
    config, *_ = blocks("docs/guide/frontend.md", "toml")
    block, *_ = blocks("docs/guide/frontend.md")
    address = "127.0.0.1:7100"
    assert address in config
    (tmp_path / "run.toml").write_text(config.replace(address, "127.0.0.1:0") + SMALL)
    command = [sys.executable, "-m", "catchment", "run", "run.toml"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        line = next(line for line in recorder.stdout if line.startswith("Front-ends connect to"))
        run_block(block.replace(address, line.split()[-1].rstrip(".")), tmp_path)
        recorder.send_signal(signal.SIGINT)
        recorder.stdout.read()
    assert recorder.returncode == 0
    (run,) = (tmp_path / "runs").glob("run-*")
    with catchment.open(run) as recorded:
        assert list(recorded.events.keys) == list(range(1000))
        images = recorded["camera"].fragments().data.view(np.uint16).reshape(1000, 256, 256)
        assert (images == np.arange(1000, dtype=np.uint16)[:, None, None]).all()
    assert catchment.audit(run).verdict == "balanced"


def test_the_readmes_block_reads_the_run_of_its_ten_minutes(tmp_path: Path) -> None:
    # An address of this process, so that other tests do not send to it.
    identity = os.getpid()
    address = f"127.{1 + identity // 60_000 % 250}.{identity // 240 % 250}.{1 + identity % 240}"
    example = (REPOSITORY / "examples/minimal.toml").read_text()
    (tmp_path / "minimal.toml").write_text(example.replace("127.0.0.1", address))
    command = [sys.executable, "-m", "catchment", "run", "minimal.toml", "--emulate"]
    command += ["--events", "1000"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    # A busy machine may lose some.
    assert done.returncode in {0, 3}, done.stderr
    [block] = blocks("README.md")
    assert "trigger" in run_block(block, tmp_path)
