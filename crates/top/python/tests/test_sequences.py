"""What behaves as Python's sequences and mappings do, and what is said where it cannot."""

import gc
import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import catchment
from fixtures import Generated, Golden, Recorded


def test_slices_are_what_the_items_are(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        events, frames, fragments = list(run.events), list(run.frames()), run["board-1"].fragments()
        alone = [None if one is None else one.tobytes() for one in fragments]
        for part in (slice(0, 3), slice(-4, None), slice(5, 2), slice(None)):
            assert run.events[part] == events[part]
            assert [f.index for f in run.frames()[part]] == [f.index for f in frames[part]]
            found = fragments[part]
            assert isinstance(found, catchment.Fragments)
            assert [None if one is None else one.tobytes() for one in found] == alone[part]
            assert found.keys.tolist() == fragments.keys[part].tolist()
            assert found.data.tobytes() == b"".join(one or b"" for one in alone[part])
            assert len(found.offsets) == len(found) + 1
            assert found.offsets[0] == 0
            assert found.valid.tolist() == [one is not None for one in alone[part]]
        assert run.events[::-2] == events[::-2]
        assert fragments[2:9][1:3].keys.tolist() == fragments.keys[3:5].tolist()
        for sequence in (fragments, run.frames()):
            with pytest.raises(ValueError, match="its step is 1, got 2: list"):
                sequence[::2]
        for sequence in (run.events, fragments, run.frames()):
            with pytest.raises(IndexError, match=f"of {len(sequence)}"):
                sequence[len(sequence)]
            with pytest.raises(IndexError):
                sequence[-(2**70)]
            with pytest.raises(TypeError, match="expected an index or a slice, got str"):
                sequence["0"]  # type: ignore[call-overload]


def test_ranges_of_keys_exclude_their_stop_as_all_ranges_do(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        source, keys = run["board-0"], run.events.keys
        first, stop = int(keys[1]), int(keys[4])
        assert source.fragments(first, stop).keys.tolist() == keys[1:4].tolist()
        assert source.fragments(start=first, stop=first).keys.tolist() == []
        assert source.fragments(-5, stop).keys.tolist() == keys[:4].tolist()
        assert source.fragments(first, 2**64).keys.tolist() == keys[1:].tolist()
        assert len(source.fragments(2**64, None)) == len(source.fragments(None, -1)) == 0
        with pytest.raises(TypeError, match="expected an event's key, an int, got str"):
            source.fragments("1")


@pytest.mark.parametrize("key", [-1, 2**64, 2**100])
def test_a_key_that_no_event_can_have_is_one_that_no_event_has(
    closed_golden: Golden, key: int
) -> None:
    with catchment.open(closed_golden.path) as run:
        for ask in (run["board-0"].event, run.events.find, run.events.missing):
            with pytest.raises(catchment.UnknownEventError, match=f"no event {key}"):
                ask(key)
        assert key not in run.events


def test_a_run_is_a_mapping(closed_golden: Golden, generated: Generated) -> None:
    with catchment.open(closed_golden.path) as run, catchment.open(generated.path) as channels:
        for mapping in (run, channels, run.sources, run.ledger, run.ledger.total):
            assert isinstance(mapping, Mapping)
            keys, values = list(mapping.keys()), list(mapping.values())
            assert keys == list(mapping) == [key for key, _ in mapping.items()]
            assert len(values) == len(mapping) == len(keys)
            assert mapping.get("no such name") is None
            assert mapping.get("no such name", 5) == 5
        assert [run[name].number for name in run] == [source.number for source in run.values()]
        assert [source.name for _, source in run.items()] == run.keys()
        assert run.get(0).name == run.get("board-0").name == "board-0"
        assert run.ledger.get("board-0") == run.ledger["board-0"]
        assert run.ledger.total.get("fragments_recorded") == run.ledger.total["fragments_recorded"]
        assert [channel.name for channel in channels.values()] == channels.channels
        for wanted in (run, run.sources, run.frames()[0]):
            for wrong in (None, 1.5, b"board-0"):
                with pytest.raises(TypeError, match="expected a name or a number, got "):
                    wanted[wrong]  # type: ignore[index]
                assert wrong not in wanted


def test_names_that_are_nearly_right_are_told(closed_golden: Golden, generated: Generated) -> None:
    with catchment.open(closed_golden.path) as run, catchment.open(generated.path) as channels:
        hint = r"no source 'bord-1': the run has 3; did you mean 'board-1'"
        for ask in (run, run.sources, run.ledger, run.frames()[0]):
            with pytest.raises(catchment.UnknownSourceError, match=hint):
                ask["bord-1"]
        hint = r"no channel 'L1:FAST-00001': the run has 1000; did you mean .* or 'L1:FAST-0001'"
        for ask_channel in (channels.channel, channels.__getitem__, channels.to_xarray):
            with pytest.raises(catchment.UnknownChannelError, match=hint):
                ask_channel("L1:FAST-00001")


def test_a_trend_is_asked_for_by_a_name_that_there_is(
    recorded: Recorded, generated: Generated
) -> None:
    with catchment.open(generated.path) as run:
        assert run.trend("L1:FAST-0000") is None, "generate makes no trends"
        assert run.trend("catchment:packets_received") is None
        for wrong in ("L1:FAST-00001", "L1:*", "typo"):
            with pytest.raises(catchment.UnknownChannelError, match="no channel or counter"):
                run.trend(wrong)
        with pytest.raises(catchment.UnknownChannelError, match="patterns are not taken"):
            run.trend("L1:FAST-*")
    with catchment.open(recorded.path) as run:
        hint = "did you mean 'catchment:packets_received'"
        with pytest.raises(catchment.UnknownChannelError, match=hint):
            run.trend("catchment:packet_received")
        with pytest.raises(ValueError, match=r"expected .second. or .minute."):
            run.trend("catchment:packets_received", "hour")  # type: ignore[arg-type]


def open_files(path: Path) -> list[str]:
    """Those in that folder that this process has open."""
    folder = Path("/proc/self/fd")
    links = [
        str(link.readlink()) for link in folder.iterdir() if link.is_symlink() and link.exists()
    ]
    return [link for link in links if link.startswith(str(path.resolve()))]


def test_closing_a_run_closes_its_files_for_everything_made_of_it(recorded: Recorded) -> None:
    gc.collect()
    assert open_files(recorded.path) == []
    run = catchment.open(recorded.path)
    source, sources, events, frames = run[3], run.sources, run.events, run.frames()
    frame, fragments, first = frames[0], frames[0][3], frames[0].keys[0]
    single = source.event(first)
    assert single is not None
    iterators = [iter(events), iter(frames)]
    for iterator in iterators:
        next(iterator)
    assert open_files(recorded.path)
    run.close()
    reads = [
        lambda: source.event(first),
        source.fragments,
        lambda: frame[3],
        lambda: frames[0],
        lambda: iter(frames),
        lambda: events.keys,
        lambda: events[0],
        lambda: len(events),
        lambda: run.sources,
        lambda: run.events,
        *(lambda iterator=iterator: next(iterator) for iterator in iterators),
    ]
    for read in reads:
        with pytest.raises(catchment.RunClosedError):
            read()
    del iterators, reads, read, iterator
    assert open_files(recorded.path) == []
    # What was read stays, and what things are called.
    assert len(fragments) == len(frame) == len(frame.times)
    again = fragments[0]
    assert again is not None
    assert np.array_equal(again, single)
    assert (source.name, len(sources), sources[3].number) == (sources.keys()[3], 90, 3)
    for thing in (run, events, frames):
        assert "closed" in repr(thing)


def test_events_are_those_of_the_run_as_it_was_refreshed(recorded: Recorded) -> None:
    with catchment.open(recorded.path) as run:
        events = run.events
        keys = events.keys
        run.refresh()
        assert run.events.keys is keys
        assert events is run.events


def test_flags_of_an_event_have_names(golden: Golden) -> None:
    with catchment.open(golden.path) as run:
        for event, bits in zip(run.events, run.events.flags, strict=True):
            assert isinstance(event.flags, catchment.EventFlag)
            assert event.flags == bits
            assert event.complete is not (catchment.EventFlag.INCOMPLETE in event.flags)


def test_an_array_without_a_copy_is_refused(generated: Generated) -> None:
    with catchment.open(generated.path) as run:
        channel = run["L1:SLOW-0000"]
        assert np.array(channel).shape == np.asarray(channel).shape == (len(channel),)
        with pytest.raises(ValueError, match="no array without a copy"):
            np.array(channel, copy=False)
        assert channel[5] == channel.numpy()[5]
        for index in (len(channel), -len(channel) - 1):
            with pytest.raises(IndexError):
                channel[index]


def test_what_people_see_is_called_by_its_public_name() -> None:
    for name in catchment.__all__:
        thing = getattr(catchment, name)
        if isinstance(thing, type):
            assert f"{thing.__module__}.{thing.__qualname__}" == f"catchment.{name}"
    for error in (catchment.GapError("one"), catchment.UnknownChannelError("two")):
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
        assert (type(copy), str(copy)) == (type(error), str(error))
