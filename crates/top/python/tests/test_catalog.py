"""The catalogue of runs that the installed command wrote."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import catchment

WEST, EAST = timezone(timedelta(hours=-5)), timezone(timedelta(hours=5))
SILENT = '[[sources]]\nname = "silent"\naddress = "127.0.0.1:0"\n'


def command(folder: Path, *arguments: str) -> None:
    """Run the installed command in a folder."""
    line = [sys.executable, "-m", "catchment", *arguments]
    done = subprocess.run(line, check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a source that never sends."""
    folder = tmp_path_factory.mktemp("catalog")
    (folder / "silent.toml").write_text(SILENT)
    for comment in ("first light", "pedestal"):
        command(folder, "run", "silent.toml", "--seconds", "0.05", "--comment", comment)
    command(folder, "catalog", "set", "2", "--quality", "good")
    return folder / "runs"


def test_runs_are_listed_newest_first(folder: Path) -> None:
    runs = catchment.catalog(folder)
    assert len(runs) == 2
    assert [run.number for run in runs] == [2, 1]
    assert "2 runs" in repr(runs)
    run = runs.run(1)
    assert (run.state, run.comment, run.quality) == ("complete", "first light", "unknown")
    assert (run.events, run.loss_count, run.configuration) == (0, 0, 1)
    assert run.started is not None
    assert run.ended is not None
    assert timedelta(0) <= run.ended - run.started < timedelta(hours=1)
    assert run.path is not None
    with catchment.open(run.path) as opened:
        assert opened.header.run_number == 1
        assert opened.header.run_id == run.id
    with pytest.raises(KeyError):
        runs.run(3)
    with pytest.raises(AttributeError):
        run.comment = "changed"  # type: ignore[misc]


def test_runs_are_found(folder: Path) -> None:
    def found(**query: Any) -> list[int]:  # noqa: ANN401 (as catalog takes them)
        return [run.number for run in catchment.catalog(folder, **query)]

    assert found(text="PEDESTAL") == [2]
    assert found(quality="good") == [2]
    assert found(state="recording") == []
    assert found(since=datetime.now(UTC) + timedelta(days=1)) == []
    assert found(since="2026-01-01", until=datetime.now(UTC)) == [2, 1]
    late: list[Any] = ["9999-12-31", datetime.max, datetime.max.replace(tzinfo=WEST), 2**70]  # noqa: DTZ901
    early: list[Any] = ["0001-01-01", datetime.min, datetime.min.replace(tzinfo=EAST), -1]  # noqa: DTZ901
    for time in late:
        assert found(until=time) == [2, 1], time
        assert found(since=time) == [], time
    for time in early:
        assert found(since=time) == [2, 1], time
        assert found(until=time) == [], time
    with pytest.raises(ValueError, match="expected a time"):
        found(since="yesterday")
    with pytest.raises(ValueError, match="there is no 'fine'"):
        found(quality="fine")


def test_a_run_has_files_books_and_its_configuration(folder: Path) -> None:
    runs = catchment.catalog(folder)
    assert runs.configuration(1) == SILENT
    assert [file.closed for file in runs.files(1)] == [True]
    assert runs.ledger(1) == {}
    assert runs.frames(1) == []
    assert runs.copies(1) == []
    [location] = runs.locations(1)
    assert (location.kind, location.required, location.files) == ("folder", True, ((0, 0),))
    assert Path(location.address) == folder.resolve()
    assert runs.run(1).path == folder / location.name
    with pytest.raises(catchment.CatalogError, match="there is no run 9"):
        runs.ledger(9)


def test_runs_are_a_table_of_pandas(folder: Path) -> None:
    pytest.importorskip("pandas")
    table = catchment.catalog(folder).pandas()
    assert list(table.index) == [2, 1]
    assert list(table["comment"]) == ["pedestal", "first light"]
    assert table["events"].sum() == 0
    assert (table["ended"] >= table["started"]).all()
    assert catchment.catalog(folder, "nothing").pandas().empty


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        catchment.catalog(tmp_path)
    assert list(tmp_path.iterdir()) == []
    inside = tmp_path / ".catchment"
    inside.mkdir()
    (inside / "catalog.sqlite").write_bytes(json.dumps({"no": "database"}).encode() * 100)
    with pytest.raises(catchment.CatalogError, match="catchment catalog rebuild"):
        catchment.catalog(tmp_path)
