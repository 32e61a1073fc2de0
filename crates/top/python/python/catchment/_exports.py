"""Whole runs as xarray datasets and Arrow tables, and trends."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from catchment import _native
from catchment._channels import arrow_column
from catchment._optional import optional
from catchment._times import dates, time_range
from catchment._typed import fits, lists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    import pyarrow as pa
    import xarray as xr
    from numpy.typing import NDArray

    from catchment._channels import Channel
    from catchment._times import Time, TimeScale


@dataclass(frozen=True)
class Trend:
    """What a channel did in every second or minute: arrays of the same length.

    A second without a sample has no row. Values are the channel's, scale and offset applied; rms is
    the root of the mean square.
    """

    name: str
    unit: str
    time_scale: TimeScale
    times: NDArray[np.int64]
    """Where each second or minute begins: nanoseconds of the channel's time scale."""
    mean: NDArray[np.float64]
    min: NDArray[Any]
    max: NDArray[Any]
    rms: NDArray[np.float64]
    n: NDArray[np.unsignedinteger[Any]]
    """How many samples there were."""

    def __len__(self) -> int:
        """How many seconds or minutes there are."""
        return len(self.times)

    def pandas(self) -> pd.DataFrame:
        """As a pandas.DataFrame over time: dates of the channel's own time scale."""
        pandas = optional("pandas")
        frame: pd.DataFrame = pandas.DataFrame(
            {name: getattr(self, name) for name in TREND_COLUMNS},
            index=pandas.DatetimeIndex(dates(self.times, self.time_scale), name="time"),
        )
        return frame


TREND_COLUMNS = ("mean", "min", "max", "rms", "n")


def trend(run: _native.Run, name: str, period: Literal["second", "minute"]) -> Trend | None:
    """Read a channel's or counter's trend; None where the run has none, or none of this channel."""
    found = run._trend_columns(name, period)  # noqa: SLF001 (its native half)
    return None if found is None else Trend(name=name, **found)


def chosen(run: _native.Run, names: str | Iterable[str] | None) -> list[Channel]:
    """Channels by name or pattern, in the order of the run; all without one.

    In a pattern `*` stands for any characters, `?` for one, `[0-9]` for one of a class, `{a,b}`
    for alternatives. ValueError where it is none.
    """
    if names is None:
        return [run.channel(name) for name in run.channels]
    patterns = [names] if isinstance(names, str) else list(names)
    names_chosen: set[str] = set()
    for pattern in patterns:
        fitting = _native.fitting(pattern, run.channels)
        if not fitting:
            run.channel(pattern)  # Says which names are near.
        names_chosen.update(fitting)
    return [run.channel(name) for name in run.channels if name in names_chosen]


def to_xarray(
    run: _native.Run,
    names: str | Iterable[str] | None = None,
    start: Time | None = None,
    stop: Time | None = None,
) -> xr.Dataset:
    """Channels as an xarray.Dataset.

    Channels with the same times share the dimension `time`; where there are several kinds it is
    `time_` and the rate. GapError where a channel's time goes back in the range.
    """
    xarray = optional("xarray")
    arrays: dict[str, xr.DataArray] = {}
    axes: dict[tuple[object, ...], tuple[str, NDArray[np.datetime64]]] = {}
    channels = chosen(run, names)
    several = len({(channel.rate, channel.time_scale) for channel in channels}) > 1
    for channel in channels:
        array = channel.xarray(start, stop)
        times = array["time"].to_numpy()
        key = (channel.rate, channel.time_scale, len(times), times[:1].tobytes())
        axis = axes.get(key)
        if axis is None or not np.array_equal(axis[1], times):
            base = f"time_{channel.rate}Hz".replace("/", "_per_") if several else "time"
            taken = {name for name, _ in axes.values()}
            name = next(n for n in _numbered(base) if n not in taken)
            axis = axes[(*key, name)] = axes[key] = (name, times)
        arrays[channel.name] = array.rename({"time": axis[0]}) if axis[0] != "time" else array
    dimensions = {dimension for array in arrays.values() for dimension in array.dims}
    for name in arrays:
        if name in dimensions:
            raise ValueError(
                f"the channel {name!r} has the name of a dimension of this dataset: "
                "leave it out of names, and read it by numpy()"
            )
    about = {"run": run.header.run_id, "run_number": run.header.run_number}
    dataset: xr.Dataset = xarray.Dataset(arrays, attrs=about)
    return dataset


def _numbered(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}_{number}"
        number += 1


def to_arrow(
    run: _native.Run,
    names: str | Iterable[str] | None = None,
    start: Time | None = None,
    stop: Time | None = None,
) -> pa.Table:
    """Channels that have the same times as a pyarrow.Table, or the run's events.

    Events become a row each: event, time, flags, and a column per source with its fragment (null
    where it is missing). `names` chooses channels or sources, `start` and `stop` a range of time;
    events are in it by the arrival of their first fragment, UTC.

    A source that says what its payload is becomes a column of that type: lists of fixed size where
    it has a shape, lists where fragments differ in length, structs for records. If one of its
    fragments does not fit (one was cut short), the whole column is the bytes as they came.
    """
    pyarrow = optional("pyarrow")
    if not run.channels:
        first_ns = functools.partial(_first_ns, run)
        return _events(pyarrow, run, names, time_range(start, stop, "utc", first_ns))
    channels = chosen(run, names)
    columns: list[Any] = []
    fields: list[Any] = []
    times: NDArray[Any] | None = None
    for channel in channels:
        table = channel.arrow(start, stop)
        own = table.column("time").to_numpy()
        if times is None:
            times = own
            columns.append(table.column("time"))
            fields.append(table.field("time"))
        elif not np.array_equal(times, own):
            raise ValueError(_other_times(channels[0], channel))
        columns.append(table.column(channel.name))
        fields.append(table.field(channel.name))
    joined: pa.Table = pyarrow.table(columns, schema=pyarrow.schema(fields))
    return joined


def _first_ns(run: _native.Run) -> int | None:
    """When the first event arrived; None without events."""
    return int(run.events.times.min()) if len(run.events) else None


def _other_times(one: Channel, other: Channel) -> str:
    """Why one table cannot hold two channels."""
    if one.rate != other.rate:
        return (
            f"{one.name} and {other.name} have {one.rate} Hz and {other.rate} Hz: "
            "one table cannot hold them; choose channels of one rate"
        )
    return (
        f"{other.name} has other gaps in this range than {one.name}: one table cannot hold them; "
        "read them one by one"
    )


def _events(
    pyarrow: Any,  # noqa: ANN401
    run: _native.Run,
    names: str | Iterable[str] | None,
    time: tuple[int, int],
) -> pa.Table:
    if names is None:
        wanted = [name for name, source in run.sources.items() if source.stored]
    else:
        wanted = [names] if isinstance(names, str) else list(names)
    found = [(frame, (frame.times >= time[0]) & (frame.times < time[1])) for frame in run.frames()]
    frames = [(frame, rows) for frame, rows in found if rows.any()]

    def column(kind: Any, parts: Iterable[Any]) -> Any:  # noqa: ANN401
        chosen = zip(parts, frames, strict=True)
        chunks = [part if rows.all() else part.filter(rows) for part, (_, rows) in chosen]
        return pyarrow.chunked_array(chunks, type=kind)

    dates = (pyarrow.array(frame.times.astype("datetime64[ns]")) for frame, _ in frames)
    columns = [
        column(pyarrow.uint64(), (pyarrow.array(frame.keys) for frame, _ in frames)),
        column(pyarrow.timestamp("ns"), dates),
        column(pyarrow.uint32(), (pyarrow.array(frame.flags) for frame, _ in frames)),
    ]
    for name in wanted:
        # One without events, too, tells the type where there is no frame.
        none = run.sources[name].fragments(1, 0)
        parts = [none, *(frame[name] for frame, _ in frames)]
        if any(len(part.holes) for part in parts):
            message = f"fragments of '{name}' have holes, which are zeros in the table"
            warnings.warn(message, stacklevel=4)
        first, *rest = _fragments(pyarrow, parts)
        columns.append(column(first.type, rest))
    table: pa.Table = pyarrow.table(columns, names=["event", "time", "flags", *wanted])
    return table


def _fragments(pyarrow: Any, parts: list[_native.Fragments]) -> list[Any]:  # noqa: ANN401
    """Make Arrow arrays of one type: the source's own where all parts fit it, bytes otherwise."""
    convert = _binary
    payload = parts[0].payload
    if payload is not None and all(fits(part) for part in parts):
        convert = _arrays if payload["shape"] else _lists
    return [convert(pyarrow, part) for part in parts]


def _arrays(pyarrow: Any, fragments: _native.Fragments) -> Any:  # noqa: ANN401
    column = arrow_column(pyarrow, np.ma.getdata(fragments.array))
    missing = ~fragments.valid
    if not missing.any():
        return column
    return column.take(pyarrow.array(np.arange(len(missing)), mask=missing))


def _lists(pyarrow: Any, fragments: _native.Fragments) -> Any:  # noqa: ANN401
    offsets, elements = lists(fragments)
    return pyarrow.LargeListArray.from_arrays(
        pyarrow.array(offsets),
        arrow_column(pyarrow, elements),
        mask=pyarrow.array(~fragments.valid),
    )


def _binary(pyarrow: Any, fragments: _native.Fragments) -> Any:  # noqa: ANN401
    buffers = [
        pyarrow.py_buffer(np.packbits(fragments.valid, bitorder="little")),
        pyarrow.py_buffer(np.ascontiguousarray(fragments.offsets.astype(np.int64))),
        pyarrow.py_buffer(np.ascontiguousarray(fragments.data)),
    ]
    return pyarrow.Array.from_buffers(pyarrow.large_binary(), len(fragments), buffers)
