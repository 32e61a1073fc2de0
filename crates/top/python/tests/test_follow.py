"""A run that is followed while it grows, over a change of files."""

import fcntl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import catchment
from fixtures import Recorded, catchment_command

NAME = "L1:MEDIUM-0000"


class Growing:
    """A copy of a run that grows, with locks on its files as a recorder has them."""

    def __init__(self, whole: Path, copy: Path) -> None:
        copy.mkdir()
        files = sorted(whole.glob("*.catch"))
        self.whole = [path.read_bytes() for path in files]
        self.path = copy
        self.files = [(copy / files[0].name).open("xb")]
        self.names = [path.name for path in files]
        fcntl.flock(self.files[0], fcntl.LOCK_EX)

    def grow(self, file: int, frames: int) -> None:
        """Have a file hold so many frames, and zeros behind them; all: and it is closed."""
        if file == len(self.files):
            self.files.append((self.path / self.names[file]).open("xb"))
            fcntl.flock(self.files[file], fcntl.LOCK_EX)
        whole = self.whole[file]
        starts = self.starts(file)
        end = starts[frames] if frames < len(starts) else len(whole)
        out = self.files[file]
        out.seek(0)
        out.write(whole[:end])
        out.flush()
        out.truncate(end if end == len(whole) else end + (1 << 20))

    def starts(self, file: int) -> list[int]:
        """Where a file's frames begin, without that of its table of contents."""
        whole = self.whole[file]
        found = [at for at in range(0, len(whole), 4096) if whole.startswith(b"CTMFRAME", at)]
        return found[:-1]

    def let_go(self) -> None:
        """End, as a recorder does."""
        for file in self.files:
            file.close()


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    """Eight frames of half a second in two files or more; none is there yet."""
    timing = ["--seconds", "4", "--frame", "500 ms", "--start", "1800000000000000000"]
    options = ["--codec", "none", "--file-bytes", "8 MiB"]
    whole = tmp_path / "whole"
    catchment_command("generate", "ligo-1000", "--out", str(whole), *timing, *options)
    growing = Growing(whole, tmp_path / "growing")
    assert len(growing.whole) >= 2
    assert min(len(growing.starts(file)) for file in (0, 1)) >= 3
    yield growing
    growing.let_go()


def test_a_follower_gets_each_frame_once_and_in_order(growing: Growing, tmp_path: Path) -> None:
    with catchment.open(tmp_path / "whole") as run:
        expected = [(s.first_sample, s.data.tobytes()) for s in run[NAME]]
    first, last = len(growing.starts(0)), len(growing.whole)
    assert len(expected) == 8
    growing.grow(0, 1)
    with catchment.open(growing.path, follow=True) as run:
        follower = iter(run[NAME])
        found = [next(follower)]
        # The next file has a frame before this one has its last: it waits for that.
        growing.grow(1, 1)
        growing.grow(0, first - 1)
        found += [next(follower) for _ in range(first - 2)]
        assert len(run[NAME].pieces) == first
        assert not run.wait(0)
        growing.grow(0, first)
        assert run.wait(0)
        found += [next(follower), next(follower)]
        for file in range(1, last):
            growing.grow(file, len(growing.starts(file)))
        growing.let_go()
        found += follower
        assert [(s.first_sample, s.data.tobytes()) for s in found] == expected
        assert not run.wait()
        assert run.status == "ended"
        np.testing.assert_array_equal(run[NAME].numpy(), np.concatenate([s.data for s in found]))
        again = [s.first_sample for s in run[NAME]]
        assert again == [first_sample for first_sample, _ in expected]


def test_dask_of_a_run_that_grows_computes_what_is_there(growing: Growing) -> None:
    """A recorder's file has its whole length from the start."""
    for frames in (1, 2, 3):
        growing.grow(0, frames)
        growing.files[0].truncate(64 << 20)
        with catchment.open(growing.path) as run:
            channel = run[NAME]
            assert len(channel.pieces) == frames
            np.testing.assert_array_equal(channel.dask.compute(), channel.numpy())


def test_frames_of_events_are_read_where_they_are_followed(recorded: Recorded) -> None:
    with catchment.open(recorded.path) as run, catchment.open(recorded.path, follow=True) as same:
        for frame, followed in zip(run.frames(), same.frames(), strict=True):
            assert followed.index == frame.index
            np.testing.assert_array_equal(followed.keys, frame.keys)
            np.testing.assert_array_equal(followed[45].data, frame[45].data)
            assert 45 in followed
            assert "none" not in followed
