"""Ranges with missing samples: what fills them, from edge to edge, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import catchment
from written import NS, Written, counting, write_run

RATE = 4
BASE = 1_800_000_000 * RATE
PIECES = [(0, 40), (40, 10), (100, 60), (200, 1)]


@pytest.fixture
def run(tmp_path: Path) -> catchment.Run:
    """A float and an integer channel with the same gaps."""
    pieces = [(BASE + first, counting(first, count)) for first, count in PIECES]
    floats = Written("X:F", (RATE, 1), pieces)
    whole = [(first, data.astype("<i2")) for first, data in pieces]
    ints = Written("X:I", (RATE, 1), whole)
    scaled = Written("X:S", (RATE, 1), whole, about={"scale": 0.5, "offset": 1.0})
    return catchment.open(write_run(tmp_path / "gaps.catch", floats, ints, scaled))


def time(sample: float) -> int:
    return int((BASE + sample) * NS / RATE)


def model(start: int, stop: int) -> list[float]:
    there = {n for first, count in PIECES for n in range(first, first + count)}
    return [n if n in there else np.nan for n in range(start, stop)]


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 50), (45, 110), (60, 80), (60, 120), (30, 60), (-20, 10), (190, 260), (300, 310), (7, 7)],
)
def test_an_array_has_a_place_for_each_sample_from_edge_to_edge(
    run: catchment.Run, start: int, stop: int
) -> None:
    channel, edges = run["X:F"], (time(start), time(stop))
    found = channel.numpy(*edges)
    np.testing.assert_array_equal(found, model(start, stop))
    np.testing.assert_array_equal(run["X:I"].numpy(*edges, fill=-1), np.nan_to_num(found, nan=-1))
    array = channel.xarray(*edges, gaps="fill")
    np.testing.assert_array_equal(array, found)
    numbers = BASE + np.arange(start, stop)
    np.testing.assert_array_equal(array["time"].to_numpy().view(np.int64), numbers * NS // RATE)
    there = found[~np.isnan(found)]
    np.testing.assert_array_equal(channel.numpy(*edges, gaps="join"), there)
    if len(there) == len(found):
        np.testing.assert_array_equal(channel.numpy(*edges, gaps="raise"), found)
        return
    with pytest.raises(catchment.GapError, match=f"{len(found) - len(there)} of {len(found)} sam"):
        channel.numpy(*edges, gaps="raise")
    with pytest.raises(catchment.GapError, match="has no value for them"):
        run["X:I"].numpy(*edges)


def test_edges_between_samples_take_those_from_start_to_stop(run: catchment.Run) -> None:
    assert run["X:F"].numpy(time(59.5), time(62.5)).shape == (3,)
    assert run["X:F"].numpy(time(60), time(62) + 1).shape == (3,)


def test_an_open_end_is_that_of_what_was_recorded(run: catchment.Run) -> None:
    channel = run["X:F"]
    np.testing.assert_array_equal(channel.numpy(), model(0, 201))
    np.testing.assert_array_equal(channel.numpy(time(60)), model(60, 201))
    np.testing.assert_array_equal(channel.numpy(None, time(80)), model(0, 80))
    np.testing.assert_array_equal(channel.numpy(None, time(120)), model(0, 120))
    assert channel.numpy(time(500)).shape == (0,)
    assert channel.numpy(None, time(-5)).shape == (0,)
    assert channel.numpy(time(50), time(40)).shape == (0,)


def test_what_stands_for_missing_samples_is_a_value_of_the_type(run: catchment.Run) -> None:
    edges = (time(45), time(110))
    scaled = run["X:S"]
    assert scaled.numpy(*edges).dtype == np.float64
    np.testing.assert_array_equal(scaled.numpy(*edges), np.array(model(45, 110)) * 0.5 + 1)
    assert scaled.numpy(*edges, raw=True, fill=0).dtype == np.int16
    assert scaled.numpy(time(60), time(62), raw=True, fill=7).tolist() == [7, 7]
    for wrong in (1.5, 40_000, np.nan):
        with pytest.raises(ValueError, match="is no int16"):
            run["X:I"].numpy(*edges, fill=wrong)
    for read in (run["X:F"].numpy, run["X:F"].xarray):
        with pytest.raises(ValueError, match="gaps is 'wrong', expected \"fill\""):
            read(*edges, gaps="wrong")


def test_absurd_lengths_are_refused_and_long_gaps_of_long_runs_are_not(tmp_path: Path) -> None:
    """Two pieces of 2**17 samples with a gap of as many as may be filled, or more."""
    count = 1 << 17
    most = (1 << 20) + 16 * 2 * count
    for gap, refused in ((most - 2 * count, False), (most - 2 * count + 1, True)):
        second = BASE + count + gap
        pieces = [(BASE, counting(0, count, "<f4")), (second, counting(0, count, "<f4"))]
        path = write_run(tmp_path / f"{gap}.catch", Written("X:LONG", (RATE, 1), pieces))
        with catchment.open(path) as run:
            channel = run["X:LONG"]
            # Without a sample in it, too: what the channel has counts.
            edges = [sample * NS // RATE for sample in (BASE + count, second)]
            assert np.isnan(channel.numpy(*edges)).all()
            assert len(channel.numpy(*edges)) == gap
            if refused:
                with pytest.raises(catchment.GapError, match="too many to fill"):
                    channel.numpy()
            else:
                assert len(channel.numpy()) == most
            with pytest.raises(catchment.GapError, match="too many to fill"):
                channel.numpy(10**12, 2 * edges[1])
            assert len(channel.numpy(10**12, 2 * edges[1], gaps="join")) == 2 * count


def test_what_is_filled_is_counted_in_numbers(tmp_path: Path) -> None:
    """Ten samples of 8,000 numbers, and a range that is filled, or would be 3 GB."""
    shape = (8_000,)
    data = counting(0, 10 * shape[0], "<f4").reshape(10, *shape)
    written = Written("X:WIDE", (1, 1), [(BASE, data)], about={"shape": shape})
    with catchment.open(write_run(tmp_path / "wide.catch", written)) as run:
        channel = run["X:WIDE"]
        most = (1 << 20) // 8_000 + 16 * 10
        start = BASE * NS
        assert channel.numpy(start, start + most * NS).shape == (most, *shape)
        for seconds in (most + 1, 100_000):
            with pytest.raises(catchment.GapError, match="too many to fill"):
                channel.numpy(start, start + seconds * NS)
