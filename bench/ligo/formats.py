"""The formats beside Catchment: how each is written and how one channel of it is read.

All of them hold the same samples in the same frames. HDF5 has a dataset per channel and a chunk per
frame; Parquet a column of lists per channel and a row group per frame; GWF is what lalframe writes.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Samples = np.ndarray[Any, np.dtype[Any]]

GPS_EPOCH = 1_400_000_000


@dataclass(frozen=True)
class Channel:
    """One channel's place in the file of raw samples: channel after channel."""

    name: str
    dtype: str
    rate: int
    offset: int
    samples: int


@dataclass(frozen=True)
class Layout:
    """How long frames are, and how many of them are in a file."""

    frame_s: int
    frames_per_file: int


@dataclass(frozen=True)
class Frame:
    """One frame: seconds from the beginning."""

    begin_s: int
    end_s: int

    def of(self, channel: Channel) -> slice:
        """Give the place of the channel's samples in it."""
        return slice(self.begin_s * channel.rate, self.end_s * channel.rate)


@dataclass(frozen=True)
class Data:
    """The samples of all channels."""

    raw: Path
    seconds: int
    channels: list[Channel]

    def __getitem__(self, channel: Channel) -> Samples:
        """All samples of a channel."""
        return np.memmap(
            self.raw, dtype=channel.dtype, mode="r", offset=channel.offset, shape=channel.samples
        )

    def files(self, layout: Layout) -> Iterator[list[Frame]]:
        """Go through the files: the frames of each."""
        begins = range(0, self.seconds, layout.frame_s)
        frames = [Frame(begin, min(begin + layout.frame_s, self.seconds)) for begin in begins]
        for first in range(0, len(frames), layout.frames_per_file):
            yield frames[first : first + layout.frames_per_file]


class Format(Protocol):
    """One way to store and read the samples."""

    name: str

    def write(self, folder: Path, data: Data, layout: Layout) -> None:
        """Write all channels into an empty folder."""

    def read(self, folder: Path, channel: Channel) -> Samples:
        """Read one channel, opening included."""

    def list_channels(self, folder: Path) -> int:
        """Read the tables of contents of all files, and say how many channels the last one has."""


class Hdf5:
    """HDF5 by h5py, compressed by bitshuffle and LZ4 unless another filter is given."""

    name = "HDF5"

    def __init__(self, compression: Any = None) -> None:  # noqa: ANN401 (hdf5plugin has no types)
        self.compression = compression

    def write(self, folder: Path, data: Data, layout: Layout) -> None:
        """Write a dataset per channel, a chunk per frame."""
        import h5py
        import hdf5plugin

        compression = self.compression or hdf5plugin.Bitshuffle(cname="lz4")
        for number, frames in enumerate(data.files(layout)):
            with h5py.File(folder / f"{number:05}.h5", "w") as file:
                for channel in data.channels:
                    samples = data[channel]
                    first = frames[0].of(channel)
                    file.create_dataset(
                        channel.name,
                        data=samples[first.start : frames[-1].of(channel).stop],
                        chunks=(first.stop - first.start,),
                        **compression,
                    )

    def read(self, folder: Path, channel: Channel) -> Samples:
        """Read a dataset of each file."""
        import h5py
        import hdf5plugin  # noqa: F401 (registers the filter)

        parts = []
        for path in sorted(folder.iterdir()):
            with h5py.File(path, "r") as file:
                parts.append(file[channel.name][:])
        return joined(parts)

    def list_channels(self, folder: Path) -> int:
        """List the datasets of each file."""
        import h5py

        names: list[str] = []
        for path in sorted(folder.iterdir()):
            with h5py.File(path, "r") as file:
                names = list(file)
        return len(names)


class Gwf:
    """IGWD frames by lalframe."""

    def __init__(self, *, compressed: bool) -> None:
        self.name = "GWF" if compressed else "GWF, uncompressed"
        self.compressed = compressed

    def write(self, folder: Path, data: Data, layout: Layout) -> None:
        """Write FrProcData, compressed as lalframe does it unasked or not at all."""
        import lal
        import lalframe

        for number, frames in enumerate(data.files(layout)):
            begin = GPS_EPOCH + frames[0].begin_s
            length = frames[-1].end_s - frames[0].begin_s
            path = folder / f"X-BENCH-{begin}-{length}.gwf"
            file = lalframe.FrameUFrFileOpen(str(path), "w")
            for at, frame in enumerate(frames, start=number * layout.frames_per_file):
                gps = lal.LIGOTimeGPS(GPS_EPOCH + frame.begin_s)
                head = lalframe.FrameNew(gps, frame.end_s - frame.begin_s, "X", 0, at, 0)
                for channel in data.channels:
                    samples = np.ascontiguousarray(data[channel][frame.of(channel)])
                    if self.compressed:
                        self.add(head, gps, channel, samples)
                    else:
                        self.add_uncompressed(head, channel, samples)
                lalframe.FrameUFrameHWrite(file, head)
            del file

    def add(self, head: Any, gps: Any, channel: Channel, samples: Samples) -> None:  # noqa: ANN401 (lalframe has no types)
        """Add a channel through lalframe's own way to do so, which compresses."""
        import lal
        import lalframe

        kind = {"<f4": "REAL4", "<i2": "INT2"}[channel.dtype]
        create = getattr(lal, f"Create{kind}TimeSeries")
        unit = lal.DimensionlessUnit
        series = create(channel.name, gps, 0.0, 1.0 / channel.rate, unit, len(samples))
        series.data.data = samples
        getattr(lalframe, f"FrameAdd{kind}TimeSeriesProcData")(head, series)

    def add_uncompressed(self, head: Any, channel: Channel, samples: Samples) -> None:  # noqa: ANN401 (as above)
        """Add a channel by hand: lalframe's own way cannot be told not to compress."""
        import lalframe

        kind = {"<f4": lalframe.FRAMEU_FR_VECT_4R, "<i2": lalframe.FRAMEU_FR_VECT_2S}
        series = lalframe.FRAMEU_FR_PROC_TYPE_TIME_SERIES
        made = lalframe.FrameUFrProcChanAlloc(
            channel.name, series, 0, kind[channel.dtype], len(samples)
        )
        memory = lalframe.FrameUFrChanVectorQueryData(made)
        ctypes.memmove(int(memory), samples.ctypes.data, samples.nbytes)
        memory.disown()
        lalframe.FrameUFrChanVectorSetName(made, channel.name)
        lalframe.FrameUFrChanVectorSetDx(made, 1.0 / channel.rate)
        lalframe.FrameUFrChanVectorSetStartX(made, 0.0)
        lalframe.FrameUFrChanVectorSetUnitX(made, "s")
        lalframe.FrameUFrChanSetTRange(made, len(samples) / channel.rate)
        lalframe.FrameUFrameHFrChanAdd(head, made)

    def read(self, folder: Path, channel: Channel) -> Samples:
        """Read each frame of each file, the shortest way that lalframe has."""
        import lalframe

        kind = {"<f4": "REAL4", "<i2": "INT2"}[channel.dtype]
        read = getattr(lalframe, f"FrFileRead{kind}TimeSeries")
        parts = []
        for path in sorted(folder.iterdir()):
            file = lalframe.FrFileOpenURL(str(path))
            frames = range(lalframe.FrFileQueryNFrame(file))
            parts += [read(file, channel.name, frame).data.data for frame in frames]
        return joined(parts)

    def list_channels(self, folder: Path) -> int:
        """Read the FrTOC of each file."""
        import lalframe

        channels = 0
        for path in sorted(folder.iterdir()):
            toc = lalframe.FrameUFrTOCRead(lalframe.FrameUFrFileOpen(str(path), "r"))
            channels = int(lalframe.FrameUFrTOCQueryProcN(toc))
        return channels


class Parquet:
    """Parquet by pyarrow, compressed by zstd; floats with their bytes split."""

    name = "Parquet"

    def write(self, folder: Path, data: Data, layout: Layout) -> None:
        """Write a column of lists per channel, a row group of one row per frame."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = {"<f4": pa.float32(), "<i2": pa.int16()}
        schema = pa.schema([(ch.name, pa.list_(kinds[ch.dtype])) for ch in data.channels])
        for number, frames in enumerate(data.files(layout)):
            with pq.ParquetWriter(
                folder / f"{number:05}.parquet",
                schema,
                compression="zstd",
                use_dictionary=False,
                use_byte_stream_split=[
                    f"{ch.name}.list.element" for ch in data.channels if ch.dtype == "<f4"
                ],
                write_statistics=False,
            ) as file:
                for frame in frames:
                    columns = []
                    for channel in data.channels:
                        samples = np.asarray(data[channel][frame.of(channel)])
                        ends = pa.array([0, len(samples)], pa.int32())
                        columns.append(pa.ListArray.from_arrays(ends, pa.array(samples)))
                    file.write_table(pa.table(columns, schema=schema))

    def read(self, folder: Path, channel: Channel) -> Samples:
        """Read a column of each file."""
        import pyarrow.parquet as pq

        parts = []
        for path in sorted(folder.iterdir()):
            column = pq.ParquetFile(path).read([channel.name]).column(0)
            parts += [chunk.flatten().to_numpy() for chunk in column.chunks]
        return joined(parts)

    def list_channels(self, folder: Path) -> int:
        """Read the footer of each file."""
        import pyarrow.parquet as pq

        channels = 0
        for path in sorted(folder.iterdir()):
            channels = len(pq.ParquetFile(path).schema_arrow.names)
        return channels


class Catchment:
    """Catchment's own format by its Python package; the run is there already."""

    name = "Catchment"

    def write(self, folder: Path, data: Data, layout: Layout) -> None:
        """Catchment's runs are written by the program that asks for the bench."""

    def read(self, folder: Path, channel: Channel) -> Samples:
        """Read a channel of the run."""
        import catchment

        samples: Samples = catchment.open(folder)[channel.name].numpy()
        return samples

    def list_channels(self, folder: Path) -> int:
        """Open the run, which reads the table of contents of each file."""
        import catchment

        return len(catchment.open(folder).channels)


def joined(parts: list[Samples]) -> Samples:
    """One array: the only one as it is, several copied together."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
