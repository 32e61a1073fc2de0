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


def fragments_written(frame: dict[str, Any], source: int) -> list[bytes | None]:
    """What a source's fragments of a frame are: none where one is missing."""
    columns = {c["kind"]: c for c in frame["columns"].values() if c["source"] == source}
    lengths = np.frombuffer(bytes.fromhex(columns["fragment_lengths"]["raw"]), "<u4")
    payload = bytes.fromhex(columns["fragment_payload"]["raw"])
    valid = np.ones(len(lengths), bool)
    if "fragment_validity" in columns:
        bits = np.frombuffer(bytes.fromhex(columns["fragment_validity"]["raw"]), np.uint8)
        valid = np.unpackbits(bits, bitorder="little")[: len(lengths)].astype(bool)
    ends = np.cumsum(lengths)
    assert ends[-1] == len(payload)
    spans = zip(ends - lengths, ends, valid, strict=True)
    return [payload[start:end] if there else None for start, end, there in spans]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("typed-*.catch")), ids=lambda path: path.stem)
def test_fragments_of_typed_payload_are_what_was_written(path: Path) -> None:
    missing = 0
    with catchment.open(path) as run:
        frames = list(run.frames())
        assert len(frames) == len(TYPED["frames"]) == 2
        for frame, about in zip(frames, TYPED["frames"], strict=True):
            for number, source in enumerate(run.sources):
                written_here = fragments_written(about, number)
                found = [frame[source][row] for row in range(len(frame[source]))]
                assert [None if one is None else one.tobytes() for one in found] == written_here
                missing += sum(one is None for one in found)
    assert missing > 0


@pytest.mark.parametrize("path", sorted(FOLDER.glob("typed-*.catch")), ids=lambda path: path.stem)
def test_typed_payload_becomes_arrays_of_its_type(path: Path) -> None:
    with catchment.open(path) as run:
        whole, other = run.frames()
        arrays, records, plain = (whole[source] for source in run.sources)
        assert plain.payload is None
        with pytest.raises(TypeError):
            _ = plain.array

        # All fragments are there: their values, without the 16 bytes before them.
        assert arrays.payload == {"dtype": "<i2", "shape": [4, 8], "skip": 16}
        raw = b"".join(fragment or b"" for fragment in fragments_written(TYPED["frames"][0], 0))
        expected = np.frombuffer(raw, np.uint8).reshape(-1, 80)[:, 16:].copy().view("<i2")
        assert len(expected) == 24
        assert arrays.array.dtype == np.dtype("<i2")
        assert not isinstance(arrays.array, np.ma.MaskedArray)
        np.testing.assert_array_equal(arrays.array, expected.reshape(24, 4, 8))

        # One was cut short: no array, and the error names it.
        cut = other[next(iter(run.sources))]
        lengths = [None if one is None else len(one) for one in (cut[row] for row in range(24))]
        assert set(lengths) == {None, 80, 30}
        key = cut.keys[lengths.index(30)]
        with pytest.raises(ValueError, match=f"event {key}: a fragment of 30 bytes, expected 80"):
            _ = cut.array

        # Records: as many in a fragment as there were, so that there is one array per fragment.
        record = records.payload
        assert record is not None
        dtype = np.dtype(record["dtype"])
        assert dtype.names == ("time", "channel", "amplitude")
        assert dtype.itemsize == 16
        with pytest.raises(ValueError, match="expected 0"):
            _ = records.array
        count = 0
        written_records = fragments_written(TYPED["frames"][0], 1)
        for row, raw_records in enumerate(written_records):
            fragment = records[row]
            assert (fragment is None) == (raw_records is None)
            if fragment is None or raw_records is None:
                continue
            values = fragment.view(dtype)
            times = [
                int.from_bytes(raw_records[i : i + 8], "little")
                for i in range(0, len(raw_records), 16)
            ]
            assert values["time"].tolist() == times
            channels = [
                int.from_bytes(raw_records[i + 8 : i + 10], "little")
                for i in range(0, len(raw_records), 16)
            ]
            assert values["channel"].tolist() == channels
            count += len(values)
        assert count == 36


@pytest.mark.parametrize("path", sorted(FOLDER.glob("typed-*.catch")), ids=lambda path: path.stem)
def test_records_of_one_count_become_an_array_and_others_an_error(path: Path) -> None:
    raw = fragments_written(TYPED["frames"][0], 1)
    with catchment.open(path) as run:
        keys = run.frames()[0].keys.tolist()
        source = run.sources[list(run.sources)[1]]
        for key, one in zip(keys, raw, strict=True):
            assert one is not None
            array = source.fragments(key, key + 1).array
            assert array.dtype == RECORD
            assert array.shape == (1, len(one) // 16)
            expected = np.frombuffer(one, RECORD)
            for name in ("time", "channel", "amplitude"):
                np.testing.assert_array_equal(array[name][0], expected[name])
        # A shorter one behind it is named, with both lengths.
        row = next(i for i in range(23) if len(raw[i] or b"") > len(raw[i + 1] or b""))
        short, whole = len(raw[row + 1] or b""), len(raw[row] or b"")
        message = f"event {keys[row + 1]}: a fragment of {short} bytes, expected {whole}"
        with pytest.raises(ValueError, match=message):
            _ = source.fragments(keys[row], keys[row + 1] + 1).array


def test_a_killed_file_is_read_up_to_its_last_whole_frame() -> None:
    about = json.loads((FOLDER / "unfinished.json").read_text())
    with catchment.open(FOLDER / "unfinished.catch") as run:
        assert run.status == "open"
        for expected in about["channels"]:
            channel = run[expected["name"]]
            found = [(s.first_sample, s.data.tobytes()) for s in channel.segments(raw=True)]
            assert found == written(about, expected)
            assert channel.time_scale == "utc"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("typed-*.catch")), ids=lambda path: path.stem)
def test_typed_events_become_an_arrow_table(path: Path) -> None:
    pytest.importorskip("pyarrow")
    written_of = [
        [one for frame in TYPED["frames"] for one in fragments_written(frame, source)]
        for source in range(3)
    ]
    with catchment.open(path) as run:
        names = list(run.sources)
        table = run.to_arrow()
        assert table.column_names == ["event", "time", "flags", *names]
        events = run.events
        assert table["event"].to_pylist() == events.keys.tolist()
        assert table["time"].cast("int64").to_pylist() == events.times.tolist()
        assert table["flags"].to_pylist() == events.flags.tolist()

        # One array was cut short: all are the bytes that came.
        assert table[names[0]].to_pylist() == written_of[0]
        records = [
            None if one is None else [(t, c, a.tolist()) for t, c, a in np.frombuffer(one, RECORD)]
            for one in written_of[1]
        ]
        found = [
            None if one is None else [(r["time"], r["channel"], r["amplitude"]) for r in one]
            for one in table[names[1]].to_pylist()
        ]
        assert found == records
        assert {len(one) for one in found if one is not None} == {0, 1, 2, 3}
        assert table[names[2]].to_pylist() == written_of[2]

        # Without the frame that has the short one they are arrays, without the bytes before them.
        stop = int(run.frames()[1].times[0])
        part = run.to_arrow(names[0], None, stop)
        whole = run.frames()[0][names[0]].array
        assert part["event"].to_pylist() == run.frames()[0].keys.tolist()
        assert part[names[0]].to_pylist() == whole.tolist()
        some = run.to_arrow(names, stop - 1, stop + 3001)
        second = slice(len(whole), len(whole) + 4)
        assert some["event"].to_pylist() == events.keys[second].tolist()
        assert some[names[1]].to_pylist() == table[names[1]].to_pylist()[second]
        assert some[names[0]].null_count == sum(one is None for one in written_of[0][second])
        nothing = run.to_arrow(start=stop + 10**9)
        assert nothing.num_rows == 0
        assert nothing.column_names == table.column_names
        assert nothing.schema.field(names[1]).type == table.schema.field(names[1]).type


RECORD = np.dtype(
    {
        "names": ["time", "channel", "amplitude"],
        "formats": ["<u8", "<u2", ("<i2", (2,))],
        "offsets": [0, 8, 12],
        "itemsize": 16,
    }
)
