"""Times: what people write, nanoseconds of a time scale, and from one scale to another."""

from __future__ import annotations

import operator
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from catchment import _native

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Time = int | str | np.datetime64 | datetime
    TimeScale = Literal["tai", "utc", "gps"]

GPS_EPOCH_NS = 315_964_800_000_000_000
"""1980-01-06 in nanoseconds since 1970: where GPS time begins to count."""

OPEN_NS = 2**63 - 1
"""What int64 holds at most. A bound from here on is an open end: there is no data behind it."""

LEAP_SECONDS_KNOWN_UNTIL = np.datetime64(_native.leap_seconds_known_until_ns, "ns")
"""Until when (UTC) leap seconds are known. Later times are converted as if none had come since."""


@overload
def convert_time(times: int, source: TimeScale, target: TimeScale) -> int: ...
@overload
def convert_time(times: np.datetime64, source: TimeScale, target: TimeScale) -> np.datetime64: ...
@overload
def convert_time(
    times: NDArray[np.datetime64], source: TimeScale, target: TimeScale
) -> NDArray[np.datetime64]: ...
@overload
def convert_time(
    times: NDArray[np.integer[Any]] | list[int], source: TimeScale, target: TimeScale
) -> NDArray[np.int64]: ...
def convert_time(times: Any, source: TimeScale, target: TimeScale) -> Any:
    """Convert times of one scale, "tai", "utc" or "gps", to another.

    Integers are nanoseconds since the scales' epochs: 1970-01-01 for TAI and UTC, 1980-01-06 for
    GPS. datetime64 are dates of the scales' own calendars. Arrays and lists of either, of any
    shape, give arrays of int64 or of datetime64[ns]; single ones give a single one.

        channel.numpy(*catchment.convert_time(run.events.times[:2], "utc", channel.time_scale))

    UTC is counted as POSIX does, without leap seconds: a time within a leap second becomes the UTC
    time of the second after it, and comes back as that one. Leap seconds are known until
    `LEAP_SECONDS_KNOWN_UNTIL`.

    Raises ValueError for NaT, for UTC before 1972, when it differed from TAI by parts of a second,
    for times before 1980-01-06 in GPS time, and for times that int64 does not hold.
    """
    array = np.asarray(times)
    if not array.size and not isinstance(times, np.ndarray):
        # An empty list has no type; numpy takes it for floats.
        array = array.astype(np.int64)
    if array.dtype.kind == "M":
        since_1970 = _converted(_of_dates(array) - _epoch_ns(source), source, target)
        converted = (since_1970 + _epoch_ns(target)).view("datetime64[ns]").reshape(array.shape)
        return converted if isinstance(times, np.ndarray) else converted[()]
    if array.dtype.kind not in "iu":
        raise TypeError(f"expected nanoseconds as integers, or datetime64, got {array.dtype}")
    if array.dtype.kind == "u" and array.size and int(array.max()) > OPEN_NS:
        raise ValueError(f"{array.max()} ns are more than int64 holds")
    found = _converted(array.reshape(-1), source, target).reshape(array.shape)
    return found if isinstance(times, np.ndarray) or array.ndim else int(found)


def _converted(times: NDArray[Any], source: TimeScale, target: TimeScale) -> NDArray[np.int64]:
    flat = np.ascontiguousarray(times, np.int64)
    return _native.convert_times(flat, _scale(source), _scale(target))


def dates(times: NDArray[np.int64], time_scale: str) -> NDArray[np.datetime64]:
    """Nanoseconds of a time scale as dates of that scale."""
    return (times + _epoch_ns(time_scale)).view("datetime64[ns]")


def time_range(
    start: Time | None,
    stop: Time | None,
    time_scale: str,
    first_ns: Callable[[], int | None] | None = None,
) -> tuple[int, int]:
    """Nanoseconds of a time scale where a range begins, and behind its end."""
    return closed(time_bounds(start, stop, time_scale, first_ns))


def event_range(start: Time | None, stop: Time | None, first_ns: int | None) -> tuple[int, int]:
    """As `time_range`, of events of which the first arrived then, UTC."""
    return time_range(start, stop, "utc", lambda: first_ns)


def closed(bounds: tuple[int | None, int | None]) -> tuple[int, int]:
    """Such bounds as numbers: what is open begins at 0 and ends behind everything."""
    return bounds[0] or 0, 2**64 - 1 if bounds[1] is None else bounds[1]


def time_bounds(
    start: Time | None,
    stop: Time | None,
    time_scale: str,
    first_ns: Callable[[], int | None] | None = None,
) -> tuple[int | None, int | None]:
    """Nanoseconds of a time scale where a range begins and ends; None for an end that is open.

    Open is what is not given, a start at or before the scale's epoch, and a stop that int64 does
    not hold: 2262-04-11 or later. `first_ns` says when the data begin; with it, numbers that can
    only be seconds are refused.
    """
    if first_ns is not None:
        for time in (start, stop):
            _refuse_seconds(time, first_ns)
    first = None if start is None else nanoseconds(start, time_scale)
    last = None if stop is None else nanoseconds(stop, time_scale)
    # A start behind everything leaves nothing, as a stop before everything does.
    return first or None, None if last is None or last >= OPEN_NS else last


def _refuse_seconds(time: Time | None, first_ns: Callable[[], int | None]) -> None:
    """Raise ValueError for a number that is before all data, and far too small for their times.

    Data may begin at the epoch itself, such as those of a simulation: there such numbers are times.
    """
    if type(time) is int and time >= _SECONDS_BELOW:
        return
    if not isinstance(time, (int, np.integer)) or isinstance(time, (bool, np.timedelta64)):
        return
    if 0 < time < _SECONDS_BELOW and (first_ns() or 0) >= _SECONDS_BELOW:
        raise ValueError(
            f"{time} ns is less than 17 minutes after the epoch, before all data: times are in "
            "nanoseconds, seconds times 1_000_000_000"
        )


def nanoseconds(time: Time, time_scale: str) -> int:
    """Nanoseconds of a time scale, from 0 to 2**63 - 1: what is beyond becomes the nearest.

    Dates are those of the scale's own calendar, unless they have a time zone: then they are
    instants in UTC.
    """
    if type(time) is int and 0 <= time <= OPEN_NS:
        return time
    if isinstance(time, (int, np.integer)) and not isinstance(time, (bool, np.timedelta64)):
        return min(max(int(time), 0), OPEN_NS)
    if isinstance(time, str):
        return min(_native.parse_time(time, time_scale), OPEN_NS)
    if isinstance(time, np.datetime64):
        since_1970, is_instant = _since_1970(time), False
    elif isinstance(time, date):
        since_1970, is_instant = _of_datetime(time)
    else:
        kind = type(time).__name__
        raise TypeError(
            f"expected a time: int (nanoseconds), str, numpy.datetime64 or datetime, got {kind}"
        )
    since_1970 = min(max(since_1970, 0), 2**64 - 1)
    return min(_native.date_in_scale(since_1970, is_instant, time_scale), OPEN_NS)


def number_range(name: str, bounds: Any) -> tuple[int, int]:  # noqa: ANN401
    """Numbers of samples or frames from which and before which; `name` is the argument's."""
    try:
        start, stop = (operator.index(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={bounds!r}: expected (start, stop), two integers") from None
    if not (0 <= start < _NUMBERS and 0 <= stop < _NUMBERS):
        raise ValueError(f"{name}={bounds!r}: expected numbers from 0 on, in 64 bits")
    return start, stop


def _of_datetime(time: date) -> tuple[int, bool]:
    """Nanoseconds since 1970, and whether they are UTC because a time zone was given."""
    if time != time:  # noqa: PLR0124 (pandas' NaT is a datetime)
        raise ValueError("NaT is no time")
    days = time.toordinal() - date(1970, 1, 1).toordinal()
    if not isinstance(time, datetime):
        return days * _DAY_NS, False
    seconds = time.hour * 3600 + time.minute * 60 + time.second
    # pandas' Timestamp has nanoseconds beside.
    ns = time.microsecond * 1000 + getattr(time, "nanosecond", 0)
    offset = time.utcoffset()
    total = days * _DAY_NS + seconds * 10**9 + ns
    return total - (offset or timedelta()) // timedelta(microseconds=1) * 1000, offset is not None


def _since_1970(time: np.datetime64) -> int:
    """Nanoseconds since 1970 of a date in whatever unit, which int64 need not hold."""
    if np.isnat(time):
        raise ValueError("NaT is no time")
    unit, count = np.datetime_data(time.dtype)
    value = int(time.astype(np.int64)) * count
    if unit in _MONTHS:
        year, month = divmod(value * _MONTHS[unit], 12)
        year += 1970
        if not 1 <= year <= 9999:  # noqa: PLR2004 (what date holds)
            return -1 if year < 1 else 2**64
        return (date(year, month + 1, 1).toordinal() - date(1970, 1, 1).toordinal()) * _DAY_NS
    return value * _ATTOSECONDS[unit] // 10**9


def _of_dates(times: NDArray[Any]) -> NDArray[np.int64]:
    """Nanoseconds since 1970, in one dimension."""
    times = times.reshape(-1)
    if np.isnat(times).any():
        raise ValueError("NaT is no time")
    fine: NDArray[np.int64] = times.astype("datetime64[ns]")
    if (fine.astype(times.dtype) != times).any() and np.datetime_data(times.dtype)[0] not in (
        "ps",
        "fs",
        "as",
    ):
        raise ValueError("a date that nanoseconds in int64 do not hold")
    return fine.view(np.int64)


def _scale(name: str) -> TimeScale:
    if name not in ("tai", "utc", "gps"):
        raise ValueError(f'expected a time scale, "tai", "utc" or "gps", got {name!r}')
    return name  # type: ignore[return-value]


def _epoch_ns(time_scale: str) -> int:
    return GPS_EPOCH_NS if time_scale == "gps" else 0


_NUMBERS = 2**64
# Seconds since an epoch have 12 digits at most for 30,000 years.
_SECONDS_BELOW = 10**12
_DAY_NS = 86_400 * 10**9
_MONTHS = {"Y": 12, "M": 1}
_ATTOSECONDS = {
    "W": 7 * 86_400 * 10**18,
    "D": 86_400 * 10**18,
    "h": 3_600 * 10**18,
    "m": 60 * 10**18,
    "s": 10**18,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}
