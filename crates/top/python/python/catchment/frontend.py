"""Send fragments of events, or packets of channels, to a recorder.

    from catchment import frontend

    with frontend.connect("catchment+tcp://daq1:7100", "camera") as camera:
        for key in range(1000):
            camera.send(key, image)              # any array, or bytes

`send` copies a fragment into the front-end's ring and returns; it waits only while the ring is
full. The fragment stays there until the recorder has it on disk, and is sent again after any break
of the network or of the recorder. Leaving the `with` block waits until everything is durable, and
raises NotConfirmedError if it is not.

Several sources of one front-end:

    link = frontend.connect(url, "camera", sources=["left", "right"], buffer="256 MiB")
    link["left"].send(key, image)
    if link["right"].try_send(key, image) is frontend.Sent.FULL:
        link["right"].abandon(1, "buffer", keys=(key, key))

What the page shows of it, and what can be set from there:

    link.declare("gain", 1.5, unit="dB", bounds=(0.0, 20.0))
    link.count("frames", seen)
    link.alarm("cooling", "the sensor is at 31 degrees")

A link of channels with `transport = "session"` takes packets (docs/spec/link.md):

    with frontend.channels(url, "magnets") as magnets:
        magnets.send(packet)

`TestRecorder` is a recorder for the tests of front-ends: no node is needed.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from catchment._errors import FrontendError, NotConfirmedError
from catchment._native import FrontendLink, TestRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ChannelLink",
    "Command",
    "Frontend",
    "FrontendError",
    "NotConfirmedError",
    "Sent",
    "Source",
    "SourceLink",
    "TestRecorder",
    "Value",
    "channels",
    "connect",
]

Value = bool | float | str
"""What a front-end can be set to."""

_BROKEN = 1
_BIG_ENDIAN = 2


class Sent(enum.Enum):
    """What became of a fragment that was not to wait."""

    ACCEPTED = 0
    FULL = 1
    ENDED = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A command of the recorder: prepare, start, pause, continue, stop, cancel, set."""

    kind: str
    run: int
    settings: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a source is made of, where a name alone does not do.

    Keys are numbers or times in ns (`key`); with `key_bits` of 16 to 48 they wrap at that width.
    A `reference` source names the groups of each event. One that `marks` marks begin and end of
    runs, so that a run of several front-ends begins and ends at keys that all have. `dtype` is the
    number of the payload's dtype in the file format, 0 if it has none.
    """

    name: str
    fragment_bytes_max: int = 1 << 20
    key: Literal["number", "time"] = "number"
    key_bits: int = 64
    presence: Literal["configured", "required", "optional", "sparse"] = "configured"
    groups: int = 0
    reference: bool = False
    marks: bool = True
    dtype: int = 0


class SourceLink:
    """One source of a front-end. Any thread may use it; keys rise over all threads."""

    def __init__(self, link: FrontendLink, index: int, name: str) -> None:
        self._link = link
        self._index = index
        self.name = name
        # What `try_send` found no room for; `_full` is the newest key of it.
        self._lock = threading.Lock()
        self._full: int | None = None
        self._dropped = 0

    def __repr__(self) -> str:
        """Name it."""
        return f"SourceLink({self.name!r})"

    def send(
        self,
        key: int,
        data: ArrayLike | bytes | bytearray | memoryview,
        *,
        tag: int = 0,
        broken: bool = False,
        groups: int = 0,
    ) -> None:
        """Append a fragment, and wait while there is no room for it.

        `tag` is the trigger's type, common to all fragments of the event that have one, or 0.
        Raise ValueError for a key that does not rise or a fragment that is too long, and
        FrontendError if the front-end has ended.
        """
        payload, flags = _payload(data)
        flags |= _BROKEN * broken
        self._link.send(self._index, key, payload, tag, flags, groups)
        if key == self._full:
            self._accepted_after_all()

    def try_send(
        self,
        key: int,
        data: ArrayLike | bytes | bytearray | memoryview,
        *,
        tag: int = 0,
        broken: bool = False,
        groups: int = 0,
    ) -> Sent:
        """Append a fragment if there is room, and return what became of it.

        The answer is to be used. After `Sent.FULL` nothing was appended: send the same key again,
        or say by `abandon` that it was dropped. `dropped` counts the fragments of which neither
        was done, and `close` issues a RuntimeWarning.
        """
        payload, flags = _payload(data)
        flags |= _BROKEN * broken
        sent = Sent(self._link.try_send(self._index, key, payload, tag, flags, groups))
        if sent is Sent.FULL:
            with self._lock:
                self._dropped += key != self._full
                self._full = key
        elif sent is Sent.ACCEPTED and key == self._full:
            self._accepted_after_all()
        return sent

    def _accepted_after_all(self) -> None:
        with self._lock:
            self._dropped -= 1
            self._full = None

    @property
    def dropped(self) -> int:
        """Fragments that `try_send` had no room for, neither sent again nor abandoned so far."""
        return self._dropped

    def abandon(
        self,
        count: int,
        reason: Literal["buffer", "hardware", "busy"],
        *,
        keys: tuple[int, int] | None = None,
    ) -> None:
        """Say that fragments were made and dropped, with their lowest and highest key if known."""
        self._link.abandon(self._index, count, reason, keys)
        with self._lock:
            self._dropped = max(self._dropped - count, 0)
            self._full = None

    def setting(self, name: str, value: str) -> None:
        """Say that a setting has changed before the next fragment."""
        self._link.setting(self._index, name, value)

    def renumber(self, key: int) -> None:
        """Say that numbers begin again, with this key."""
        self._link.renumber(self._index, key)

    def low_water(self, key: int | None, *, idle: bool = False) -> None:
        """Promise that no lower key will follow, and whether it may now be silent for long."""
        self._link.low_water(self._index, key, idle)

    @property
    def counts(self) -> dict[str, int]:
        """What happened to it so far: made, taken, durable, held_bytes, full and more."""
        return self._link.counts(self._index)


class _Sender:
    """What front-ends and channel links have in common."""

    def __init__(self, link: FrontendLink) -> None:
        self._link = link

    @property
    def status(self) -> str:
        """Where it stands, in one line for a person."""
        return self._link.status()

    def close(self, timeout: float = 10.0) -> int:
        """Wait until everything is durable, at most `timeout` seconds, and end.

        Return how many fragments, marks and abandoned fragments, or packets, are not confirmed:
        those that are not durable, and those that a run has ended without.
        """
        not_confirmed, held_at_run_end = self._link.close(timeout)
        return not_confirmed + held_at_run_end

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; raise NotConfirmedError if that leaves anything, unless there is an error."""
        count = self.close()
        if count > 0 and kind is None:
            raise NotConfirmedError(count)


class ChannelLink(_Sender):
    """A link of channels at a recorder, made by `channels`. Any thread may use it."""

    def __repr__(self) -> str:
        """Say where it stands."""
        return f"<ChannelLink: {self.status}>"

    def send(self, packet: ArrayLike | bytes | bytearray | memoryview) -> None:
        """Append a packet, and wait while there is no room for it.

        Raise ValueError for a heartbeat, of which the client has its own, for no bytes, or for
        more than a datagram has, and FrontendError if the link has ended.
        """
        self._link.send_packet(0, _payload(packet)[0])

    def try_send(self, packet: ArrayLike | bytes | bytearray | memoryview) -> Sent:
        """Append a packet if there is room, and return what became of it.

        The answer is to be used: after `Sent.FULL` nothing was appended.
        """
        return Sent(self._link.try_send_packet(0, _payload(packet)[0]))

    @property
    def counts(self) -> dict[str, int]:
        """What happened so far, in packets: made, taken, durable, held_bytes, full and more."""
        return self._link.counts(0)


class Frontend(_Sender):
    """A front-end at a recorder, made by `connect`."""

    def __init__(self, link: FrontendLink, sources: list[Source]) -> None:
        super().__init__(link)
        self._sources = {
            source.name: SourceLink(link, index, source.name)
            for index, source in enumerate(sources)
        }
        self._first = next(iter(self._sources.values()))
        self.send = self._first.send
        self.try_send = self._first.try_send

    def __repr__(self) -> str:
        """Say where it stands."""
        return f"<Frontend: {self.status}>"

    def __getitem__(self, source: str) -> SourceLink:
        """Return a source by its name."""
        return self._sources[source]

    def close(self, timeout: float = 10.0) -> int:
        """Wait until everything is durable, at most `timeout` seconds, and end.

        Then wait until a call of `on_command` that runs has returned, however long that takes.
        Return how many fragments, marks and abandoned fragments are not confirmed: those that are
        not durable, and those that a run has ended without. Raise RuntimeError, and do nothing, if
        `on_command` itself calls this. Issue a RuntimeWarning if fragments
        that `try_send` had no room for were neither sent again nor abandoned.
        """
        count = super().close(timeout)
        dropped = sum(source.dropped for source in self.sources)
        if dropped:
            text = f"{dropped} fragments were neither sent again nor abandoned after Sent.FULL"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return count

    @property
    def sources(self) -> list[SourceLink]:
        """All sources, in their order."""
        return list(self._sources.values())

    def declare(
        self,
        name: str,
        value: Value,
        *,
        unit: str = "",
        bounds: tuple[float, float] | None = None,
        writable: bool = True,
    ) -> None:
        """Report what something is set to, and whether it can be set from the page.

        A change from there is a command, `set`: `on_command` gets it, and can refuse it. Its type
        is that of the value.
        """
        self._link.declare(name, value, unit, bounds, writable)

    def value(self, name: str) -> Value:
        """Return the present value of a declared setting; raise KeyError if there is none."""
        value = self._link.value(name)
        if value is None:
            raise KeyError(name)
        return value

    def count(self, name: str, value: int, *, unit: str = "") -> None:
        """Report a counter."""
        self._link.count(name, value, unit)

    def alarm(self, name: str, text: str | None) -> None:
        """Raise an alarm, with a sentence for the shifter; with None, end it."""
        self._link.alarm(name, text)

    def say(self, text: str) -> None:
        """Report a line of status."""
        self._link.say(text)


def connect(  # noqa: PLR0913 (all but address and name are named)
    url: str,
    name: str,
    *,
    sources: Iterable[str | Source] = (),
    buffer: int | str = "64 MiB",
    fragment_bytes_max: int = 1 << 20,
    release: Literal["durable", "taken"] = "durable",
    token: str = "",
    token_in_clear: bool = False,
    certificate: str | os.PathLike[str] | None = None,
    index: int | None = None,
    wait: float = 10.0,
    on_command: Callable[[Command], object] | None = None,
    skew: int | str = "1 MiB",
    buffer_ms: int = 0,
    stops_in_pause: bool = False,
) -> Frontend:
    """Connect a front-end to the recorder at `catchment+tcp://HOST[:PORT]`.

    At `catchment://HOST[:PORT]` it connects under TLS, and `certificate` is the file (PEM) of the
    certificate to trust: the recorder's own, or its authority's.

    Without `sources` there is one, with the front-end's name. `buffer` is divided among them, and
    `fragment_bytes_max` is that of sources given by name. With `release="taken"` a fragment
    leaves the ring when the recorder has it in memory: it is lost if the recorder dies then.
    `index` makes the name end in `-INDEX`, for the n-th copy of a program. `wait` is how many
    seconds to wait for the recorder; with 0, fragments wait in the ring. `on_command` is called on
    a thread of its own; an exception refuses the command, by its text.

    More than 16 sources share connections: `skew` is by how many bytes keys may be out of order on
    one (at most 1 GiB; the recorder may grant less). `buffer_ms` is how long the buffer lasts at
    the highest rate, 0 if that is not known: the recorder raises an alarm where it is too short.
    With `stops_in_pause` nothing is sent while the run is paused, and what is made waits in the
    ring; otherwise the recorder discards and counts it.

    Raise FrontendError if the recorder refuses, or is not there.
    """
    made = [
        Source(name=source, fragment_bytes_max=fragment_bytes_max)
        if isinstance(source, str)
        else source
        for source in sources
    ]
    made = made or [Source(name="", fragment_bytes_max=fragment_bytes_max)]

    def call(kind: str, run: int, settings: list[tuple[str, str]]) -> None:
        if on_command is not None:
            on_command(Command(kind, run, dict(settings)))

    link = FrontendLink(
        url,
        name,
        channels=False,
        sources=[dataclasses.asdict(source) for source in made],
        buffer=_bytes_of(buffer),
        release=release,
        token=token,
        token_in_clear=token_in_clear,
        certificate=None if certificate is None else os.fspath(certificate),
        index=index,
        wait=wait,
        callback=None if on_command is None else call,
        skew=_bytes_of(skew),
        buffer_ms=buffer_ms,
        stops_in_pause=stops_in_pause,
    )
    return Frontend(link, made)


def channels(  # noqa: PLR0913 (all but address and name are named)
    url: str,
    name: str,
    *,
    buffer: int | str = "64 MiB",
    release: Literal["durable", "taken"] = "durable",
    token: str = "",
    token_in_clear: bool = False,
    certificate: str | os.PathLike[str] | None = None,
    wait: float = 10.0,
    buffer_ms: int = 0,
) -> ChannelLink:
    """Connect the link of channels that the recorder's configuration calls `name`.

    Packets are those of docs/spec/link.md; all else is as for `connect`. A packet is durable with
    its frame: a buffer that lasts for less than two times `frame.duration` is too short.

    Raise FrontendError if the recorder refuses, or is not there.
    """
    link = FrontendLink(
        url,
        name,
        channels=True,
        sources=[],
        buffer=_bytes_of(buffer),
        release=release,
        token=token,
        token_in_clear=token_in_clear,
        certificate=None if certificate is None else os.fspath(certificate),
        index=None,
        wait=wait,
        callback=None,
        buffer_ms=buffer_ms,
    )
    return ChannelLink(link)


def _payload(data: ArrayLike | bytes | bytearray | memoryview) -> tuple[NDArray[np.uint8], int]:
    """Return the bytes of any array, and whether its numbers are big-endian."""
    if isinstance(data, bytes | bytearray):
        return np.frombuffer(data, np.uint8), 0
    array = np.ascontiguousarray(data)
    order = array.dtype.byteorder
    is_big = order == ">" or (order == "=" and sys.byteorder == "big")
    return array.ravel().view(np.uint8), _BIG_ENDIAN * is_big


_UNITS = {
    "B": 1,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}


def _bytes_of(size: int | str) -> int:
    """Return a size such as 64 MiB in bytes."""
    if isinstance(size, int):
        return size
    found = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]+)\s*", size)
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise ValueError(f"expected a size such as 64 MiB, got {size!r}")
    return int(found[1]) * unit
