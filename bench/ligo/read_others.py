"""Writes the same samples in several formats and measures how fast one channel is read.

A job comes as JSON on stdin, its results go as JSON to stdout. `catchment bench ligo-read` asks.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from formats import Catchment, Channel, Data, Format, Gwf, Hdf5, Layout, Parquet

# What each format needs.
PACKAGES = {
    "Catchment": ["catchment"],
    "HDF5": ["h5py", "hdf5plugin"],
    "GWF": ["lal", "lalframe"],
    "GWF, uncompressed": ["lal", "lalframe"],
    "Parquet": ["pyarrow"],
}

# What is read where no channel is: the tables of contents.
TOC = "TOC"
# How long a channel is read again and again for one figure.
WARM_S = 0.05

FORMATS: list[Format] = [
    Catchment(),
    Hdf5(),
    Gwf(compressed=True),
    Gwf(compressed=False),
    Parquet(),
]


def main() -> None:
    """Do the job."""
    job = json.load(sys.stdin)
    if job["task"] == "check":
        # What prints on being imported must not get between.
        print(json.dumps(versions()))  # noqa: T201 (its only output)
        return
    channels = [Channel(**channel) for channel in job["channels"]]
    data = Data(Path(job["raw"]), job["seconds"], channels)
    layout = Layout(**job["layout"])
    scratch = Path(job["scratch"])
    folders = {}
    stored = []
    for one in FORMATS:
        if one.name not in job["formats"]:
            continue
        folder = Path(job["run"]) if one.name == "Catchment" else scratch / one.name
        begin = time.perf_counter()
        if one.name != "Catchment":
            folder.mkdir(parents=True)
            one.write(folder, data, layout)
        seconds = time.perf_counter() - begin
        file_bytes = sum(path.stat().st_size for path in folder.iterdir())
        stored.append({"format": one.name, "write_s": seconds, "file_bytes": file_bytes})
        folders[one.name] = folder
    os.sync()
    reads = []
    for name in job["read"]:
        channel = next((channel for channel in channels if channel.name == name), None)
        reads += measure(data, channel, folders, job)
    for name, folder in folders.items():
        if name != "Catchment":
            shutil.rmtree(folder)
    print(json.dumps({"stored": stored, "reads": reads}))  # noqa: T201 (its only output)


def measure(
    data: Data, channel: Channel | None, folders: dict[str, Path], job: dict[str, Any]
) -> list[dict[str, Any]]:
    """Read a channel from every format in turn, again and again; check what is read.

    Without a channel: the tables of contents alone.
    """
    formats = [one for one in FORMATS if one.name in folders]
    cold: dict[str, list[float]] = {one.name: [] for one in formats}
    warm: dict[str, list[float]] = {one.name: [] for one in formats}
    for one in formats:
        if channel is None:
            good = one.list_channels(folders[one.name]) == len(data.channels)
        else:
            good = np.array_equal(one.read(folders[one.name], channel), data[channel])
        if not good:
            what = channel.name if channel else "its channels"
            raise SystemExit(f"{one.name} does not give {what} back as it was written")
    for _ in range(job["cold"]):
        for one in formats:
            Path("/proc/sys/vm/drop_caches").write_text("3")
            cold[one.name].append(timed(one, folders[one.name], channel))
    # Catchment leaves in the page cache what is read twice.
    for one in 2 * formats:
        timed(one, folders[one.name], channel)
    for _ in range(job["warm"]):
        for one in formats:
            # Often enough that what the others left in the CPU's caches does not count.
            begin, reads = time.perf_counter(), 0
            while (seconds := time.perf_counter() - begin) < WARM_S:
                timed(one, folders[one.name], channel)
                reads += 1
            warm[one.name].append(seconds / reads)
    bytes_read = channel.samples * np.dtype(channel.dtype).itemsize if channel else 0
    return [
        {
            "format": one.name,
            "channel": channel.name if channel else TOC,
            "bytes": bytes_read,
            "cold_s": cold[one.name],
            "warm_s": warm[one.name],
        }
        for one in formats
    ]


def timed(one: Format, folder: Path, channel: Channel | None) -> float:
    """Seconds that one read takes, opening included."""
    begin = time.perf_counter()
    if channel is None:
        one.list_channels(folder)
    else:
        one.read(folder, channel)
    return time.perf_counter() - begin


def versions() -> dict[str, str | None]:
    """Say which formats this Python can do, with the versions of what they need."""
    return {name: version(packages) for name, packages in PACKAGES.items()}


def version(packages: list[str]) -> str | None:
    """Give the versions of packages; none if one is missing."""
    try:
        found = [importlib.import_module(package) for package in packages]
    except ImportError:
        return None
    if packages == ["catchment"] and not hasattr(found[0], "Channel"):
        return None
    pairs = zip(packages, found, strict=True)
    return ", ".join(
        f"{name} {getattr(module, '__version__', '')}".strip() for name, module in pairs
    )


if __name__ == "__main__":
    main()
