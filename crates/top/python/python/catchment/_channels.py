"""Channels: continuous, regularly sampled series, as numpy, xarray, pandas, Arrow and Dask."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from catchment import _native
from catchment._errors import GapError
from catchment._optional import optional
from catchment._times import closed, convert_time, dates, number_range, time_bounds, time_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa
    import xarray as xr
    from dask.array import Array as DaskArray
    from numpy.typing import NDArray

    from catchment._times import Time, TimeScale

    Gaps = Literal["fill", "join", "raise"]
    Runs = list[tuple[int, int]]
    # First sample, start in ns, samples: of each piece without a gap.
    Read = list[tuple[int, int, NDArray[Any]]]

FILLED_MAX = 1 << 20
"""A range of so many numbers (a sample of shape [8] is eight) is always filled.

A longer one is filled if enough of it was recorded.
"""

FILLED_SHARE = 16
"""That is, of so many samples one of the range, or of the whole channel."""


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

    Ranges are times, start included and stop not: nanoseconds of the channel's own time scale as
    int, or dates as numpy.datetime64, datetime or ISO text. Dates are those of the channel's scale;
    with a time zone ("2026-11-22T07:41:45Z", an aware datetime) they are instants in UTC, and
    converted. What is not given is open, and so is a start before the scale's epoch and a stop from
    2262-04-11 on ("9999-12-31"). NaT raises ValueError, and so does an int from 1 to
    10**12 - 1 where all data are later: that is seconds.

    Where a clock was set back, samples that were recorded later have earlier times, perhaps the
    same as others. `segments`, iterating, `times`, `pandas`, `arrow` and `dask` give them all, in
    the order in which they were recorded; `numpy` and `xarray` raise GapError.

    Only the columns that hold the range are read from the disk, and of one that is not compressed
    the blocks of 64 KiB that hold it. What is read is checked. A column without checksums of
    blocks, as in files of before version 1.3, is read and checked as a whole when a part of it is
    first read, unless the run was opened with `check_columns=False`. Where these checksums are
    damaged, the column is checked as a whole, with one DamageWarning for the run.

    `len(channel)` is the number of samples that were recorded, and `channel[i]`, `channel[i:j]` are
    these by their index among them, in the order in which they were recorded, gaps left out.
    Iterating gives segments, a frame at a time.
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
        self._per_ns = (self.rate.numerator, self.rate.denominator * 1_000_000_000)
        self.time_scale: TimeScale = info["time_scale"]
        """What times count: "tai", "utc" or "gps"."""
        self.scale: float | None = info["scale"]
        """A value is raw * scale + offset, where these are given."""
        self.offset: float | None = info["offset"]
        """See scale."""
        self.stored: bool = info["stored"]
        """Whether its samples are in these files: a target may get some of the channels.

        Reading one that is not stored raises UnknownChannelError.
        """

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
        """Where samples are missing between the first and the last: (start_ns, stop_ns).

        In the order of time, also where a clock was set back.
        """
        gaps = []
        end: int | None = None
        for piece in sorted(self.pieces, key=lambda piece: piece.first_sample):
            if end is not None and piece.first_sample > end:
                gaps.append((self._time(end), self._time(piece.first_sample)))
            end = max(end or 0, piece.first_sample + piece.samples)
        return gaps

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
        offset are left out.
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

        `gaps` says what becomes of missing samples. "fill" puts `fill` in their place (NaN for
        floats; integers need a value of their own): the array has an item for each sample of the
        range, from `start` to `stop` whatever was recorded there; an end that is open is that of
        what was recorded. "join" leaves them out. "raise" raises GapError if one of these samples
        is missing.

        GapError also where time goes back in the range, and where there is too much to fill: of
        more than 2**20 numbers (samples times the elements of their shape) at least one in 16 must
        be recorded in the range, or as many as that would be in the whole channel.
        """
        return self._read(start, stop, gaps, fill, raw=raw)[1]

    def times(self, start: Time | None = None, stop: Time | None = None) -> NDArray[np.int64]:
        """Give the times of a range's samples: nanoseconds of the channel's scale, int64."""
        kind, first, last = self._range(start, stop, None, None)
        runs = self._reader.runs(kind, first, last)
        return self._times_of(runs)

    def xarray(  # noqa: PLR0913 (all but the range are named)
        self,
        start: Time | None = None,
        stop: Time | None = None,
        *,
        gaps: Gaps = "join",
        fill: float | None = None,
        raw: bool = False,
        time_scale: TimeScale | None = None,
    ) -> xr.DataArray:
        """Read a range as an xarray.DataArray with its times and unit.

        Times are datetime64 of the channel's own scale, or of `time_scale` if that is given, as
        `convert_time` converts them; the attribute `time_scale` says which. Missing samples are
        left out unless `gaps` says otherwise: see `numpy`.
        """
        xarray = optional("xarray")
        runs, values = self._read(start, stop, gaps, fill, raw=raw)
        times = self._dates(self._times_of(runs))
        scale = self.time_scale if time_scale is None else time_scale
        if scale != self.time_scale:
            times = convert_time(times, self.time_scale, scale)
        attributes: dict[str, object] = {
            "sample_rate": self.sample_rate,
            "time_scale": scale,
        }
        if self.unit:
            attributes["units"] = self.unit
        inner = [f"{self.name}_{axis}" for axis in range(1, len(self.shape) + 1)]
        array: xr.DataArray = xarray.DataArray(
            values,
            dims=["time", *inner],
            coords={"time": times},
            name=self.name,
            attrs=attributes,
        )
        array["time"].attrs["time_scale"] = scale
        return array

    def pandas(
        self, start: Time | None = None, stop: Time | None = None, *, raw: bool = False
    ) -> pd.Series[Any]:
        """Read a range as a pandas.Series of the recorded samples over their times."""
        pandas = optional("pandas")
        if self.shape:
            raise TypeError(f"{self.name} has samples of shape {self.shape}: pandas takes scalars")
        read = self._reader.read(*self._range(start, stop, None, None))
        runs, values = self._as_recorded(read, raw=raw)
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
        if self.name == "time":
            raise ValueError(
                "the channel 'time' has the name of the column of times: read it by numpy()"
            )
        read = self._reader.read(*self._range(start, stop, None, None))
        runs, values = self._as_recorded(read, raw=raw)
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
        header = self._reader.run_object.header
        lengths: dict[int, int] = {}
        for piece in self.pieces:
            lengths[piece.frame] = lengths.get(piece.frame, 0) + piece.samples
        # A file that is being recorded has its bytes from the start: its frames say how far it is.
        state = (header.run_id, header.file_bytes, max(lengths, default=-1) + 1)
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

    @overload
    def __getitem__(self, index: slice, /) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: int, /) -> Any: ...  # noqa: ANN401 (a number, or an array)
    def __getitem__(self, index: int | slice, /) -> Any:
        """Give samples by their index among those that were recorded."""
        count = len(self)
        if not isinstance(index, slice):
            position = operator.index(index)
            position += count if position < 0 else 0
            if not 0 <= position < count:
                raise IndexError(f"index {index} of {count} samples")
            return self._at(position, position + 1)[0]
        selected = range(*index.indices(count))
        if not selected:
            return self._at(0, 0)
        ends = sorted((selected[0], selected[-1]))
        found = self._at(ends[0], ends[1] + 1)
        return found[::-1][:: -selected.step] if selected.step < 0 else found[:: selected.step]

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        """All samples, as `numpy` gives them. They are read, so that copy=False is refused."""
        if copy is False:
            raise ValueError(f"{self.name} is read from files: there is no array without a copy")
        return np.asarray(self.numpy(), dtype=dtype)

    def __repr__(self) -> str:
        """Name, type and rate."""
        shape = f" {self.shape}" if self.shape else ""
        unit = f" in {self.unit}" if self.unit else ""
        return f"<catchment.Channel '{self.name}': {self.dtype}{shape}{unit}, {self.rate} Hz>"

    def _time(self, sample: int) -> int:
        samples, in_ns = self._per_ns
        return sample * in_ns // samples

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
            return ("samples", *number_range("samples", samples))
        if frames is not None:
            return ("frames", *number_range("frames", frames))
        if not in_time:
            return ("all", 0, 0)
        return ("time", *time_range(start, stop, self.time_scale, lambda: self.start_ns))

    def _segments(self, read: Read, *, raw: bool) -> list[Segment]:
        return [
            Segment(start_ns, first_sample, self._values(data, raw=raw))
            for first_sample, start_ns, data in read
        ]

    def _values(self, data: NDArray[Any], *, raw: bool) -> NDArray[Any]:
        if raw or (self.scale is None and self.offset is None):
            return data
        scale = 1.0 if self.scale is None else self.scale
        return data * scale + (0.0 if self.offset is None else self.offset)

    def _read(
        self, start: Time | None, stop: Time | None, gaps: Gaps, fill: float | None, *, raw: bool
    ) -> tuple[Runs, NDArray[Any]]:
        """Read a range as one array; with it, which samples it holds: runs of first and count."""
        if gaps not in ("fill", "join", "raise"):
            raise ValueError(f'gaps is {gaps!r}, expected "fill", "join" or "raise"')
        bounds = time_bounds(start, stop, self.time_scale, lambda: self.start_ns)
        kind = "all" if start is None and stop is None else "time"
        read = self._reader.read(kind, *closed(bounds))
        runs = [(first, len(data)) for first, _, data in read]
        for (before, length), (after, _) in pairwise(runs):
            if after < (end := before + length):
                raise GapError(
                    f"{self.name}: time goes back in this range, to {self._say(after)}"
                    f" behind {self._say(end)}: segments() gives all samples as recorded"
                )
        first, count = self._grid(bounds, runs)
        recorded = sum(length for _, length in runs) if len(runs) != 1 else runs[0][1]
        if gaps == "join" or recorded == count:
            return self._as_recorded(read, raw=raw)
        missing = f"{count - recorded} of {count} samples are missing in this range"
        if gaps == "raise":
            raise GapError(f"{self.name}: {missing}")
        always = FILLED_MAX // max(math.prod(self.shape), 1)
        most = always + FILLED_SHARE * recorded
        if count > most and count > always + FILLED_SHARE * len(self):
            raise GapError(
                f"{self.name}: {missing}, too many to fill: leave an end of the range open, "
                'read segments(), or use gaps="join"'
            )
        filled = np.full((count, *self.shape), *self._filling(fill, missing, raw=raw))
        for at, _, data in read:
            begin = at - first
            filled[begin : begin + len(data)] = self._values(data, raw=raw)
        return [(first, count)], filled

    def _grid(self, bounds: tuple[int | None, int | None], runs: Runs) -> tuple[int, int]:
        """First sample and count of a range: from edge to edge, or of what was recorded."""
        start_ns, stop_ns = bounds
        first = None if start_ns is None else self._sample_at(start_ns)
        end = None if stop_ns is None else self._sample_at(stop_ns)
        if first is None:
            first = runs[0][0] if runs else end or 0
        if end is None:
            end = sum(runs[-1]) if runs else first
        return first, max(end - first, 0)

    def _filling(self, fill: float | None, missing: str, *, raw: bool) -> tuple[Any, np.dtype[Any]]:
        """Choose what stands for a missing sample, and its type."""
        dtype = self._values(np.empty(0, self.dtype), raw=raw).dtype
        if fill is None and dtype.kind not in "fc":
            raise GapError(
                f"{self.name}: {missing}, and {dtype} has no value for them: give fill=, or "
                'gaps="join"'
            )
        value = np.asarray(np.nan if fill is None else fill)
        if value.ndim or value.dtype.kind not in "biufc":
            raise TypeError(f"{self.name}: fill={fill!r} is no number")
        if value.dtype.kind == "c" and dtype.kind != "c":
            raise ValueError(f"{self.name}: fill={fill!r} is complex, the channel is {dtype}")
        if dtype.kind in "iu":
            # Floats do not hold what integers hold at most: the comparison is of integers.
            whole = bool(np.isfinite(value)) and value == np.trunc(value)
            if not whole or not np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max:
                raise ValueError(f"{self.name}: fill={fill!r} is no {dtype}")
            value = np.asarray(int(value), dtype)
        return value, dtype

    def _as_recorded(self, read: Read, *, raw: bool) -> tuple[Runs, NDArray[Any]]:
        """Join pieces in their order, whatever their times."""
        if len(read) == 1:
            first, _, data = read[0]
            return [(first, len(data))], self._values(data, raw=raw)
        pieces = [data for _, _, data in read]
        runs = [(first, len(data)) for first, _, data in read]
        joined = np.concatenate(pieces) if pieces else np.empty((0, *self.shape), self.dtype)
        return runs, self._values(joined, raw=raw)

    def _at(self, first: int, end: int) -> NDArray[Any]:
        """Read samples by their indices among those that were recorded."""
        ranges: dict[int, tuple[int, int]] = {}
        offset = 0
        for piece in self.pieces:
            low, high = max(first, offset), min(end, offset + piece.samples)
            if low < high:
                # Within a frame sample numbers rise.
                begin, _ = ranges.get(piece.frame, (piece.first_sample + low - offset, 0))
                ranges[piece.frame] = (begin, piece.first_sample + high - offset)
            offset += piece.samples
        read: Read = []
        for frame, (begin, stop) in ranges.items():
            read += self._reader.read("samples", begin, stop, frame)
        return self._as_recorded(read, raw=False)[1]

    def _sample_at(self, time_ns: int) -> int:
        """Give the first sample whose time is not before that."""
        samples, in_ns = self._per_ns
        return -(-time_ns * samples // in_ns)

    def _say(self, sample: int) -> str:
        """When a sample is, for people."""
        time = self._dates(np.array([min(self._time(sample), 2**63 - 1)]))[0]
        return f"{time} {self.time_scale.upper()}"

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
def _opened(path: Path, _state: tuple[str, int, int]) -> _native.Run:
    """Open a run in a worker of Dask, once as long as it is the same."""
    return _native.open(path)


def _read_frame(
    path: Path, state: tuple[str, int, int], name: str, frame: int, *, raw: bool
) -> NDArray[Any]:
    channel = _opened(path, state)[name]
    return np.concatenate([s.data for s in channel.segments(frames=(frame, frame + 1), raw=raw)])
