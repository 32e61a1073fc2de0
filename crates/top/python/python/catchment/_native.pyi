import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeVar, final, overload

import numpy as np
import pyarrow as pa
import xarray as xr
from numpy.typing import NDArray

from catchment._channels import Channel
from catchment._exports import Trend
from catchment._flags import EventFlag
from catchment._times import Time

_Default = TypeVar("_Default")

__version__: str
event_flags: dict[str, int]
leap_seconds_known_until_ns: int

def open(  # noqa: A001
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    follow: bool = False,
    cache_bytes: int | None = None,
    check_columns: bool = True,
    base: str | os.PathLike[str] | None = None,
) -> Run:
    """Opens a file or a run's folder for reading, or a list of several folders of one run.

    Several folders, those of a run's targets or copies of them, are read as one run: each frame
    is there once, from the first folder of the list that has it, or has it whole if a power cut may
    have taken a part of it. Any other damaged column raises FileError, which names the file:
    another folder's is read if that folder stands first. `follow` takes one folder.

    Works on files that are being recorded and on those of a recorder that was killed; `status`
    says so. `cache_bytes` bounds the decoded columns that are cached.

    What is read is checked. Of a column that is stored raw and has no checksums by block, as in
    files of before version 1.3 of the format, a range is given when the whole column was
    checked, which is done once; with `check_columns` false ranges of columns without these
    checksums are given unchecked, in files of any version. All else is checked in any case. Where
    the checksums by block are damaged themselves, the whole column is checked, with one
    DamageWarning.

    Where events were built again (`catchment reframe --window`) without their payload, it is
    read from the run that the files name, their base; `base` says where that run is, if it is
    elsewhere.

    With `follow`, `frames` and iterating over a channel go on as the run is written, and end
    with it; `wait` waits for more.

    Warns (DamageWarning) of what is missing or damaged, as far as opening tells: `Run.problems`
    has all of it.

    Raises FileError if there is nothing that can be read, or files do not belong together;
    OSError if the system refuses.
    """

def sample_times(num: int, den: int, first: int, count: int) -> NDArray[np.int64]:
    """Times of consecutive samples, in nanoseconds since the epoch."""

def parse_time(text: str, scale: str) -> int:
    """The nanoseconds of a time scale that a text means."""

def date_in_scale(since_1970_ns: int, is_instant: bool, scale: str) -> int:
    """The nanoseconds of a time scale at a date of its own, given in nanoseconds since 1970, or
    at an instant in UTC.
    """

def convert_times(times: NDArray[np.int64], source: str, target: str) -> NDArray[np.int64]:
    """Times of one scale in another: nanoseconds since the scales' epochs."""

def encode(coding: str, element: str, raw: NDArray[np.uint8]) -> tuple[str, NDArray[np.uint8]]:
    """Encodes bytes with `coding`, whatever it saves, and names the codec that decodes them."""

def for_encode(raw: NDArray[np.uint8], element_bytes: int, signed: bool) -> NDArray[np.uint8]:
    """Encodes integers, or what has as many bytes, with `for`."""

def for_decode(stored: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Decodes what `for_encode` made, or a column of the codec `for`."""

def catalog_runs_json(folder: str | os.PathLike[str], query: str) -> str:
    """The runs of a folder that are as `query` says, newest first: a JSON object of the fields
    of a search.
    """

def catalog_show_json(folder: str | os.PathLike[str], number: int) -> str:
    """A run with its ledger, files, frames, copies and configuration."""

def fitting(pattern: str, names: Sequence[str]) -> list[str]:
    """Those of the names that fit a pattern, in their order."""

def audit_json(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> str:
    """The report of an audit, as JSON."""

def verify_json(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> str:
    """The report of a verification, as JSON."""

def run_command(args: Sequence[str]) -> int:
    """Runs the command line with `args`, the program's name first, and returns its exit code."""

@final
class Run:
    """A recorded run, open for reading: a mapping from the names of sources and channels to them.
    Sources are found by their numbers, too.

    `catchment.open` makes it. Data are read when they are asked for. Arrays stay valid after the
    run was closed, because they keep what they show.
    """
    @property
    def path(self) -> Path:
        """The path that was opened; of several folders, the first."""
    @property
    def paths(self) -> list[Path]:
        """The paths that were opened: one, or several folders of the run."""
    @property
    def ledger_path(self) -> Path:
        """The folder whose ledger is the run's, and which says whether the run has ended: of
        several folders, that with the most rows.
        """
    @property
    def header(self) -> Header:
        """Identity of the run, and its files."""
    @property
    def status(self) -> Literal["ended", "closed", "open"]:
        """How the run stands: "ended" by its recorder; "closed", every file has its table of
        contents but the run was not ended, as after a repair; "open", it is being recorded, or
        its recorder was killed.
        """
    @property
    def problems(self) -> list[str]:
        """What is wrong with the run's files and does not keep the rest from being read: files
        that are missing, unreadable, or were never begun, locations in them where frames cannot be
        recognized, frames that are missing by their numbers, and columns whose checksums by block
        were found to be damaged when a part of them was read, by which no data are lost. Damage
        within frames is found by `catchment.verify`.
        """
    @property
    def sources(self) -> Sources:
        """The sources, by name or number."""
    @property
    def events(self) -> Events:
        """The events."""
    @property
    def ledger(self) -> Ledger:
        """What became of everything that the sources sent. The recorder's own total where the
        last file has one; otherwise it is counted from the frames. Of several folders, that of
        `ledger_path`, in which frames that it lacks and another has are counted as recorded.
        """
    @property
    def config(self) -> dict[str, object]:
        """The configuration that the run was recorded with, as a dict."""
    @property
    def config_text(self) -> str:
        """The configuration as it was written: TOML."""
    @property
    def channels(self) -> list[str]:
        """The names of the channels that are stored in these files, in the order of the run."""
    @property
    def channels_not_stored(self) -> list[str]:
        """Names of the run's channels that are not stored in these files: a target may get some."""
    def channel(self, name: str) -> Channel:
        """The channel of that name, stored or not. Raises UnknownChannelError if there is none."""
    def trend(self, name: str, period: Literal["second", "minute"] = "second") -> Trend | None:
        """The trend of a channel: mean, min, max, rms and n of every "second" or "minute". Of a
        counter of the recorder, too: "catchment:packets_received",
        "catchment:SOURCE:packets_received". While the run is recorded, as far as it has come.

        None if the run has no trends of channels (`catchment trend RUN` makes them), or of
        counters, and for a channel of a type that has none. Raises UnknownChannelError for what
        is the name of no channel or counter, patterns among it.
        """
    def to_xarray(
        self,
        names: str | Iterable[str] | None = None,
        start: Time | None = None,
        stop: Time | None = None,
    ) -> xr.Dataset:
        """Channels as an xarray.Dataset: all, or those of some names or patterns; a range of
        time.
        """
    def to_arrow(
        self,
        names: str | Iterable[str] | None = None,
        start: Time | None = None,
        stop: Time | None = None,
    ) -> pa.Table:
        """Channels of one rate, or the events of a run without channels, as a pyarrow.Table."""
    def refresh(self) -> None:
        """Looks for what was written since the run was opened. `frames`, channels and events are
        then those of the longer run; what was read before stays.
        """
    def wait(self, timeout: float | None = None) -> bool:
        """Waits until frames are written, for a run that is followed: True when there are more than
        before, False when `timeout` seconds have passed or the run has ended.
        """
    def frames(self) -> Frames:
        """The frames of events: what the run was written in, some megabytes each. The way to
        read much. Of a run that is followed: an iterator that waits for the next, until the run
        has ended.
        """
    def close(self) -> None:
        """Closes the files: everything that was made of this run, such as its sources, channels and
        frames, raises RunClosedError when it is to read on. Arrays that were read stay.
        """
    @property
    def _follows(self) -> bool: ...
    def _trend_columns(self, name: str, period: str) -> dict[str, Any] | None: ...
    def __enter__(self) -> Run: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def keys(self) -> list[str]:
        """The names of sources and channels, in the order of the run."""
    def values(self) -> list[Any]:
        """The sources and channels, in that order."""
    def items(self) -> list[tuple[str, Any]]:
        """Names with sources and channels, in that order."""
    def get(self, name: str | int, default: Any = None) -> Any:  # noqa: ANN401 (as below)
        """The source or channel of that name, or the source of that number; `default` if there
        is none.
        """
    def __getitem__(self, name: str | int, /) -> Any: ...  # noqa: ANN401 (Source or Channel)
    def __contains__(self, name: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

@final
class ChannelReader:
    """A channel of a run: what is stored of it."""
    @property
    def path(self) -> Path:
        """The path that the run was opened at."""
    @property
    def run_object(self) -> Run:
        """The run."""
    def info(self) -> dict[str, Any]: ...
    def pieces(self) -> list[tuple[int, int, int]]:
        """(frame, first sample, samples) of every piece without a gap in one frame."""
    def read(
        self, kind: str, first: int, last: int, frame: int | None = None
    ) -> list[tuple[int, int, NDArray[Any]]]:
        """(first sample, start in ns, samples) of every piece without a gap in a range; samples
        by their numbers in one frame, where one is given. An array has its memory for itself.
        """
    def runs(self, kind: str, first: int, last: int) -> list[tuple[int, int]]:
        """(first sample, samples) of every piece without a gap in a range. Reads the index only."""
    def follow(self) -> Iterator[list[tuple[int, int, NDArray[Any]]]]:
        """What `read` gives, of each frame of a run that is followed; waits for the next, until
        the run has ended.
        """

@final
class Header:
    """Identity of a run, and its files."""
    @property
    def run_id(self) -> str:
        """The run's identity: 32 hexadecimal digits."""
    @property
    def run_number(self) -> int:
        """What people call the run."""
    @property
    def created_ns(self) -> int:
        """When its first file was begun: nanoseconds since 1970, UTC."""
    @property
    def writer(self) -> str:
        """Program and version that recorded it."""
    @property
    def files(self) -> list[Path]:
        """Its files, in order."""
    @property
    def file_bytes(self) -> int:
        """Bytes of these files together."""

@final
class Sources:
    """The sources of a run: a mapping from names (or numbers) to sources."""
    def keys(self) -> list[str]:
        """The names, in the order of the numbers."""
    def values(self) -> list[Source]:
        """The sources, in the order of their numbers."""
    def items(self) -> list[tuple[str, Source]]:
        """Names and sources."""
    def get(self, source: str | int, default: _Default = None) -> Source | _Default:  # type: ignore[assignment]
        """The source of that name or number, or `default` if there is none."""
    def __getitem__(self, source: str | int, /) -> Source: ...
    def __contains__(self, source: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

@final
class Source:
    """One source of a run. Reads its data when asked."""
    @property
    def name(self) -> str:
        """Its name, unique in the run."""
    @property
    def number(self) -> int:
        """Its number: its index in the run, from 0."""
    @property
    def group(self) -> str:
        """The group that it belongs to; may be empty."""
    @property
    def protocol(self) -> str:
        """What its fragments were received as, for example "hadtu"."""
    @property
    def required(self) -> bool:
        """Whether an event without it is incomplete."""
    @property
    def sparse(self) -> bool:
        """Whether it may be in an event or not: in one without it, it was not expected."""
    @property
    def stored(self) -> bool:
        """Whether its data are in these files: a target may get some of the sources.
        Reading one that is not stored raises UnknownSourceError.
        """
    def event(self, key: int) -> NDArray[np.uint8] | None:
        """Its fragment of the event with that key, shape (bytes,), uint8, read-only.

        A view where the fragment is at least a sixteenth of its column, otherwise a copy, so
        that an array holds no more than 16 times its bytes in memory. None if the
        event has no fragment of this source. Raises UnknownEventError.
        """
    def part(
        self, key: int, start: int, stop: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
        """Bytes `start` to `stop` of its fragment, as far as it goes, and the holes in them: shapes
        (bytes,), uint8, and (n, 2), int64, begins and ends in the former. In holes are zeros. None
        without a fragment. Of uncompressed payload about these bytes are read.
        """
    def holes(self, key: int) -> NDArray[np.int64] | None:
        """The holes in its fragment of an event, shape (n, 2): begins and ends. Or None."""
    def pieces(self, key: int) -> list[NDArray[np.uint8]] | None:
        """Its fragments of an event, which follow each other in what `event` gives. Or None."""
    @property
    def payload(self) -> dict[str, Any] | None:
        """What it says of its payload, as `Fragments.payload` does."""
    def fragments(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        time: tuple[Time | None, Time | None] | None = None,
        frames: tuple[int, int] | None = None,
    ) -> Fragments:
        """Its fragments of the events with keys from `start` on and before `stop`.

        `time=(start, stop)` takes the events whose first fragment arrived in that range:
        nanoseconds since 1970 as int, numpy.datetime64, datetime or ISO text, all UTC; None:
        without that bound. `frames=(start, stop)` takes those in these frames, as `Run.frames`
        numbers them. All ranges include their start and not their stop. What is given together
        holds together. Frames that hold none of these events are not read.

        Views without a copy where the events are of one frame and a sixteenth of it at least;
        otherwise they are joined by one copy. Without bounds: of all events of the run, which
        may be large; `Run.frames` gives them a frame at a time, never copied.
        """

@final
class Fragments:
    """Fragments of one source, one row per event.

    A sequence of the fragments themselves: read-only numpy arrays of bytes, or None where the
    event has no fragment of this source; a slice gives Fragments. `data`, `offsets` and `keys`
    give all at once, as views: they keep what was read in memory. A single fragment is a view
    where it is a sixteenth of that at least, otherwise a copy.
    """
    @property
    def source(self) -> str:
        """The source's name."""
    @property
    def keys(self) -> NDArray[np.uint64]:
        """Keys of the events, shape (n,), uint64."""
    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each row's fragment begins in `data`, shape (n + 1,), int64; at last, the end."""
    @property
    def data(self) -> NDArray[np.uint8]:
        """The fragments of all rows, one behind the other, shape (bytes,), uint8."""
    @property
    def valid(self) -> NDArray[np.bool_]:
        """Whether each row has a fragment, which can be empty, shape (n,), bool."""
    @property
    def expected(self) -> NDArray[np.bool_]:
        """Whether each row's event expected the source, (n,), bool: `expected & ~valid` lack it."""
    @property
    def times(self) -> NDArray[np.uint64] | None:
        """Each fragment's own time in nanoseconds, (n,), uint64, 0 without one; None by number."""
    @property
    def holes(self) -> NDArray[np.int64]:
        """What never came, zeros in `data`: row, offset in the fragment, bytes; (n, 3), int64."""
    @property
    def pieces(self) -> NDArray[np.int64]:
        """Of rows with several fragments: row, own time in ns, bytes of each; (n, 3), int64."""
    @property
    def payload(self) -> dict[str, Any] | None:
        """What the source says of its payload: `dtype` (numpy's), `shape` of one fragment's
        array (empty if fragments differ in length) and `skip`, the bytes before it; or None.
        """
    @property
    def array(self) -> NDArray[Any]:
        """The fragments as one array of the source's own type, shape (n, ...), without a copy
        where all are there and whole; where some are missing or have holes a masked array.
        Raises TypeError if the source has no type, ValueError if a fragment does not have the
        length that its type has. Where fragments differ in length the first one that is there
        says it; where none is there each row has one element.
        """
    @overload
    def __getitem__(self, index: int, /) -> NDArray[np.uint8] | None: ...
    @overload
    def __getitem__(self, index: slice, /) -> Fragments: ...
    def __iter__(self) -> Iterator[NDArray[np.uint8] | None]: ...
    def __len__(self) -> int: ...

@final
class Frames:
    """The frames of a run: a sequence of `Frame`, read one at a time; a slice gives Frames."""
    @overload
    def __getitem__(self, index: int, /) -> Frame: ...
    @overload
    def __getitem__(self, index: slice, /) -> Frames: ...
    def __iter__(self) -> Iterator[Frame]: ...
    def __len__(self) -> int: ...

@final
class Frame:
    """Some megabytes of a run: its events, and one column of fragments for each source.

    `frame[source]`, by name or number, gives the source's fragments, as views without a copy.
    """
    @property
    def index(self) -> int:
        """The frame's index in the run when it was read, from 0."""
    @property
    def keys(self) -> NDArray[np.uint64]:
        """What the fragments of each event were matched by (trigger number), shape (n,), uint64."""
    @property
    def times(self) -> NDArray[np.int64]:
        """When each event's first fragment arrived, shape (n,), int64: ns since 1970, UTC."""
    @property
    def flags(self) -> NDArray[np.uint32]:
        """Conditions of each event, shape (n,), uint32: bits of `EventFlag`; 0: complete."""
    def __getitem__(self, source: str | int, /) -> Fragments: ...
    def __contains__(self, source: object, /) -> bool: ...
    def __len__(self) -> int: ...

@final
class Events:
    """The events of a run, in the order in which they were recorded.

    A sequence of `Event`; `keys`, `times` and `flags` give all at once. They are read when first
    asked for. `key in events` asks for a key, `events[i]` gives the i-th event and a slice a list.
    """
    @property
    def keys(self) -> NDArray[np.uint64]:
        """What the fragments of each event were matched by (trigger number), shape (n,), uint64."""
    @property
    def times(self) -> NDArray[np.int64]:
        """When each event's first fragment arrived, shape (n,), int64: nanoseconds since 1970,
        UTC. `times.view("datetime64[ns]")` makes dates of them, `catchment.convert_time` times
        of a channel's scale.
        """
    @property
    def flags(self) -> NDArray[np.uint32]:
        """Conditions of each event, shape (n,), uint32: bits of `EventFlag`; 0: complete."""
    @property
    def incomplete(self) -> int:
        """How many events lack a source that was required."""
    def find(self, key: int) -> Event:
        """The event with that key.
        Raises UnknownEventError if the run has no such event.
        """
    def missing(self, key: int) -> list[str]:
        """Names of the required sources that the event with that key lacks.

        Raises UnknownEventError if the run has no such event.
        """
    @overload
    def __getitem__(self, index: int, /) -> Event: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[Event]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[Event]: ...
    def __len__(self) -> int: ...

@final
class Event:
    """One event: its key, when it came, and its conditions."""
    @property
    def key(self) -> int:
        """What its fragments were matched by (trigger number)."""
    @property
    def time_ns(self) -> int:
        """When its first fragment arrived: nanoseconds since 1970, UTC."""
    @property
    def flags(self) -> EventFlag:
        """Conditions: an `EventFlag`, 0 where the event is complete."""
    @property
    def complete(self) -> bool:
        """Whether every source that was required is in it."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Ledger:
    """What became of everything that the sources sent: a mapping from source names to counts."""
    @property
    def total(self) -> SourceLedger:
        """All sources together."""
    @property
    def balanced(self) -> bool:
        """Whether everything that came in is explained, for every source. While a run goes on,
        or when its recorder was killed, some fragments are in flight and it is not.
        """
    @property
    def lost(self) -> int:
        """Fragments that were sent and are in no file: lost on the way, or dropped."""
    @property
    def lost_data(self) -> bool:
        """Whether anything that was sent is in no file; malformed packets count too."""
    @property
    def bad_data(self) -> int:
        """How many recorded fragments are bad: marked broken by their sender, of another trigger
        than their event, or with a part missing. They are no loss.
        """
    @property
    def recomputed(self) -> bool:
        """Whether these counts were taken from the frames, because the file's end does not have
        them: the run is being recorded, or its recorder was killed.
        """
    def keys(self) -> list[str]:
        """The names of the sources."""
    def values(self) -> list[SourceLedger]:
        """The counts of each source."""
    def items(self) -> list[tuple[str, SourceLedger]]:
        """Names and counts."""
    def get(self, source: str, default: _Default = None) -> SourceLedger | _Default:  # type: ignore[assignment]
        """The counts of the source of that name, or `default` if there is none."""
    def __getitem__(self, source: str, /) -> SourceLedger: ...
    def __contains__(self, source: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

@final
class SourceLedger:
    """One source's counts: a mapping from the names of entries to numbers."""
    @property
    def balanced(self) -> bool:
        """Whether everything that came in is explained."""
    @property
    def lost(self) -> int:
        """Fragments that were sent and are in no file: lost on the way, or dropped."""
    @property
    def in_flight(self) -> int:
        """Fragments that came in and are neither recorded nor counted as dropped."""
    @property
    def malformed_reasons(self) -> dict[str, int]:
        """Malformed packets by the reasons of the source's protocol, as far as there were any."""
    def keys(self) -> list[str]:
        """The names of the entries."""
    def values(self) -> list[int]:
        """The numbers, in the order of the names."""
    def items(self) -> list[tuple[str, int]]:
        """Names and numbers."""
    def get(self, entry: str, default: _Default = None) -> int | _Default:  # type: ignore[assignment]
        """The number of that entry, or `default` if there is none."""
    def __getitem__(self, entry: str, /) -> int: ...
    def __contains__(self, entry: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class FrontendLink:
    """A front-end's connection to a recorder."""

    def __new__(
        cls,
        url: str,
        name: str,
        *,
        channels: bool,
        sources: Sequence[dict[str, Any]],
        buffer: int,
        release: str,
        token: str,
        token_in_clear: bool,
        certificate: str | None,
        index: int | None,
        wait: float,
        callback: Callable[[str, int, list[tuple[str, str]]], object] | None,
        skew: int = 0,
        buffer_ms: int = 0,
        stops_in_pause: bool = False,
    ) -> FrontendLink: ...
    def send(
        self, source: int, key: int, payload: NDArray[np.uint8], tag: int, flags: int, groups: int
    ) -> None:
        """Appends a fragment, and waits while there is no room for it."""
    def try_send(
        self, source: int, key: int, payload: NDArray[np.uint8], tag: int, flags: int, groups: int
    ) -> int:
        """Appends a fragment if there is room: 0 accepted, 1 full, 2 ended."""
    def send_packet(self, link: int, packet: NDArray[np.uint8]) -> None:
        """Appends a packet to a channel link, and waits while there is no room for it."""
    def try_send_packet(self, link: int, packet: NDArray[np.uint8]) -> int:
        """Appends a packet if there is room: 0 accepted, 1 full, 2 ended."""
    def abandon(self, source: int, count: int, reason: str, keys: tuple[int, int] | None) -> None:
        """Says that fragments were made and dropped."""
    def setting(self, source: int, name: str, value: str) -> None:
        """Says that a setting has changed before the next fragment."""
    def renumber(self, source: int, key: int) -> None:
        """Says that numbers begin again."""
    def low_water(self, source: int, key: int | None, idle: bool) -> None:
        """Promises that no lower key will follow."""
    def status(self) -> str:
        """Where the front-end stands, in one line."""
    def counts(self, source: int) -> dict[str, int]:
        """What happened to a source so far."""
    def declare(
        self,
        name: str,
        value: bool | float | str,
        unit: str,
        bounds: tuple[float, float] | None,
        writable: bool,
    ) -> None:
        """Reports what something is set to."""
    def value(self, name: str) -> bool | float | str | None:
        """The present value of a setting."""
    def count(self, name: str, value: int, unit: str) -> None:
        """Reports a counter."""
    def alarm(self, name: str, text: str | None) -> None:
        """Raises an alarm, or ends it."""
    def say(self, text: str) -> None:
        """Reports a line of status."""
    def close(self, timeout: float) -> tuple[int, int]:
        """Waits until everything is confirmed, at most for so many seconds, ends, and waits until a
        callback that runs has returned. Returns how many items are not confirmed, and how many a
        run has ended without.
        """

@final
class TestRecorder:
    """A recorder for the tests of front-ends."""

    def __new__(cls) -> TestRecorder: ...
    @property
    def url(self) -> str:
        """Where front-ends connect."""
    @property
    def faults(self) -> list[str]:
        """What front-ends did wrong, in words."""
    def cut(self) -> None:
        """Cuts all connections. Front-ends may come back at once."""
    def restart(self) -> None:
        """Dies and comes back at once: what was not durable is forgotten."""
    def pause(self) -> None:
        """Reads no data until `go_on`."""
    def go_on(self) -> None:
        """Reads data again."""
    def durable_at_once(self, at_once: bool) -> None:
        """Whether what is taken is durable at once, or when `tell_durable` says so."""
    def tell_durable(self, source: str, position: int) -> None:
        """All items of a source below a position are durable, as far as they are taken."""
    def command(self, kind: str, run: int) -> int:
        """Gives front-ends a command of this kind, and returns its number."""
    def answers(self) -> list[tuple[int, str, str]]:
        """The answers to commands so far: number, answer, text."""
    def taken(self, source: str) -> list[tuple[int, bytes]]:
        """Keys and bytes of the fragments that it took of a source."""
