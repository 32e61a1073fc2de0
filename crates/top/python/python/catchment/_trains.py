"""Trains of images: fragments that are one record each, with a field of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from catchment._optional import optional
from catchment._typed import mask_bytes

if TYPE_CHECKING:
    import xarray as xr
    from numpy.typing import NDArray

    from catchment._native import Run


class Trains:
    """The trains of a source of a run.

    The source's payload is a record with a field of images, of pulses, rows and columns, and
    perhaps others: descriptors of the images, detector data. Only what is asked for is read: of a
    run that is not compressed a single image costs about its own bytes. Where packets of a train
    were lost, what they carried is masked.

        trains = catchment.Trains(run, "spb")
        trains.image(4711, 3)                    # of train 4711, pulse 3: shape (y, x)
        trains.images(4711)                      # shape (pulse, y, x)
        trains.group(4711, "descriptors")        # a record for each image
        trains.group(4711, "detector")           # the detector data, structured
        trains.xarray([4711, 4712])              # dimensions train, pulse, y, x
    """

    def __init__(self, run: Run, source: str | int, *, images: str = "images") -> None:
        """`images` is the field's name."""
        self._run, self._source = run, run.sources[source]
        payload = self._source.payload
        dtype = None if payload is None else np.dtype(payload["dtype"])
        if (
            payload is None
            or dtype is None
            or dtype.names is None
            or payload["shape"] not in ([], [1])
        ):
            raise TypeError(f"source '{self._source.name}' is not of one record for each train")
        if images not in dtype.names or len(dtype[images].shape) != 3:  # noqa: PLR2004 (pulse, y, x)
            names = ", ".join(dtype.names)
            raise TypeError(f"no field '{images}' of pulse, y and x; there are {names}")
        self._dtype, self._skip, self._images = dtype, int(payload["skip"]), images

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The numbers of the run's trains, shape (n,), uint64; this source may lack some."""
        return self._run.events.keys

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a train: a record."""
        dtype: np.dtype[Any] = self._dtype
        return dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        """Pulses, rows and columns of a train's images."""
        pulses, y, x = self._dtype[self._images].shape
        return pulses, y, x

    def field(self, train: int, name: str) -> NDArray[Any]:
        """Read a field of a train: a masked array where bytes of it never came."""
        field, offset = self._field(name)
        return self._read(train, offset, field.base, field.shape)

    def group(self, train: int, name: str) -> NDArray[Any]:
        """Join the fields `name.*` of a train to one structured array.

        It has an element for each image, or for whatever else their first dimension counts, and
        is masked as `field`.
        """
        before = name + "."
        names = [one for one in self._dtype.names or () if one.startswith(before)]
        if not names:
            raise KeyError(f"no fields '{before}*'; there are {', '.join(self._dtype.names or ())}")
        parts = [np.ma.asarray(self.field(train, one)) for one in names]
        dtype = [
            (one.removeprefix(before), part.dtype, part.shape[1:])
            for one, part in zip(names, parts, strict=True)
        ]
        values = np.ma.MaskedArray(np.empty(len(parts[0]), dtype))
        for (one, *_), part in zip(dtype, parts, strict=True):
            values[one] = part
        return values if any(np.ma.is_masked(part) for part in parts) else values.data

    def image(self, train: int, pulse: int) -> NDArray[Any]:
        """One image, shape (y, x); a masked array where bytes of it never came."""
        pulses, y, x = self.shape
        index = pulse + pulses if pulse < 0 else pulse
        if not 0 <= index < pulses:
            raise IndexError(f"pulse {pulse}: a train has {pulses}")
        field, offset = self._field(self._images)
        image_bytes = y * x * field.base.itemsize
        return self._read(train, offset + index * image_bytes, field.base, (y, x))

    def images(self, train: int) -> NDArray[Any]:
        """All images of a train, shape (pulse, y, x); masked as `image`."""
        return self.field(train, self._images)

    def holes(self, train: int) -> NDArray[np.int64]:
        """Begin and end of the parts of a train that never came, in bytes, shape (n, 2).

        Nothing of the train itself is read.
        """
        found = self._source.holes(train)
        if found is None:
            raise KeyError(f"event {train} has no train of '{self._source.name}'")
        holes = np.clip(found - self._skip, 0, self._dtype.itemsize)
        return holes[holes[:, 0] < holes[:, 1]]

    def array(self, trains: list[int]) -> NDArray[Any]:
        """Images of several trains, shape (train, pulse, y, x); masked as `image`."""
        values = self._several(trains, self._images)
        return values if np.ma.is_masked(values) else values.data

    def xarray(self, trains: list[int]) -> xr.DataArray:
        """Images of several trains, with dimensions train, pulse, y and x.

        Coordinates: `train`; `pulse`, the numbers in the descriptors where those of all trains are
        the same, otherwise counted from 0; and by their names, such as `descriptors.time_ns`, the
        descriptors of each image, (train, pulse).

        What never came is masked by coordinates of bools, (train, pulse), since xarray has no
        masks of its own: it is 0, and false in `whole` for an image, in `described` for any of
        its descriptors.
        """
        module = optional("xarray")
        values = self.array(trains)
        pulses, dims = self.shape[0], ("train", "pulse")
        before = "descriptors."
        fields = {
            name: self._several(trains, name)
            for name in self._dtype.names or ()
            if name.startswith(before) and self._dtype[name].shape == (pulses,)
        }
        described = np.ones((len(trains), pulses), bool)
        for found in fields.values():
            described &= ~np.ma.getmaskarray(found)
        numbers = np.arange(pulses)
        if trains and (sent := fields.get(before + "pulse")) is not None:
            least = sent.min(axis=0)
            if not np.ma.is_masked(least) and (least == sent.max(axis=0)).all():
                numbers = np.ma.getdata(least)
        coords: dict[str, Any] = {
            "train": trains,
            "pulse": numbers,
            "whole": (dims, ~np.ma.getmaskarray(values).any(axis=(2, 3))),
        }
        if fields:
            coords["described"] = (dims, described)
        coords |= {name: (dims, found.filled(0)) for name, found in fields.items()}
        array: xr.DataArray = module.DataArray(
            np.ma.filled(values, 0), dims=(*dims, "y", "x"), coords=coords, name=self._source.name
        )
        return array

    def _several(self, trains: list[int], name: str) -> np.ma.MaskedArray[Any, Any]:
        """Read a field of several trains, one behind the other."""
        field, _ = self._field(name)
        values = np.ma.MaskedArray(np.empty((len(trains), *field.shape), field.base))
        for row, train in enumerate(trains):
            values[row] = self.field(train, name)
        return values

    def _field(self, name: str) -> tuple[np.dtype[Any], int]:
        fields = self._dtype.fields or {}
        if name not in fields:
            raise KeyError(f"no field '{name}'; there are {', '.join(fields)}")
        field, offset = fields[name][:2]
        return field, self._skip + offset

    def _read(
        self, train: int, offset: int, base: np.dtype[Any], shape: tuple[int, ...]
    ) -> NDArray[Any]:
        """Read a part of a train as an array."""
        wanted = base.itemsize * int(np.prod(shape))
        found = self._source.part(train, offset, offset + wanted)
        if found is None:
            raise KeyError(f"event {train} has no train of '{self._source.name}'")
        data, holes = found
        if len(data) != wanted:
            raise ValueError(f"train {train} ends before byte {offset + wanted}")
        values: NDArray[Any] = data.view(base).reshape(shape)
        if not len(holes):
            return values
        mask = np.zeros(values.shape, np.ma.make_mask_descr(base))
        for begin, end in holes.tolist():
            mask_bytes(mask, base, (begin, end))
        return np.ma.MaskedArray(values, mask)

    def __repr__(self) -> str:
        pulses, y, x = self.shape
        return f"<catchment.Trains of '{self._source.name}': {pulses} images of {y} x {x} each>"
