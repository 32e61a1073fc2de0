"""The golden files of version 1.1: channels and typed payload, in every codec."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment
from fixtures import REPOSITORY

FOLDER = REPOSITORY / "crates/format/frame/tests/golden/v1.1"
CHANNELS = json.loads((FOLDER / "channels.json").read_text())
TYPED = json.loads((FOLDER / "typed.json").read_text())


def written(about: dict[str, Any], channel: dict[str, Any]) -> list[tuple[int, bytes]]:
    """First sample and bytes of every piece of a channel, neighbours joined."""
    pieces: list[tuple[int, bytes]] = []
    end = -1
    for frame in about["frames"]:
        column = frame["columns"].get(str(channel["id"]))
        if column is None:
            continue
        raw = bytes.fromhex(column["raw"])
        sample_bytes = len(raw) // column["rows"]
        for row, count, first_sample in column["runs"]:
            data = raw[row * sample_bytes : (row + count) * sample_bytes]
            if first_sample == end:
                pieces[-1] = (pieces[-1][0], pieces[-1][1] + data)
            else:
                pieces.append((first_sample, data))
            end = first_sample + count
    return pieces


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("channels-*.catch")), ids=lambda path: path.stem
)
def test_channels_of_every_type_read_back(path: Path) -> None:
    with catchment.open(path) as run:
        assert run.channels == [channel["name"] for channel in CHANNELS["channels"]]
        for about in CHANNELS["channels"]:
            channel = run[about["name"]]
            assert list(channel.shape) == about["shape"]
            assert (channel.unit, channel.time_scale) == (about["unit"], about["time_scale"])
            found = [(s.first_sample, s.data.tobytes()) for s in channel.segments(raw=True)]
            assert found == written(CHANNELS, about)
            assert len(channel.gaps) == len(found) - 1


@pytest.mark.parametrize("path", sorted(FOLDER.glob("typed-*.catch")), ids=lambda path: path.stem)
def test_typed_payload_becomes_arrays_of_its_type(path: Path) -> None:
    with catchment.open(path) as run:
        (frame, *_) = run.frames()
        arrays, records, plain = (frame[source] for source in run.sources)
        assert plain.payload is None
        with pytest.raises(TypeError):
            _ = plain.array
        assert arrays.payload == {"dtype": "<i2", "shape": [4, 8], "skip": 16}
        whole = [row for row in range(len(arrays)) if arrays[row] is not None]
        for row in whole:
            fragment = arrays[row]
            assert fragment is not None
            if len(fragment) != 16 + 64:
                with pytest.raises(ValueError, match="expected 80"):
                    _ = arrays.array
                break
        record = records.payload
        assert record is not None
        dtype = np.dtype(record["dtype"])
        assert dtype.names == ("time", "channel", "amplitude")
        assert dtype.itemsize == 16


def test_a_killed_file_is_read_up_to_its_last_whole_frame() -> None:
    about = json.loads((FOLDER / "unfinished.json").read_text())
    with catchment.open(FOLDER / "unfinished.catch") as run:
        assert run.status == "open"
        for expected in about["channels"]:
            channel = run[expected["name"]]
            found = [(s.first_sample, s.data.tobytes()) for s in channel.segments(raw=True)]
            assert found == written(about, expected)
            assert channel.time_scale == "utc"
