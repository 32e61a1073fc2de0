"""Reads ranges of channels from files that stay open, by Catchment and by h5py, codec by codec.

A job comes as JSON on stdin, its results go as JSON to stdout. `catchment bench ligo-read` asks.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import hdf5plugin
import numpy as np

import catchment
from formats import Channel, Data, Hdf5, Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats import Samples

    Read = Callable[[int, int], Samples]

FILTERS = {
    "bitshuffle+lz4": hdf5plugin.Bitshuffle(cname="lz4"),
    "zstd:3": hdf5plugin.Zstd(clevel=3),
}

# How long a range is read again and again for one figure.
AGAIN_S = 0.05


def main() -> None:
    """Do the job."""
    job = json.load(sys.stdin)
    channels = [Channel(**channel) for channel in job["channels"]]
    data = Data(Path(job["raw"]), job["seconds"], channels)
    others = Path(job["scratch"])
    others.mkdir(parents=True)
    Hdf5(FILTERS[job["coding"]]).write(others, data, Layout(**job["layout"]))
    path = next(others.iterdir())
    results = []
    for dtype in sorted({channel.dtype for channel in channels}):
        same = [channel for channel in channels if channel.dtype == dtype]
        for seconds in job["ranges_s"]:
            begin = (job["seconds"] - seconds) // 2
            for state, measure in [("first", first), ("again", again)]:
                times: dict[str, list[float]] = {"Catchment": [], "HDF5": []}
                # One more than counts: it fills the page cache.
                for turn in range(job["repeats"] + 2):
                    # Closed each time: HDF5 keeps a chunk for as long as anybody has its file open.
                    with h5py.File(path, "r") as file:
                        opened = open_both(Path(job["run"]), file, job["start_ns"], same)
                        for name, reads in opened.items():
                            took = measure(reads, same, data, (begin, begin + seconds))
                            times[name] += took if turn > 1 else []
                result = {"dtype": dtype, "seconds": seconds, "state": state}
                results.append({**result, "ours_s": times["Catchment"], "theirs_s": times["HDF5"]})
    print(json.dumps(results))  # noqa: T201 (its only output)


def open_both(
    run: Path, file: h5py.File, start_ns: int, channels: list[Channel]
) -> dict[str, dict[str, Read]]:
    """Open the run and all datasets: what reads a range of each channel, in samples."""
    opened = catchment.open(run)

    def ours(channel: Channel) -> Read:
        column = opened[channel.name]
        second = 1_000_000_000

        def read(first: int, last: int) -> Samples:
            start, stop = first // channel.rate, last // channel.rate
            samples: Samples = column.numpy(start_ns + start * second, start_ns + stop * second)
            return samples

        return read

    def theirs(channel: Channel) -> Read:
        # Kept open, since it keeps the chunk that it has decoded.
        dataset = file[channel.name]

        def read(first: int, last: int) -> Samples:
            samples: Samples = dataset[first:last]
            return samples

        return read

    return {
        "Catchment": {channel.name: ours(channel) for channel in channels},
        "HDF5": {channel.name: theirs(channel) for channel in channels},
    }


def first(
    reads: dict[str, Read], channels: list[Channel], data: Data, seconds: tuple[int, int]
) -> list[float]:
    """Read the range of each channel once, in files that were just opened; check what is read."""
    took = []
    for channel in channels:
        begin, end = (second * channel.rate for second in seconds)
        before = time.perf_counter()
        samples = reads[channel.name](begin, end)
        took.append(time.perf_counter() - before)
        check(samples, data[channel][begin:end], channel)
    return took


def again(
    reads: dict[str, Read], channels: list[Channel], data: Data, seconds: tuple[int, int]
) -> list[float]:
    """Read the range of one channel again and again."""
    channel = channels[0]
    begin, end = (second * channel.rate for second in seconds)
    read = reads[channel.name]
    for _ in range(3):
        check(read(begin, end), data[channel][begin:end], channel)
    before, count = time.perf_counter(), 0
    while (took := time.perf_counter() - before) < AGAIN_S:
        read(begin, end)
        count += 1
    return [took / count]


def check(got: Any, expected: Samples, channel: Channel) -> None:  # noqa: ANN401 (whatever came)
    """Stop where samples are not those that were written."""
    if not np.array_equal(got, expected):
        raise SystemExit(f"{channel.name} does not come back as it was written")


if __name__ == "__main__":
    main()
