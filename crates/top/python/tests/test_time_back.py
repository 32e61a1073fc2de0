"""Channels whose clock was set back: nothing is left out, overwritten, or put in order."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import catchment
from written import NS, Written, counting, write_run

RATE = 10
BASE = 1_800_000_000 * RATE
VARIANTS = {
    "back": [(100, 60), (50, 10), (160, 10)],
    "overlap": [(100, 50), (145, 55)],
    "a little back": [(100, 10), (95, 10)],
    "twice": [(100, 100), (100, 100)],
    "ahead and back": [(100, 10), (10_000, 10), (110, 10)],
}


def write(path: Path, ranges: list[tuple[int, int]], dtype: str = "<f8") -> Path:
    pieces = [
        (BASE + first, counting(1000 * number, count, dtype))
        for number, (first, count) in enumerate(ranges)
    ]
    return write_run(path / "back.catch", Written("X:BACK", (RATE, 1), pieces))


def recorded(ranges: list[tuple[int, int]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Values and times as they were recorded."""
    values = [counting(1000 * number, count) for number, (_, count) in enumerate(ranges)]
    numbers = [BASE + np.arange(first, first + count) for first, count in ranges]
    return np.concatenate(values), np.concatenate(numbers) * (NS // RATE)


def gaps(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where no sample is, by going through all numbers."""
    there = {number for first, count in ranges for number in range(first, first + count)}
    rising = sorted(there)
    missing = [(one + 1, other) for one, other in pairwise(rising) if other != one + 1]
    return [((BASE + a) * NS // RATE, (BASE + b) * NS // RATE) for a, b in missing]


@pytest.mark.parametrize("dtype", ["<f8", "<i4"])
@pytest.mark.parametrize("name", VARIANTS)
def test_one_array_is_refused_and_segments_have_all(name: str, dtype: str, tmp_path: Path) -> None:
    ranges = VARIANTS[name]
    values, times = recorded(ranges)
    with catchment.open(write(tmp_path, ranges, dtype)) as run:
        channel = run["X:BACK"]
        for gap in ("fill", "join", "raise"):
            for read in (channel.numpy, channel.xarray):
                with pytest.raises(catchment.GapError, match=r"time goes back.*2027-01-15T08:00"):
                    read(gaps=gap, fill=0)
        with pytest.raises(catchment.GapError, match="X:BACK: time goes back"):
            np.asarray(channel)
        with pytest.raises(catchment.GapError, match="time goes back"):
            run.to_xarray()
        found = [(s.first_sample - BASE, len(s)) for s in channel.segments()]
        assert found == ranges
        for read in (channel.segments(), list(channel)):
            np.testing.assert_array_equal(np.concatenate([s.data for s in read]), values)
        np.testing.assert_array_equal(channel.times(), times)
        assert len(channel) == len(values)
        assert channel.gaps == gaps(ranges)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_has_a_time_for_each_sample_gives_all_as_recorded(name: str, tmp_path: Path) -> None:
    ranges = VARIANTS[name]
    values, times = recorded(ranges)
    with catchment.open(write(tmp_path, ranges)) as run:
        channel = run["X:BACK"]
        series = channel.pandas()
        np.testing.assert_array_equal(series.to_numpy(), values)
        np.testing.assert_array_equal(series.index.to_numpy().view(np.int64), times)
        table = run.to_arrow()
        np.testing.assert_array_equal(table["X:BACK"].to_numpy(), values)
        np.testing.assert_array_equal(table["time"].to_numpy().view(np.int64), times)
        np.testing.assert_array_equal(channel.dask.compute(), values)
        for part in (
            slice(None),
            slice(5, -5),
            slice(None, None, -3),
            slice(15, 2, -1),
            slice(3, 3),
        ):
            np.testing.assert_array_equal(channel[part], values[part])
        assert [channel[index] for index in (0, 7, -1)] == [values[0], values[7], values[-1]]


@pytest.mark.parametrize("name", VARIANTS)
def test_a_range_in_which_time_rises_is_an_array(name: str, tmp_path: Path) -> None:
    """By a model that goes through the pieces for every range."""
    ranges = VARIANTS[name]
    arrays = 0
    with catchment.open(write(tmp_path, ranges)) as run:
        channel = run["X:BACK"]
        for start in range(40, 215, 15):
            for stop in range(start, 215, 10):
                there = [
                    (sample, 1000 * number + sample - first)
                    for number, (first, count) in enumerate(ranges)
                    for sample in range(max(first, start), min(first + count, stop))
                ]
                edges = [(BASE + edge) * NS // RATE for edge in (start, stop)]
                samples = [sample for sample, _ in there]
                if samples != sorted(set(samples)):
                    with pytest.raises(catchment.GapError, match="time goes back"):
                        channel.numpy(*edges)
                    continue
                expected = np.full(stop - start, np.nan)
                for sample, value in there:
                    expected[sample - start] = value
                np.testing.assert_array_equal(channel.numpy(*edges), expected)
                arrays += 1
    assert arrays > 20
