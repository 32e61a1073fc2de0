"""The golden files of version 1.3: ranges of columns, by the checksums of their blocks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment
from fixtures import REPOSITORY

FOLDER = REPOSITORY / "crates/format/frame/tests/golden/v1.3"
START_S = 1_400_000_000


def described(name: str) -> dict[str, Any]:
    """What stands beside a file."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def written(frame: int, start: int, count: int) -> bytes:
    """The samples of a frame, as its description says what they are."""
    n = np.arange(start, start + count, dtype=np.uint64)
    return (7 * n + n // 251 + 13 * frame).astype(np.uint8).tobytes()


def read(channel: catchment.Channel, rate: int, frame: int, start: int, count: int) -> bytes:
    """Samples of a frame, counted from its first."""
    first = rate * (START_S + frame) + start
    return b"".join(
        segment.data.tobytes() for segment in channel.segments(samples=(first, first + count))
    )


@pytest.mark.parametrize("name", ["blocks-none", "blocks-unclosed"])
def test_ranges_across_the_borders_of_blocks_are_what_was_written(name: str) -> None:
    about = described(name)
    with catchment.open(FOLDER / f"{name}.catch") as run:
        for channel, rate in about["channels"]:
            for start, count in ((0, 1), (65_530, 6), (rate - 2, 2), (1, rate - 1), (0, rate)):
                assert read(run[channel], rate, 0, start, count) == written(0, start, count)


@pytest.mark.parametrize("codec", ["blosc", "lz4", "zstd", "for", "pcodec"])
def test_parts_of_encoded_columns_are_those_of_the_whole(codec: str) -> None:
    ((channel, rate),) = described(f"blocks-{codec}")["channels"]
    with catchment.open(FOLDER / f"blocks-{codec}.catch") as run:
        whole = run[channel].numpy()
        assert len(whole) == rate
        assert not whole.reshape(-1)[np.arange(rate) % 16 < 8].any()
        part = read(run[channel], rate, 0, 65_500, 100)
        assert part == whole[65_500:65_600].tobytes()


@pytest.mark.filterwarnings("ignore::catchment.DamageWarning")
def test_damaged_blocks_are_refused_and_others_given() -> None:
    about = described("blocks-damaged")
    rates = dict(about["channels"])
    with catchment.open(FOLDER / "blocks-damaged.catch") as run:
        for number, frame in enumerate(about["frames"]):
            channel, rate = run[frame["channel"]], rates[frame["channel"]]
            for part in [*frame["ranges"], {"from": 0, "count": rate, "given": frame["whole"]}]:
                start, count = part["from"], part["count"]
                if part["given"]:
                    assert read(channel, rate, number, start, count) == written(
                        number, start, count
                    )
                else:
                    with pytest.raises(catchment.FileError, match="checksum"):
                        read(channel, rate, number, start, count)


def test_a_damaged_table_is_warned_of_once_and_is_among_the_problems() -> None:
    about = described("blocks-damaged")
    of_tables = [
        number
        for number, frame in enumerate(about["frames"])
        if "table" in frame["about"] or "last CRC" in frame["about"]
    ]
    intact = [number for number in of_tables if about["frames"][number]["whole"]]
    assert len(intact) == 3
    with catchment.open(FOLDER / "blocks-damaged.catch") as run:
        channel, rate = run["X1:LONG"], dict(about["channels"])["X1:LONG"]
        assert read(channel, rate, 0, 0, 10) == written(0, 0, 10)
        assert run.problems == []
        with pytest.warns(catchment.DamageWarning, match="table of checksums by block") as warned:
            assert read(channel, rate, intact[0], 0, 10) == written(intact[0], 0, 10)
        assert len(warned) == 1
        # Any further warning would be an error.
        for number in intact:
            assert read(channel, rate, number, 70_000, 10) == written(number, 70_000, 10)
        assert len(run.problems) == 3
        assert all("table of checksums by block" in problem for problem in run.problems)


def test_reserved_parts_are_passed_over_and_a_qualified_column_is_refused() -> None:
    about = described("reserved")
    with catchment.open(FOLDER / "reserved.catch") as run:
        frames = list(run.frames())
        assert len(frames) == about["event_frames"]
        assert len(run.events) == about["rows"]
        first, qualified, last = run.sources
        assert len(frames[0][qualified].data) > 0
        assert all(len(frames[1][source].keys) > 0 for source in (first, last))
        with pytest.raises(catchment.FileError, match="32768"):
            _ = frames[1][qualified].data


def test_payload_is_in_the_base_beside_the_file(tmp_path: Path) -> None:
    about = described("in-base")
    expected = [None if one is None else bytes(one) for one in about["fragments"]]
    for base in (None, FOLDER / "base.catch"):
        with catchment.open(FOLDER / "in-base.catch", base=base) as run:
            fragments = next(iter(run.sources.values())).fragments()
            found = [None if one is None else one.tobytes() for one in fragments]
            assert found == expected
            assert len(list(run.frames())) == len(about["parts"])
    alone = tmp_path / "alone.catch"
    alone.write_bytes((FOLDER / "in-base.catch").read_bytes())
    with catchment.open(alone) as run:
        assert len(run.events) == len(expected)
        with pytest.raises(catchment.FileError, match=r"in its base, .*base\.catch"):
            next(iter(run.sources.values())).fragments()
    with catchment.open(alone, base=FOLDER / "base.catch") as run:
        assert len(next(iter(run.sources.values())).fragments().data) > 0


def test_rows_in_which_a_source_was_not_expected_are_not_missing() -> None:
    about = described("expected")
    with catchment.open(FOLDER / "expected.catch") as run:
        missing = [0, 0, 0]
        for frame, of_sources in zip(run.frames(), about["expected"], strict=True):
            for source, expected in enumerate(of_sources):
                fragments = frame[source]
                assert fragments.expected.tolist() == expected
                missing[source] += int((fragments.expected & ~fragments.valid).sum())
        required = [source.required for source in run.sources.values()]
        counted = [number if is_it else 0 for number, is_it in zip(missing, required, strict=True)]
        assert counted == about["fragments_missing"]


def test_holes_are_masked_and_their_bytes_are_zeros() -> None:
    about = described("holes")
    with catchment.open(FOLDER / "holes.catch") as run:
        for frame, holes, payload in zip(
            run.frames(), about["holes"], about["payload"], strict=True
        ):
            fragments = frame[1]
            assert fragments.holes.tolist() == holes
            assert bytes(fragments.data).hex() == payload
        joined = run.sources[1].fragments()
        rows = sum(len(frame.keys) for frame in list(run.frames())[:1])
        of_second = [[row + rows, offset, size] for row, offset, size in about["holes"][1]]
        assert joined.holes.tolist() == about["holes"][0] + of_second
        assert joined[2:].holes.tolist() == [
            [row - 2, offset, size] for row, offset, size in joined.holes.tolist() if row >= 2
        ]
        total = run.ledger.total
        assert total["fragments_with_holes"] == about["fragments_with_holes"]
        assert total["fragment_bytes_lost"] == about["fragment_bytes_lost"]


def test_pieces_are_told_apart_and_follow_each_other_in_the_payload() -> None:
    about = described("pieces")
    with catchment.open(FOLDER / "pieces.catch") as run:
        source = run.sources[1]
        for frame, pieces in zip(run.frames(), about["pieces"], strict=True):
            fragments = frame[1]
            assert fragments.pieces.tolist() == pieces
            assert fragments.data.tolist() == list(range(1, len(fragments.data) + 1))
            for row, key in enumerate(fragments.keys.tolist()):
                sizes = [size for at, _, size in pieces if at == row]
                parts = source.pieces(key)
                if (whole := source.event(key)) is None:
                    assert parts is None
                    continue
                assert parts is not None
                assert [len(part) for part in parts] == (sizes or [len(whole)])
                assert b"".join(map(bytes, parts)) == bytes(whole)
        joined = source.fragments()
        of_second = [[row + 6, time, size] for row, time, size in about["pieces"][1]]
        assert joined.pieces.tolist() == about["pieces"][0] + of_second
        assert joined[4:].pieces.tolist()[0] == [0, *about["pieces"][0][-3][1:]]
        assert run.ledger[source.name]["fragments_recorded"] == about["fragments_recorded"]


def test_runs_open_with_and_without_the_check_of_whole_columns() -> None:
    for check_columns in (True, False):
        with catchment.open(FOLDER / "blocks-none.catch", check_columns=check_columns) as run:
            assert read(run["X1:LONG"], 200_000, 0, 9, 70_000) == written(0, 9, 70_000)
