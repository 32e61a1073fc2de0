"""Runs of channels that the tests write themselves, by docs/spec/frame-file.md: any pieces at all.

The file has no table of contents, as that of a recorder that was killed.
"""

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NS = 10**9
BLOCK = 4096
FILE_ID = 0x1122334455667788
DTYPES = {
    "<i2": (6, "i16"),
    "<i4": (7, "i32"),
    "<i8": (8, "i64"),
    "<f4": (9, "f32"),
    "<f8": (10, "f64"),
}


@dataclass
class Written:
    """A channel, and its pieces: one for each frame that has some of it."""

    name: str
    rate: tuple[int, int]
    pieces: list[tuple[int, NDArray[Any]]]
    """First sample and samples, in the order of the frames."""
    time_scale: str = "tai"
    about: dict[str, Any] = field(default_factory=dict)
    """More of the schema's keys."""

    def time(self, sample: int) -> int:
        """When a sample is, in nanoseconds."""
        return sample * self.rate[1] * NS // self.rate[0]


def write_run(path: Path, *channels: Written) -> Path:
    """Write a file with a frame for each piece; the channels have as many of them."""
    columns = [
        {
            "id": number,
            "kind": "channel",
            "dtype": DTYPES[channel.pieces[0][1].dtype.str][1],
            "name": channel.name,
            "rate": channel.rate,
            "time_scale": channel.time_scale,
            **channel.about,
        }
        for number, channel in enumerate(channels)
    ]
    metadata = {
        "run": "00" * 15 + "07",
        "run_number": 7,
        "file_index": 0,
        "created_ns": 1_800_000_000 * NS,
        "ledger_entries": [],
        "schema": {"sources": [], "columns": columns},
    }
    text = json.dumps(metadata).encode()
    length = -(-(64 + len(text)) // BLOCK) * BLOCK
    head = b"\x89CATCH\r\n" + struct.pack("<HHIIIQ32x", 1, 1, length, len(text), 0, FILE_ID)
    checksum = struct.pack("<I", crc32c(head + text))
    parts = [(head[:20] + checksum + head[24:] + text).ljust(length, b"\0")]
    counts = {len(channel.pieces) for channel in channels}
    assert len(counts) == 1, "a frame has a piece of each channel"
    parts += [_frame(channels, number) for number in range(counts.pop())]
    path.write_bytes(b"".join(parts))
    return path


def _frame(channels: tuple[Written, ...], number: int) -> bytes:
    pieces = [channel.pieces[number] for channel in channels]
    header_bytes = 128 + 64 * len(channels)
    entries, data = b"", b""
    begin = -(-header_bytes // 64) * 64
    for index, (channel, (first, samples)) in enumerate(zip(channels, pieces, strict=True)):
        raw = samples.tobytes()
        offset = begin + len(data)
        entries += struct.pack(
            "<IHHIIQQQQQQ",
            *(index, 0, DTYPES[samples.dtype.str][0], 0, crc32c(raw)),
            *(offset, len(raw), len(raw), len(samples), channel.time(first), first),
        )
        data += raw.ljust(-(-len(raw) // 64) * 64, b"\0")
    ends = [first + len(samples) for first, samples in pieces]
    times = (
        min(c.time(first) for c, (first, _) in zip(channels, pieces, strict=True)),
        max(c.time(end) for c, end in zip(channels, ends, strict=True)),
    )
    frame_bytes = -(-(begin + len(data)) // BLOCK) * BLOCK
    rows = sum(len(samples) for _, samples in pieces)
    fixed = b"CTMFRAME" + struct.pack(
        "<IIHHHHIIQQQQQQQQQ24x",
        *(header_bytes, 0, 2, 0, 128, 64, len(channels), 0, frame_bytes, FILE_ID, number),
        *(*times, 0, 0, rows, 0),
    )
    checksum = struct.pack("<I", crc32c(fixed + entries))
    header = fixed[:12] + checksum + fixed[16:] + entries
    return (header.ljust(begin, b"\0") + data).ljust(frame_bytes, b"\0")


def crc32c(data: bytes) -> int:
    """Compute the checksum of RFC 3720."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = TABLE[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    return checksum ^ 0xFFFFFFFF


def _entry(number: int) -> int:
    for _ in range(8):
        number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)
    return number


TABLE = [_entry(number) for number in range(256)]


def counting(first: int, count: int, dtype: str = "<f8", offset: int = 0) -> NDArray[Any]:
    """Samples that are their numbers, or as much more."""
    return (np.arange(first, first + count) + offset).astype(dtype)
