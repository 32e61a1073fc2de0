"""Channels: continuous, regularly sampled series, as numpy, xarray, pandas, Arrow and Dask."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from catchment import _native
from catchment._errors import GapError
from catchment._optional import optional

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa
    import xarray as xr
    from dask.array import Array as DaskArray
    from numpy.typing import NDArray

    Time = int | str | np.datetime64 | datetime
    Gaps = Literal["fill", "join", "raise"]

FILLED_MAX = 1 << 20
"""Gaps up to that many samples are always filled; longer ones if enough was recorded."""

GPS_EPOCH_NS = 315_964_800_000_000_000
"""1980-01-06 in nanoseconds since 1970: where GPS time begins to count."""


class Piece(NamedTuple):
    """Samples without a gap in one frame: where they stand."""

    frame: int
    first_sample: int
    samples: int


@dataclass(frozen=True)
class Segment:
    """Samples without a gap.

    `start_ns` is the time of the first one, in nanoseconds of the channel's time scale, and
    `first_sample` its number: sample n is at n / rate seconds since the scale's epoch.
    """

    start_ns: int
    first_sample: int
    data: NDArray[Any]

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.data)


class Channel:
    """A channel of a run.

    Ranges are times in the channel's own time scale, start included and stop not: nanoseconds as
    int, numpy.datetime64, datetime, or ISO text. Without them: everything. Only the columns that
    hold the range are read from the disk, and of one that is not compressed only the range's own
    bytes. Its checksum, which is of the whole column, is not checked then; those of columns that
    are compressed, or read whole, always are. `catchment.verify` checks all.
    """

    def __init__(self, reader: _native.ChannelReader) -> None:
        self._reader = reader
        info = reader.info()
        self.name: str = info["name"]
        """The channel's name."""
        self.dtype: np.dtype[Any] = np.dtype(info["dtype"])
        """The type of the samples as they were recorded."""
        self.shape: tuple[int, ...] = tuple(info["shape"])
        """The shape of one sample: () for scalars."""
        self.unit: str = info["unit"]
        """The unit of the values; empty if none was given."""
        self.rate = Fraction(*info["rate"])
        """Samples per second, exactly."""
        self.time_scale: str = info["time_scale"]
        """What times count: "tai", "utc" or "gps"."""
        self.scale: float | None = info["scale"]
        """A value is raw * scale + offset, where these are given."""
        self.offset: float | None = info["offset"]
        """See scale."""

    @property
    def sample_rate(self) -> float:
        """Samples per second."""
        return float(self.rate)

    @property
    def pieces(self) -> list[Piece]:
        """Where the samples stand. Reads the index only."""
        return [Piece(*piece) for piece in self._reader.pieces()]

    @property
    def start_ns(self) -> int | None:
        """Time of the first sample, None if there is none."""
        return min((self._time(piece.first_sample) for piece in self.pieces), default=None)

    @property
    def stop_ns(self) -> int | None:
        """Time behind the last sample, None if there is none."""
        ends = (self._time(piece.first_sample + piece.samples) for piece in self.pieces)
        return max(ends, default=None)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Where samples are missing between the first and the last: (start_ns, stop_ns)."""
        pieces = self.pieces
        ends = [piece.first_sample + piece.samples for piece in pieces]
        return [
            (self._time(end), self._time(piece.first_sample))
            for end, piece in zip(ends, pieces[1:], strict=False)
            if piece.first_sample > end
        ]

    def __len__(self) -> int:
        """How many samples were recorded."""
        return sum(piece.samples for piece in self.pieces)

    def segments(
        self,
        start: Time | None = None,
        stop: Time | None = None,
        *,
        samples: tuple[int, int] | None = None,
        frames: tuple[int, int] | None = None,
        raw: bool = False,
    ) -> list[Segment]:
        """Read the pieces of a range that have no gap.

        The range is in time, or in sample numbers, or in frames of the run. With `raw`, scale and
        offset are left out. A part of a column that is not compressed is read unchecked: see
        `Channel`.
        """
        kind, first, last = self._range(start, stop, samples, frames)
        return self._segments(self._reader.read(kind, first, last), raw=raw)

    def numpy(
        self,
        start: Time | None = None,
        stop: Time | None = None,
        *,
        gaps: Gaps = "fill",
        fill: float | None = None,
        raw: bool = False,
    ) -> NDArray[Any]:
        """Read a range as one array of shape (n, *shape).

        `gaps` says what becomes of missing samples: "fill" puts `fill` in their place (NaN for
        floats; integers need a value of their own), "join" leaves them out, "raise" raises an
        error. A part of a column that is not compressed is read unchecked: see `Channel`.
        """
        return self._joined(self.segments(start, stop, raw=raw), gaps, fill)[1]

    def times(self, start: Time | None = None, stop: Time | None = None) -> NDArray[np.int64]:
        """Give the times of a range's samples: nanoseconds of the channel's scale, int64."""
        kind, first, last = self._range(start, stop, None, None)
        runs = self._reader.runs(kind, first, last)
        return self._times_of(runs)

    def xarray(
        self,
        start: Time | None = None,
        stop: Time | None = None,
        *,
        gaps: Gaps = "join",
        raw: bool = False,
    ) -> xr.DataArray:
        """Read a range as an xarray.DataArray with its times and unit.

        Times are datetime64 of the channel's own scale (attribute `time_scale`). Missing samples
        are left out unless `gaps` says otherwise.
        """
        xarray = optional("xarray")
        runs, values = self._joined(self.segments(start, stop, raw=raw), gaps, None)
        times = self._times_of(runs)
        attributes: dict[str, object] = {
            "sample_rate": self.sample_rate,
            "time_scale": self.time_scale,
        }
        if self.unit:
            attributes["units"] = self.unit
        inner = [f"{self.name}_{axis}" for axis in range(1, len(self.shape) + 1)]
        array: xr.DataArray = xarray.DataArray(
            values,
            dims=["time", *inner],
            coords={"time": self._dates(times)},
            name=self.name,
            attrs=attributes,
        )
        array["time"].attrs["time_scale"] = self.time_scale
        return array

    def pandas(
        self, start: Time | None = None, stop: Time | None = None, *, raw: bool = False
    ) -> pd.Series[Any]:
        """Read a range as a pandas.Series of the recorded samples over their times."""
        pandas = optional("pandas")
        if self.shape:
            raise TypeError(f"{self.name} has samples of shape {self.shape}: pandas takes scalars")
        runs, values = self._joined(self.segments(start, stop, raw=raw), "join", None)
        times = self._times_of(runs)
        index = pandas.DatetimeIndex(self._dates(times), name="time")
        series: pd.Series[Any] = pandas.Series(values, index=index, name=self.name)
        series.attrs.update({"units": self.unit, "time_scale": self.time_scale})
        return series

    def arrow(
        self, start: Time | None = None, stop: Time | None = None, *, raw: bool = False
    ) -> pa.Table:
        """Read a range as a pyarrow.Table with the columns time and the channel's name."""
        pyarrow = optional("pyarrow")
        runs, values = self._joined(self.segments(start, stop, raw=raw), "join", None)
        times = self._times_of(runs)
        return self._table(pyarrow, times, values)

    @property
    def dask(self) -> DaskArray:
        """All recorded samples as a Dask array with a chunk per frame, read when computed."""
        return self.to_dask()

    def to_dask(self, *, raw: bool = False) -> DaskArray:
        """As `dask`; with `raw`, scale and offset are left out. Gaps are left out."""
        array = optional("dask.array")
        delayed = optional("dask").delayed(_read_frame, pure=True)
        run = self._reader.run_object
        state = (run.header.run_id, run.header.file_bytes)
        lengths: dict[int, int] = {}
        for piece in self.pieces:
            lengths[piece.frame] = lengths.get(piece.frame, 0) + piece.samples
        dtype = self._values(np.empty((0, *self.shape), self.dtype), raw=raw).dtype
        chunks = [
            array.from_delayed(
                delayed(self._reader.path, state, self.name, frame, raw=raw),
                shape=(length, *self.shape),
                dtype=dtype,
            )
            for frame, length in lengths.items()
        ]
        if not chunks:
            chunks = [array.zeros((0, *self.shape), dtype=dtype)]
        joined: DaskArray = array.concatenate(chunks)
        return joined

    def __iter__(self) -> Iterator[Segment]:
        """All segments, a frame at a time; of a run that is followed, as they are written."""
        if self._reader.run_object._follows:  # noqa: SLF001 (its native half)
            for read in self._reader.follow():
                yield from self._segments(read, raw=False)
            return
        for frame in dict.fromkeys(piece.frame for piece in self.pieces):
            yield from self.segments(frames=(frame, frame + 1))

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        """All samples, as `numpy` gives them."""
        return np.asarray(self.numpy(), dtype=dtype)

    def __repr__(self) -> str:
        """Name, type and rate."""
        shape = f" {self.shape}" if self.shape else ""
        unit = f" in {self.unit}" if self.unit else ""
        return f"<catchment.Channel '{self.name}': {self.dtype}{shape}{unit}, {self.rate} Hz>"

    def _time(self, sample: int) -> int:
        return sample * self.rate.denominator * 1_000_000_000 // self.rate.numerator

    def _times_of(self, runs: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
        times = [self._sample_times(first, count) for first, count in runs]
        if len(times) == 1:
            return times[0]
        return np.concatenate(times) if times else np.empty(0, np.int64)

    def _sample_times(self, first: int, count: int) -> NDArray[np.int64]:
        rate = self.rate
        return _native.sample_times(rate.numerator, rate.denominator, first, count)

    def _dates(self, times: NDArray[np.int64]) -> NDArray[np.datetime64]:
        return dates(times, self.time_scale)

    def _range(
        self,
        start: Time | None,
        stop: Time | None,
        samples: tuple[int, int] | None,
        frames: tuple[int, int] | None,
    ) -> tuple[str, int, int]:
        in_time = start is not None or stop is not None
        if in_time + (samples is not None) + (frames is not None) > 1:
            raise TypeError("give a range in time, in samples or in frames, not several")
        if samples is not None:
            return ("samples", *samples)
        if frames is not None:
            return ("frames", *frames)
        if not in_time:
            return ("all", 0, 0)
        return ("time", *time_range(start, stop, self.time_scale))

    def _segments(self, read: list[tuple[int, int, NDArray[Any]]], *, raw: bool) -> list[Segment]:
        return [
            Segment(start_ns, first_sample, self._values(data, raw=raw))
            for first_sample, start_ns, data in read
        ]

    def _values(self, data: NDArray[Any], *, raw: bool) -> NDArray[Any]:
        if raw or (self.scale is None and self.offset is None):
            return data
        scale = 1.0 if self.scale is None else self.scale
        return data * scale + (0.0 if self.offset is None else self.offset)

    def _joined(
        self, segments: Sequence[Segment], gaps: Gaps, fill: float | None
    ) -> tuple[list[tuple[int, int]], NDArray[Any]]:
        """Join segments to one array; with it, which samples it holds: runs of first and count."""
        if not segments:
            return [], self._values(np.empty((0, *self.shape), self.dtype), raw=False)
        whole = len(segments) == 1
        if whole or gaps == "join":
            runs = [(segment.first_sample, len(segment)) for segment in segments]
            data = [segment.data for segment in segments]
            return runs, data[0] if whole else np.concatenate(data)
        if gaps == "raise":
            raise GapError(f"{self.name} has {len(segments) - 1} gaps in this range")
        first = segments[0].first_sample
        count = segments[-1].first_sample + len(segments[-1]) - first
        recorded = sum(len(segment) for segment in segments)
        if not recorded <= count <= FILLED_MAX + 16 * recorded:
            raise GapError(
                f"{self.name} has gaps of {count - recorded} samples in this range, and "
                f'{recorded} samples: read segments(), or use gaps="join"'
            )
        dtype = segments[0].data.dtype
        if fill is None:
            if dtype.kind not in "fc":
                raise GapError(
                    f"{self.name} has {len(segments) - 1} gaps in this range and {dtype} has no "
                    'value for them: give fill=, or gaps="join"'
                )
            fill = np.nan
        filled = np.full((count, *self.shape), fill, dtype)
        for segment in segments:
            begin = segment.first_sample - first
            filled[begin : begin + len(segment)] = segment.data
        return [(first, count)], filled

    def _table(self, pyarrow: Any, times: NDArray[np.int64], values: NDArray[Any]) -> pa.Table:  # noqa: ANN401
        column = arrow_column(pyarrow, values)
        time = pyarrow.array(self._dates(times))
        about = {"unit": self.unit, "time_scale": self.time_scale, "sample_rate": f"{self.rate}"}
        fields = [
            pyarrow.field("time", time.type),
            pyarrow.field(self.name, column.type, metadata=about),
        ]
        table: pa.Table = pyarrow.table([time, column], schema=pyarrow.schema(fields))
        return table


def time_range(start: Time | None, stop: Time | None, time_scale: str) -> tuple[int, int]:
    """Nanoseconds of a time scale where a range begins, and behind its end."""
    first = 0 if start is None else max(_nanoseconds(start, time_scale), 0)
    last = 2**64 - 1 if stop is None else max(_nanoseconds(stop, time_scale), 0)
    return first, last


def _nanoseconds(time: Time, time_scale: str) -> int:
    if isinstance(time, (int, np.integer)):
        return int(time)
    date = np.datetime64(time, "ns") if isinstance(time, str) else np.datetime64(time)
    since_1970 = int(date.astype("datetime64[ns]").astype(np.int64))
    return since_1970 - (GPS_EPOCH_NS if time_scale == "gps" else 0)


def dates(times: NDArray[np.int64], time_scale: str) -> NDArray[np.datetime64]:
    """Nanoseconds of a time scale as dates of that scale."""
    since_1970 = times + GPS_EPOCH_NS if time_scale == "gps" else times
    return since_1970.view("datetime64[ns]")


def arrow_column(pyarrow: Any, values: NDArray[Any]) -> Any:  # noqa: ANN401
    """One Arrow column: inner axes become lists of fixed size, complex numbers pairs.

    Records become structs of their fields.
    """
    if values.dtype.kind == "c":
        part = np.dtype(f"f{values.dtype.itemsize // 2}")
        values = np.ascontiguousarray(values).view(part).reshape(*values.shape, 2)
    names = values.dtype.names
    if names is None:
        column = pyarrow.array(np.ascontiguousarray(values).reshape(-1))
    else:
        records = values.reshape(-1)
        fields = [arrow_column(pyarrow, records[name]) for name in names]
        column = pyarrow.StructArray.from_arrays(fields, names=list(names))
    for length in reversed(values.shape[1:]):
        column = pyarrow.FixedSizeListArray.from_arrays(column, length)
    return column


@functools.lru_cache(maxsize=8)
def _opened(path: Path, _state: tuple[str, int]) -> _native.Run:
    """Open a run in a worker of Dask, once as long as it is the same."""
    return _native.open(path)


def _read_frame(
    path: Path, state: tuple[str, int], name: str, frame: int, *, raw: bool
) -> NDArray[Any]:
    channel = _opened(path, state)[name]
    return np.concatenate([s.data for s in channel.segments(frames=(frame, frame + 1), raw=raw)])
