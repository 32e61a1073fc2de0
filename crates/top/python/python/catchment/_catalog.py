"""The catalogue of runs: what was recorded, when, by whom, how it ended, where it lies."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

from catchment import _native
from catchment._optional import optional
from catchment._times import nanoseconds

if TYPE_CHECKING:
    import pandas as pd

    from catchment._times import Time

__all__ = [
    "Catalog",
    "CatalogCopy",
    "CatalogFile",
    "CatalogFrames",
    "CatalogLocation",
    "CatalogRun",
    "catalog",
]

State = Literal["starting", "recording", "complete", "fault", "interrupted", "failed"]
Quality = Literal["unknown", "good", "questionable", "bad", "test"]


@dataclass(frozen=True)
class CatalogFile:
    """A file of a run."""

    place: int
    """Its index among the run's files, from 0."""
    name: str
    created: datetime
    bytes: int
    frames: int
    events: int
    closed: bool
    """Whether it has its table of contents."""


@dataclass(frozen=True)
class CatalogFrames:
    """Frames of one kind that follow each other in a file, and what they cover."""

    file: int
    kind: Literal["events", "channels"]
    first: int
    """The first one's index among the file's frames."""
    count: int
    time_first_ns: int
    """The earliest time in them; of channels, in their time scale."""
    time_last_ns: int
    key_first: int
    key_last: int
    rows: int
    """Events; of channels, samples of all together."""
    bytes: int


@dataclass(frozen=True)
class CatalogCopy:
    """A file's copy elsewhere."""

    file: int
    place: str
    """A path or an address."""
    checksum: str
    bytes: int
    made: datetime
    checked: datetime | None
    """When it was last read and found right."""


@dataclass(frozen=True)
class CatalogFileFrames:
    """Closed files of a storage node: one, or several between two indexes."""

    first_file: int
    """The index of the first one: file 7 of the folder run-1 is run-1-00007.catch."""
    last_file: int
    files: int
    """How many there are."""
    first_frame: int
    """The lowest number of their frames."""
    last_frame: int


@dataclass(frozen=True)
class CatalogLocation:
    """Something to which a run's frames were sent. What is not known is None."""

    target: str
    """The target of which it is a part, or the whole."""
    kind: Literal["folder", "node", "spill"]
    """A folder, a storage node, or a folder of frames that wait for a storage node."""
    address: str
    """The folder in which runs have folders, or the node's host and port."""
    name: str
    """The name of the run's folder there."""
    required: bool
    """Whether the run waits for the target."""
    frames: int | None
    """Durable frames; None for one of several folders. Of a spill, those that waited there when the
    run ended, and have been forwarded to the node since, or not."""
    bytes: int | None
    first_frame: int | None
    """Of a node: the lowest number of its frames. Other nodes have those between that it lacks."""
    last_frame: int | None
    files: tuple[tuple[int, int], ...]
    """Of a folder: the indexes of its files, each the first and the last of some that follow each
    other."""
    file_frames: tuple[CatalogFileFrames, ...]
    """Of a node: which frames are in which of the files that it has closed."""


@dataclass(frozen=True)
class CatalogRun:
    """A run. What is not known is None."""

    number: int
    id: str | None
    """Its identity; None if it did not come to a recording."""
    path: Path | None
    """Its folder."""
    number_in_files: int | None
    """The number that its files say, where that is another."""
    taken: datetime
    """When it got its number."""
    started: datetime | None
    ended: datetime | None
    """When it ended; of an interrupted run, the last time that is on disk."""
    who: str
    comment: str
    configuration: int | None
    """The version of its configuration."""
    emulated: bool
    """Whether its data are emulated."""
    state: State
    reason: str | None
    """Why it is in that state."""
    quality: Quality
    events: int | None
    fragments: int | None
    bytes: int | None
    frames: int | None
    files: int | None
    loss_count: int | None
    """Fragments and packets that were lost: 0 only if nothing was."""
    bad_count: int | None
    """Recorded fragments that are bad, for each reason: see `Ledger.bad_data`."""


class Catalog(Sequence[CatalogRun]):
    """The runs of a data folder as they were when it was read, newest first."""

    def __init__(self, folder: Path, runs: Sequence[CatalogRun]) -> None:
        """Keep runs; `catchment.catalog` reads them."""
        self._folder = folder
        self._runs = tuple(runs)

    @property
    def folder(self) -> Path:
        """The data folder."""
        return self._folder

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> CatalogRun: ...
    @overload
    def __getitem__(self, index: slice) -> "Catalog": ...
    def __getitem__(self, index: int | slice) -> "CatalogRun | Catalog":
        """Give the run at an index of the list; `run` gives the one of a number."""
        if isinstance(index, slice):
            return Catalog(self._folder, self._runs[index])
        return self._runs[index]

    def __iter__(self) -> Iterator[CatalogRun]:
        """Go through the runs, newest first."""
        return iter(self._runs)

    def __repr__(self) -> str:
        """Say where and how many."""
        return f"<catchment.Catalog of {self._folder}: {len(self)} runs>"

    def run(self, number: int) -> CatalogRun:
        """Give the run of that number.

        Raises:
            KeyError: It is not among these.

        """
        for run in self._runs:
            if run.number == number:
                return run
        raise KeyError(number)

    def ledger(self, number: int) -> Mapping[str, int]:
        """Give the entries of a run's ledger that are not zero, summed over the sources."""
        counts: dict[str, int] = self._show(number)["ledger"]
        return MappingProxyType(counts)

    def files(self, number: int) -> list[CatalogFile]:
        """Give a run's files."""
        return [CatalogFile(**_times(file, "created")) for file in self._show(number)["files"]]

    def frames(self, number: int) -> list[CatalogFrames]:
        """Say what a run's frames cover; one entry may stand for several frames of a file."""
        return [CatalogFrames(**frames) for frames in self._show(number)["frames"]]

    def copies(self, number: int) -> list[CatalogCopy]:
        """Give the copies of a run's files."""
        copies = self._show(number)["copies"]
        return [CatalogCopy(**_times(copy, "made", "checked")) for copy in copies]

    def locations(self, number: int) -> list[CatalogLocation]:
        """Say where a run's frames were sent: folders, storage nodes, spills; by target."""
        return [_location(location) for location in self._show(number)["locations"]]

    def configuration(self, number: int) -> str | None:
        """Give the configuration that a run was recorded with (TOML)."""
        text: str | None = self._show(number)["configuration"]
        return text

    def pandas(self) -> "pd.DataFrame":
        """Give the runs as a table, a row each, with the run's number as index."""
        pandas = optional("pandas")
        names = [field.name for field in fields(CatalogRun)]
        rows = [[getattr(run, name) for name in names] for run in self._runs]
        frame = pandas.DataFrame(rows, columns=names)
        for name in ("taken", "started", "ended"):
            frame[name] = pandas.to_datetime(frame[name], utc=True)
        # Integers, though some are not known.
        counts = ("number_in_files", "configuration", "events", "fragments", "bytes")
        for name in (*counts, "frames", "files", "loss_count", "bad_count"):
            frame[name] = frame[name].astype("UInt64")
        table: pd.DataFrame = frame.set_index("number")
        return table

    def _show(self, number: int) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(_native.catalog_show_json(self._folder, number))
        return shown


def catalog(  # noqa: PLR0913 (each narrows the list, by name)
    folder: str | os.PathLike[str] = "runs",
    text: str = "",
    *,
    since: "Time | None" = None,
    until: "Time | None" = None,
    quality: Quality | None = None,
    state: State | None = None,
    who: str | None = None,
) -> Catalog:
    """Read the catalogue of a data folder; nothing is changed.

    Args:
        folder: The folder of the runs.
        text: Words that all stand in comment, person, folder, identity or reason, in any case. A
            number also finds the run of that number.
        since: Only runs that had not ended before: a time as channels take it, such as
            "2026-11-21", a datetime, or nanoseconds since 1970. Without a time zone it is UTC.
        until: Only runs that began before. "9999-12-31" is an open end.
        quality: Only runs of this quality.
        state: Only runs in that state.
        who: Only this person's runs.

    Raises:
        FileNotFoundError: There is no catalogue; `catchment catalog rebuild` makes one.
        CatalogError: It is damaged, or a newer program wrote it.
        ValueError: A time, quality or state that does not exist.

    """
    query = {
        "text": text,
        "since_ns": None if since is None else nanoseconds(since, "utc"),
        "until_ns": None if until is None else nanoseconds(until, "utc"),
        "quality": quality,
        "state": state,
        "who": who,
    }
    path = Path(folder)
    rows: list[dict[str, Any]] = json.loads(_native.catalog_runs_json(path, json.dumps(query)))
    return Catalog(path, [_run(path, row) for row in rows])


def _run(folder: Path, row: dict[str, Any]) -> CatalogRun:
    row = _times(row, "taken", "started", "ended")
    name: str | None = row.pop("folder")
    return CatalogRun(path=None if name is None else folder / name, **row)


def _location(row: dict[str, Any]) -> CatalogLocation:
    files = tuple((first, last) for first, last in row.pop("files"))
    file_frames = tuple(CatalogFileFrames(**one) for one in row.pop("file_frames", ()))
    return CatalogLocation(files=files, file_frames=file_frames, **row)


def _times(row: dict[str, Any], *names: str) -> dict[str, Any]:
    times = {name: row[name] and datetime.fromisoformat(row[name]) for name in names}
    return {**row, **times}
