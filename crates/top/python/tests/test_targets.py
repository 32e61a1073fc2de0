"""Targets that get some channels: what each folder has, alone and together."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import catchment

CONFIG = """
[memory]
budget = "512 MiB"
[write]
buffer_bytes = "256 KiB"
preallocate_bytes = "1 MiB"
[frame]
duration = "1 s"
[emulator]
preset = "ligo-1000"
[[links]]
name = "ligo"
address = "127.0.0.1:0"
channels = [
    { name = "L1:FAST-0000", dtype = "f32", rate = "16384 Hz" },
    { name = "L1:FAST-0001", dtype = "f32", rate = "16384 Hz" },
    { name = "L1:FAST-0002", dtype = "f32", rate = "16384 Hz" },
    { name = "L1:SLOW-0000", dtype = "f32", rate = "16 Hz" },
    { name = "L1:STATE-0000", dtype = "u32", rate = "16 Hz" },
]
[[targets]]
name = "all"
folder = "all"
[[targets]]
name = "fast"
folder = "fast"
channels = ["*:FAST-000[01]"]
[[targets]]
name = "slow"
folder = "slow"
channels = ["*SLOW*", "*STATE*"]
trends = false
"""
FAST = ["L1:FAST-0000", "L1:FAST-0001"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Record emulated channels to three targets."""
    root = tmp_path_factory.mktemp("targets")
    (root / "run.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "catchment", "run", "run.toml", "--emulate", "--seconds", "4"]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    # A busy machine may lose some.
    assert done.returncode in {0, 3}, done.stderr
    return {name: next((root / name).glob("run-*")) for name in ("all", "fast", "slow")}


def test_each_folder_has_the_channels_of_its_target(folders: dict[str, Path]) -> None:
    with catchment.open(folders["all"]) as whole, catchment.open(folders["fast"]) as fast:
        assert whole.channels_not_stored == []
        assert fast.channels == FAST
        assert set(fast.channels_not_stored) == set(whole.channels) - set(FAST)
        for name in FAST:
            assert fast[name].stored
            mine, all_of_it = fast[name].segments(), whole[name].segments()
            assert len(mine) == len(all_of_it) > 0
            for one, other in zip(mine, all_of_it, strict=True):
                assert one.first_sample == other.first_sample
                assert np.array_equal(one.data, other.data)
        recorded = [run.ledger.total["fragments_recorded"] for run in (whole, fast)]
        assert recorded[0] == recorded[1] > 0
        stored = [run.ledger.total["fragment_bytes_recorded"] for run in (whole, fast)]
        assert stored[1] == sum(len(fast[name]) * fast[name].dtype.itemsize for name in FAST)
        assert stored[0] > stored[1]
    for folder in folders.values():
        report = catchment.audit(folder)
        assert report.verdict in {"balanced", "data_lost"}
        assert (report.differences, report.unexplained, report.problems) == ((), (), ())
        assert catchment.verify(folder).intact


def test_a_channel_that_is_not_stored_is_described_and_says_so(folders: dict[str, Path]) -> None:
    with catchment.open(folders["fast"]) as run:
        channel = run["L1:SLOW-0000"]
        assert isinstance(channel, catchment.Channel)
        assert not channel.stored
        assert channel.sample_rate > 0
        expected = "channel L1:SLOW-0000 is not stored here.*variant 1 of the run"
        with pytest.raises(catchment.UnknownChannelError, match=expected):
            channel.segments()
        with pytest.raises(catchment.UnknownChannelError, match=expected):
            len(channel)
        with pytest.raises(catchment.UnknownChannelError, match=expected):
            run.trend("L1:SLOW-0000")
        with pytest.raises(catchment.UnknownChannelError, match="no channel"):
            run.channel("L1:NONE")


def test_folders_together_are_read_as_the_one_that_has_all(folders: dict[str, Path]) -> None:
    with (
        catchment.open([folders["fast"], folders["all"]]) as both,
        catchment.open(folders["all"]) as whole,
    ):
        assert both.channels == whole.channels
        (left_out,) = both.problems
        assert str(folders["fast"]) in left_out
        assert "variant 1" in left_out
        for name in whole.channels:
            assert len(both[name]) == len(whole[name]) > 0
    with pytest.raises(catchment.FileError, match=r"variant 1 of its run and .* variant 2"):
        catchment.open([folders["fast"], folders["slow"]])


def test_trends_stand_in_each_folder_that_wants_them(folders: dict[str, Path]) -> None:
    with catchment.open(folders["all"]) as whole, catchment.open(folders["fast"]) as fast:
        for name in FAST:
            mine, other = fast.trend(name), whole.trend(name)
            assert mine is not None
            assert other is not None
            assert np.array_equal(mine.mean, other.mean)
            assert np.array_equal(mine.n, other.n)
        assert whole.trend("L1:SLOW-0000") is not None
        assert fast.trend("catchment:packets_received") is not None
    assert not (folders["slow"] / "trends").exists()
    with catchment.open(folders["slow"]) as slow:
        assert slow.trend("L1:SLOW-0000") is None
