"""Several folders of one run, read as one: what one lacks is read from another."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment
from catchment import frontend
from fixtures import free_port, generate

CONFIG = """
[memory]
budget = "256 MiB"
[write]
buffer_bytes = "256 KiB"
preallocate_bytes = "1 MiB"
file_bytes = "192 KiB"
[frame]
bytes = "64 KiB"
[emulator]
preset = "hades-90"
rate = "1 kHz"
[[source_groups]]
group = "small"
count = 10
address = "127.0.0.1:0"
first_sub_event_id = 0x8000
[[targets]]
name = "raid"
folder = "raid"
[[targets]]
name = "mirror"
folder = "mirror"
"""


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Record one run to two targets."""
    (tmp_path / "run.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "catchment", "run", "run.toml", "--emulate"]
    command += ["--events", "1000"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    # A busy machine may lose some.
    assert done.returncode in {0, 3}, done.stderr
    return [next((tmp_path / target).glob("run-*")) for target in ("raid", "mirror")]


def remove(folder: Path, *indices: int) -> None:
    """Remove some of a folder's files."""
    files = sorted(folder.glob("*.catch"))
    assert len(files) >= 4, files
    for index in indices:
        files[index].unlink()


def same_events(run: catchment.Run, whole: catchment.Run) -> None:
    """Compare everything of one run of events with another."""
    assert len(run.events) == len(whole.events)
    for name in ("keys", "times", "flags"):
        assert np.array_equal(getattr(run.events, name), getattr(whole.events, name))
    assert len(run.frames()) == len(whole.frames())
    for source in whole.sources.values():
        mine, other = run[source.name].fragments(), source.fragments()
        assert np.array_equal(mine.data, other.data)
        assert np.array_equal(mine.offsets, other.offsets)
        assert np.array_equal(mine.keys, other.keys)
    *_, last = whole.sources
    for frame, expected in zip(run.frames(), whole.frames(), strict=True):
        assert np.array_equal(frame.keys, expected.keys)
        assert np.array_equal(frame[last].data, expected[last].data)
    key = int(whole.events.keys[len(whole.events) // 2])
    fragment = whole[last].event(key)
    assert fragment is not None
    same = run[last].event(key)
    assert same is not None
    assert np.array_equal(same, fragment)


def test_each_event_of_two_targets_is_read_once(folders: list[Path]) -> None:
    with catchment.open(folders) as run, catchment.open(folders[0]) as whole:
        same_events(run, whole)
        assert run.ledger.total == whole.ledger.total
        assert (run.paths, run.path) == (folders, folders[0])
        assert run.ledger_path == folders[0]
        assert run.problems == []
        assert " and 1 " in repr(run)
        assert whole.paths == [folders[0]]
    assert catchment.verify(folders).intact


def test_an_audit_says_what_each_folder_has(folders: list[Path]) -> None:
    assert catchment.audit(folders[0]).folders == ()
    report = catchment.audit(folders)
    assert report.balanced
    assert [folder.path for folder in report.folders] == folders
    assert [folder.target for folder in report.folders] == [None, None]
    for folder in report.folders:
        assert folder.frames == report.frames == report.frames_repeated
        assert (folder.frames_alone, folder.frames_lacking) == (0, 0)
        assert (folder.verdict, folder.closing) == (report.verdict, "ended")
        assert (folder.differences, folder.unexplained, folder.readable) == ((), (), True)
    remove(folders[0], 1)
    report = catchment.audit(folders)
    assert (report.balanced, report.incomplete, report.missing) == (True, (), ())
    assert report.damaged_copies == ()
    assert "is missing" in report.elsewhere[0].problem
    raid, mirror = report.folders
    assert raid.verdict == "incomplete"
    assert raid.files == mirror.files - 1
    assert raid.frames_lacking == mirror.frames_alone == mirror.frames - raid.frames > 0
    remove(folders[1], 1)
    report = catchment.audit(folders)
    assert (report.verdict, report.balanced) == ("incomplete", False)
    (missing,) = report.missing
    assert missing.last - missing.first + 1 == report.frames_missing > 0
    assert report.incomplete


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_one_folder_lacks_is_read_from_the_other(
    folders: list[Path], order: tuple[int, int], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(folders[0], kept)
    remove(folders[0], 0, 2)
    remove(folders[1], 1)
    paths = tuple(str(folders[index]) for index in order)
    with pytest.warns(catchment.DamageWarning, match=r"is missing in .* \(and 2 more"):
        run = catchment.open(paths)
    with run, catchment.open(kept) as whole:
        same_events(run, whole)
        assert run.status == "ended"
        assert len(run.problems) == 3
        assert run.ledger.total == whole.ledger.total
        assert run.ledger.balanced


def test_channels_of_two_folders_are_those_of_the_whole(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    generate(whole, "--file-bytes", "1 MiB")
    copies = [tmp_path / "one", tmp_path / "other"]
    for number, copy in enumerate(copies):
        shutil.copytree(whole, copy)
        sorted(copy.glob("*.catch"))[number].unlink()
    with pytest.warns(catchment.DamageWarning, match="is missing in"):
        run = catchment.open(copies)
    with run, catchment.open(whole) as expected:
        assert run.channels == expected.channels
        for name in ("L1:FAST-0000", "L1:SLOW-0001", "L1:STATE-0000"):
            mine, other = run[name], expected[name]
            assert np.array_equal(mine.numpy(), other.numpy())
            assert mine.gaps == other.gaps
            assert mine.xarray().equals(other.xarray())
        names = "L1:SLOW-000*"
        assert run.to_xarray(names).equals(expected.to_xarray(names))


def test_several_paths_are_a_sequence_with_a_path(folders: list[Path]) -> None:
    with pytest.raises(ValueError, match="expected a path or several, got none"):
        catchment.open([])
    for wrong in ([7], 7, {"a": 1}, b"run"):
        with pytest.raises(TypeError, match="expected a path"):
            catchment.open(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="following is of one folder of a run: 2 folders"):
        catchment.open(folders, follow=True)
    with pytest.raises(FileNotFoundError):
        catchment.open([folders[0], folders[0].parent / "none"])


def test_folders_of_two_runs_are_refused(folders: list[Path], tmp_path: Path) -> None:
    generate(tmp_path / "other")
    with pytest.raises(catchment.FileError, match="is of run"):
        catchment.open([*folders, os.fspath(tmp_path / "other")])


NODE = """
[store]
folders = ["stored"]
[memory]
budget = "64 MiB"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "1 MiB"
[[listen]]
address = "127.0.0.1:0"
"""
SHARED = """
[control]
listen = "127.0.0.1:0"
requests_per_second = 1000000
drain = "1 h"
[memory]
budget = "256 MiB"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "1 MiB"
[frame]
time = "20 ms"
[[targets]]
name = "nodes"
kind = "store"
nodes = {nodes}
hold_bytes = "1 MiB"
[[targets]]
name = "mirror"
folder = "mirror"
[[listen]]
address = "127.0.0.1:{port}"
[[sources]]
name = "camera/left"
via = "link"
[[sources]]
name = "camera/right"
via = "link"
"""
# Nothing takes so long: reached only when an answer never comes.
PATIENCE_SECONDS = 1200


class Started:
    """A process that runs, until the end of the test at the latest."""

    def __init__(self, root: Path, *command: str) -> None:
        command = (sys.executable, "-m", "catchment", *command)
        self.process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)

    def line(self, begin: str) -> str:
        """Return the rest of the first line that begins so."""
        assert self.process.stdout is not None
        lines = (line for line in self.process.stdout if line.startswith(begin))
        return next(lines).removeprefix(begin).strip()

    def end(self) -> None:
        """End it in order."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()
        assert self.process.returncode == 0


def of_nodes(control: catchment.Control, name: str) -> list[Any]:
    """Return one figure of each node that shares the run's frames."""
    targets = control.state()["targets"]
    return [node[name] for target in targets for node in target["nodes"]] or [0]


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[list[Path], Path]]:
    """Record to two storage nodes that share the frames, and to a folder that has all of them."""
    started, addresses = [], []
    roots = [tmp_path / name for name in ("one", "two")]
    try:
        for root in roots:
            root.mkdir()
            (root / "store.toml").write_text(NODE)
            started.append(Started(root, "store", "store.toml"))
            addresses.append(started[-1].line("Storing at ").split(",")[0])
        port = free_port()
        text = SHARED.format(nodes=json.dumps(addresses), port=port)
        (tmp_path / "run.toml").write_text(text)
        recorder = Started(tmp_path, "run", "run.toml")
        started.append(recorder)
        control = catchment.Control(recorder.line("Serving "), timeout=PATIENCE_SECONDS)
        while not all(of_nodes(control, "is_connected")):
            assert recorder.process.poll() is None
        url = f"catchment+tcp://127.0.0.1:{port}"
        with frontend.connect(url, "camera", sources=["left", "right"]) as camera:
            keys = itertools.count()
            # What a node has not acknowledged may become the other one's.
            while not all(of_nodes(control, "frames_durable")):
                for key in itertools.islice(keys, 4):
                    camera["left"].send(key, np.full(4096, key, np.uint32))
                    camera["right"].send(key, np.full(key % 50, key % 256, np.uint8))
        for process in reversed(started):
            process.end()
        parts = [next((root / "stored").glob("run-*")) for root in roots]
        yield parts, next((tmp_path / "mirror").glob("run-*"))
    finally:
        for process in started:
            process.process.kill()
            process.process.wait()


@pytest.mark.parametrize("order", [1, -1])
def test_nodes_that_share_frames_are_read_as_one_run(
    shared: tuple[list[Path], Path], order: int
) -> None:
    parts, mirror = shared
    with catchment.open(parts[::order]) as run, catchment.open(mirror) as whole:
        same_events(run, whole)
        assert np.array_equal(run.events.keys, np.arange(len(whole.events)))
        assert run.ledger.total == whole.ledger.total
        assert (run.status, run.problems) == ("ended", [])
        events, frames = len(whole.events), len(whole.frames())
    for part in parts:
        with pytest.warns(catchment.DamageWarning, match="is missing"):
            some = catchment.open(part)
        with some:
            assert len(some.events) > 0
            events -= len(some.events)
            frames -= len(some.frames())
    # Where a node was slow, the other one has some of its frames, too.
    assert events <= 0
    assert frames <= 0
    report = catchment.audit(parts)
    assert (report.balanced, report.frames_missing, report.problems) == (True, 0, ())
