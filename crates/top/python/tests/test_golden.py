"""The golden files of the format, read back."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import catchment
from fixtures import GOLDEN, Golden


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) >= 3


def test_headers_and_sources_are_what_was_written(golden: Golden) -> None:
    with catchment.open(golden.path) as run:
        about = golden.about
        header = run.header
        assert header.run_id == about["run"]
        assert header.run_number == about["run_number"]
        assert header.created_ns == about["created_ns"]
        assert header.writer == about["writer"]
        assert header.files == [golden.path]
        assert run.config_text == about["config"]
        assert run.config == {"run": {"name": "golden"}}
        expected = ("ended" if about["run_ended"] else "closed") if about["closed"] else "open"
        assert run.status == expected
        for source in about["sources"]:
            for found in (run[source["name"]], run[source["id"]], run.sources[source["id"]]):
                assert found.name == source["name"]
                assert found.number == source["id"]
                assert found.group == source["group"]
                assert found.protocol == source["protocol"]
                assert found.required == source["required"]
        names = [source["name"] for source in about["sources"]]
        assert list(run.sources) == list(run) == run.sources.keys() == names
        assert [source.number for source in run.sources.values()] == list(range(len(run)))
        assert "board-0" in run
        assert "board-9" not in run.sources
        assert 3.5 not in run.sources


def test_events_are_what_was_written(golden: Golden) -> None:
    with catchment.open(golden.path) as run:
        events = run.events
        for name, described in (("keys", "keys"), ("times", "times_ns"), ("flags", "flags")):
            expected = [value for frame in golden.frames for value in frame[described]]
            assert getattr(events, name).tolist() == expected
        assert len(events) == len(events.keys)
        assert [event.key for event in events] == events.keys.tolist()
        assert events[-1] == list(events)[-1] == events.find(int(events.keys[-1]))
        assert (events[0].key, events[0].time_ns) == (int(events.keys[0]), int(events.times[0]))
        assert int(events.keys[0]) in events
        assert 10**15 not in events
        incomplete = [event.key for event in events if not event.complete]
        assert events.incomplete == len(incomplete)
        with pytest.raises(IndexError):
            events[len(events)]


def test_every_fragment_is_what_was_written_and_missing_ones_are_none(golden: Golden) -> None:
    with catchment.open(golden.path) as run:
        for name, source in run.sources.items():
            expected = golden.fragments(name)
            fragments = source.fragments()
            assert fragments.keys.tolist() == [key for key, _ in expected]
            assert fragments.valid.tolist() == [data is not None for _, data in expected]
            assert fragments.data.tobytes() == b"".join(data or b"" for _, data in expected)
            for (key, data), joined in zip(expected, fragments, strict=True):
                single = source.event(key)
                for found in (joined, single):
                    assert (None if found is None else found.tobytes()) == data


def test_missing_names_the_required_sources_of_an_event(golden: Golden) -> None:
    required = [source["name"] for source in golden.about["sources"] if source["required"]]
    with catchment.open(golden.path) as run:
        by_source = {name: golden.fragments(name) for name in required}
        for row, (key, _) in enumerate(by_source[required[0]]):
            expected = [name for name in required if by_source[name][row][1] is None]
            assert run.events.missing(key) == expected


def test_ranges_have_keys_and_offsets_of_their_own(golden: Golden) -> None:
    keys = [key for frame in golden.frames for key in frame["keys"]]
    with catchment.open(golden.path) as run:
        for first, last in ((1, 3), (0, len(keys) - 1), (len(keys) - 2, len(keys) - 1)):
            fragments = run["board-1"].fragments(keys[first], keys[last] + 1)
            expected = golden.fragments("board-1")[first : last + 1]
            assert fragments.keys.tolist() == keys[first : last + 1]
            assert len(fragments) == last - first + 1 == len(fragments.offsets) - 1
            for (start, end), (_, data) in zip(pairwise(fragments.offsets), expected, strict=True):
                assert fragments.data[int(start) : int(end)].tobytes() == (data or b"")
        nothing = run["board-1"].fragments(10**15, None)
        assert (len(nothing), nothing.offsets.tolist(), nothing.data.size) == (0, [0], 0)


def test_ranges_of_time_and_of_frames_choose_the_same_fragments(golden: Golden) -> None:
    times = [time for frame in golden.frames for time in frame["times_ns"]]
    frame_of = [n for n, frame in enumerate(golden.frames) for _ in frame["keys"]]
    written = golden.fragments("board-1")
    with catchment.open(golden.path) as run:
        source = run["board-1"]

        def chosen(*keys: int, **ranges: Any) -> list[tuple[int, bytes | None]]:  # noqa: ANN401
            found = source.fragments(*keys, **ranges)
            data = [None if one is None else one.tobytes() for one in found]
            return list(zip(found.keys.tolist(), data, strict=True))

        start, stop = sorted(times)[2], sorted(times)[-2]
        in_time = [start <= time < stop for time in times]
        in_frame = [number >= 1 for number in frame_of]
        of_time = [one for one, there in zip(written, in_time, strict=True) if there]
        assert 0 < len(of_time) < len(written)
        for first, last in (
            (start, stop),
            (np.datetime64(start, "ns"), np.datetime64(stop, "ns")),
            (str(np.datetime64(start, "ns")), stop),
        ):
            assert chosen(time=(first, last)) == of_time
        upper = [one for one, time in zip(written, times, strict=True) if time >= start]
        assert chosen(time=(start, None)) == upper
        assert chosen(frames=(1, 99)) == [
            one for one, there in zip(written, in_frame, strict=True) if there
        ]
        together = zip(written, in_time, in_frame, strict=True)
        both = [one for one, time, frame in together if time and frame]
        assert chosen(time=(start, stop), frames=(1, 99)) == both
        key = both[1][0]
        assert chosen(key, time=(start, stop), frames=(1, 99)) == [
            one for one in both if one[0] >= key
        ]
        for nothing in ({"time": (0, 10**12)}, {"time": (stop, start)}, {"frames": (99, 100)}):
            assert chosen(**nothing) == []
        with pytest.raises(ValueError, match="yesterday"):
            chosen(time=("yesterday", None))


def test_the_ledger_is_what_was_written(golden: Golden) -> None:
    with catchment.open(golden.path) as run:
        ledger = run.ledger
        assert ledger.recomputed is not golden.about["closed"]
        for name, fragments in ((name, golden.fragments(name)) for name in run):
            recorded = sum(data is not None for _, data in fragments)
            assert ledger[name]["fragments_recorded"] == recorded
        if golden.about["ledger"] is None:
            return
        for name, counts in golden.about["ledger"].items():
            found = {entry: count for entry, count in ledger[name].items() if count}
            assert found == counts
            assert ledger[name] == {entry: ledger[name][entry] for entry in ledger[name]}
        total = sum(counts["fragments_recorded"] for counts in golden.about["ledger"].values())
        assert ledger.total["fragments_recorded"] == total
        assert ledger.lost_data is golden.about["data_lost"]
        assert list(ledger) == list(run.sources)
        assert ledger.balanced is all(counts.balanced for counts in ledger.values())


def test_malformed_packets_are_counted_by_their_sources_reasons(golden: Golden) -> None:
    reasons = golden.about.get("malformed_reasons", {})
    with catchment.open(golden.path) as run:
        for name in run.sources:
            expected = reasons.get(name, {})
            assert run.ledger[name].malformed_reasons == expected
            malformed = [
                count for entry, count in run.ledger[name].items() if "_malformed_" in entry
            ]
            assert sum(malformed) == sum(expected.values())


def test_golden_files_verify_and_their_books_balance(golden: Golden) -> None:
    report = catchment.verify(golden.path)
    assert report.frames == len(golden.about["frames"])
    assert report.unclosed == (() if golden.about["closed"] else (golden.path,))
    audited = catchment.audit(golden.path)
    assert audited.balanced
    assert audited.events == sum(len(frame["keys"]) for frame in golden.frames)
    assert report.intact
    if golden.about["closed"]:
        assert audited.recomputed == golden.about["ledger"]
        assert audited.recorded == audited.recomputed
        assert audited.verdict == ("data_lost" if golden.about["data_lost"] else "balanced")


def test_flags_have_the_names_of_the_format() -> None:
    names = {flag.name.lower(): flag.value for flag in catchment.EventFlag if flag.name}
    assert names == catchment._native.event_flags  # noqa: SLF001 (the one source of the names)
    assert catchment.EventFlag(3) == catchment.EventFlag.INCOMPLETE | catchment.EventFlag.TIMED_OUT


def test_arrays_have_the_types_that_are_documented(golden: Golden) -> None:
    with catchment.open(golden.path) as run:
        frame = run.frames()[0]
        fragments = frame["board-0"]
        for array, dtype in (
            (frame.keys, np.uint64),
            (frame.times, np.int64),
            (frame.flags, np.uint32),
            (fragments.keys, np.uint64),
            (run.events.times, np.int64),
            (fragments.offsets, np.int64),
            (fragments.data, np.uint8),
            (fragments.valid, np.bool_),
        ):
            assert array.dtype == dtype
            assert not array.flags.writeable
        assert run.events.times.view("datetime64[ns]")[0] > np.datetime64("2025-01-01")
        # With each other and with channels' times they stay exact, and they are indices.
        assert (run.events.times - frame.times[:1]).dtype == np.int64
        assert np.add.reduceat(fragments.data, fragments.offsets[:1]).shape == (1,)
