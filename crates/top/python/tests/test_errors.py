"""What goes wrong is said by an exception of the right kind, with the names that it concerns."""

from pathlib import Path

import pytest

import catchment
from fixtures import REPOSITORY, Golden


def test_a_path_that_is_not_there_is_the_systems_error(tmp_path: Path) -> None:
    for call in (catchment.open, catchment.audit, catchment.verify):
        with pytest.raises(FileNotFoundError) as error:
            call(tmp_path / "absent.catch")
        assert error.value.filename == str(tmp_path / "absent.catch")


def test_what_is_no_frame_file_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(catchment.FileError, match=r"no \.catch file"):
        catchment.open(tmp_path)
    other = tmp_path / "other.catch"
    other.write_bytes(b"something else" * 1000)
    for path in (other, tmp_path):
        with pytest.raises(catchment.FileError, match=r"other\.catch"):
            catchment.open(path)


def test_no_error_and_no_warning_has_a_control_character_of_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "red\x1b[31m\u202e"
    folder.mkdir()
    golden = REPOSITORY / "crates/format/frame/tests/golden/v1.3/blocks-damaged.catch"
    path = folder / "run.catch"
    path.write_bytes(golden.read_bytes())
    said = []
    with pytest.raises(catchment.FileError) as error:
        catchment.open(folder / "..")
    said.append(str(error.value))
    (folder / "none").mkdir()
    with pytest.raises(catchment.FileError) as error:
        catchment.open(folder / "none")
    said.append(str(error.value))
    with catchment.open(path) as run:
        channel, first = run["X1:LONG"], 139_072 * 1_400_000_000
        with pytest.warns(catchment.DamageWarning) as warned:
            list(channel.segments(samples=(first + 2 * 139_072, first + 2 * 139_072 + 10)))
        said.append(str(warned[0].message))
        said += run.problems
        with pytest.raises(catchment.FileError) as error:
            list(channel.segments())
        said.append(str(error.value))
        with pytest.raises(catchment.UnknownChannelError) as unknown:
            run["X1:LONG\x1b"]
        said.append(str(unknown.value))
    with pytest.raises(catchment.RunClosedError) as closed:
        len(run.events)
    said.append(str(closed.value))
    catalog = folder / "none/.catchment"
    catalog.mkdir()
    (catalog / "catalog.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(catchment.CatalogError) as broken:
        catchment.catalog(folder / "none")
    said.append(str(broken.value))
    assert sum(r"\u{1b}[31m" in text for text in said) >= 6, said
    for text in said:
        assert "\x1b" not in text, text
        assert "\u202e" not in text, text
    # The system's error keeps the path for programs, and is shown with it escaped.
    with pytest.raises(FileNotFoundError) as absent:
        catchment.open(folder / "absent.catch")
    assert absent.value.filename == str(folder / "absent.catch")
    assert "\x1b" not in str(absent.value)


def test_unknown_events_and_sources_are_key_errors_of_their_own(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        with pytest.raises(catchment.UnknownEventError, match="no event 123456789") as event:
            run["board-0"].event(123456789)
        assert isinstance(event.value, KeyError)
        assert str(event.value) == "there is no event 123456789 in this run"
        with pytest.raises(catchment.UnknownEventError):
            run.events.missing(123456789)
        with pytest.raises(catchment.UnknownEventError):
            run.events.find(123456789)
        for source in ("board-9", 9, -1):
            with pytest.raises(catchment.UnknownSourceError, match="no source"):
                run[source]
            with pytest.raises(KeyError):
                run.frames()[0][source]
        with pytest.raises(catchment.UnknownSourceError):
            run.ledger["board-9"]
        with pytest.raises(KeyError):
            run.ledger["board-0"]["no_such_entry"]
        with pytest.raises(TypeError, match=r"frame\[source\]"):
            iter(run.frames()[0])


def test_a_closed_run_says_so(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        sources = run.sources
    with pytest.raises(catchment.RunClosedError, match="was closed"):
        len(run.events)
    with pytest.raises(ValueError, match="was closed"), run:
        pass
    assert "closed for reading" in repr(run)
    assert len(sources) == 3


def test_a_damaged_column_is_named_and_costs_nothing_else(
    closed_golden: Golden, tmp_path: Path
) -> None:
    with catchment.open(closed_golden.path) as run:
        row = next(row for row, data in enumerate(run.frames()[0]["board-1"]) if data is not None)
        key = int(run.frames()[0].keys[row])
    whole = closed_golden.path.read_bytes()
    report = None
    path = tmp_path / "damaged.catch"
    # Every offset in the first two frames until one is found that hits the payload of board-1.
    for offset in range(4096, len(whole) // 2, 16):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0xFF]) + whole[offset + 1 :])
        report = catchment.verify(path)
        hit = [(p.frame, p.column, p.source) for p in report.problems]
        if hit == [(0, "fragment_payload", "board-1")]:
            break
    else:
        pytest.fail("no offset was in the payload of board-1")
    assert not report.intact
    assert report.problems[0].file == path
    with catchment.open(path) as run:
        with pytest.raises(catchment.FileError, match=r"frame 0, fragment_payload of source board"):
            run["board-1"].event(key)
        run["board-0"].event(key)
        assert run["board-1"].fragments(int(run.frames()[1].keys[0])).data.size >= 0


def test_reprs_say_what_a_thing_is(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        assert "3 sources" in repr(run)
        assert f"events in {len(run.frames())} frames, 1 file, ended" in repr(run)
        assert repr(run.sources) == "<catchment.Sources: 3 (board-0, board-1, board-2)>"
        assert repr(run["board-2"]) == "<catchment.Source 2 'board-2' of 'boards': optional>"
        assert repr(run.events).startswith("<catchment.Events: ")
        assert repr(run.events[0]).startswith(f"<catchment.Event {run.events[0].key}: ")
        assert repr(run.frames()).startswith("<catchment.Frames: ")
        assert repr(run.frames()[0]).startswith("<catchment.Frame 0: ")
        assert "of 'board-0'" in repr(run["board-0"].fragments())
        assert "balanced" in repr(run.ledger)
        assert "fragments_recorded: " in repr(run.ledger["board-0"])
        assert "run 7" in repr(run.header)
