"""Fragments of sources that say what their bytes are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catchment import _native


def array(fragments: _native.Fragments) -> NDArray[Any]:
    """Fragments as one array of shape (n, ...); masked where some are missing."""
    payload = fragments.payload
    if payload is None:
        raise TypeError(f"source '{fragments.source}' does not say what its payload is")
    dtype, shape = np.dtype(payload["dtype"]), tuple(payload["shape"])
    valid, lengths = fragments.valid, np.diff(fragments.offsets)
    expected = _fragment_bytes(fragments, dtype, shape, lengths[valid])
    wrong = np.flatnonzero(valid & (lengths != expected))
    if len(wrong):
        row = wrong[0]
        raise ValueError(
            f"source '{fragments.source}', event {fragments.keys[row]}: a fragment of "
            f"{lengths[row]} bytes, expected {expected}"
        )
    # The numbers are spelt out, because numpy infers none where fragments are empty.
    rows = fragments.data.reshape(int(valid.sum()), expected)[:, payload["skip"] :]
    count = rows.shape[1] // dtype.itemsize
    values: NDArray[Any] = rows.view(dtype).reshape(len(rows), *(shape or (count,)))
    holes = fragments.holes
    if valid.all() and not len(holes):
        return values
    filled = np.zeros((len(valid), *values.shape[1:]), dtype)
    filled[valid] = values
    masked: NDArray[Any] = np.ma.MaskedArray(filled)
    masked[~valid] = np.ma.masked
    if not len(holes):
        return masked
    mask = np.ma.getmaskarray(masked)
    for row, offset, size in holes.tolist():
        begin = offset - payload["skip"]
        mask_bytes(mask[row], dtype, (begin, begin + size))
    return np.ma.MaskedArray(filled, mask)


def mask_bytes(mask: NDArray[Any], dtype: np.dtype[Any], span: tuple[int, int]) -> None:
    """Mask the elements of an array of that type that have some of its bytes begin to end."""
    begin, end = span
    if dtype.names is None:
        flat = mask.reshape(-1)
        flat[max(0, begin // dtype.itemsize) : max(0, -(-end // dtype.itemsize))] = True
        return
    first, last = max(0, begin // dtype.itemsize), max(0, -(-end // dtype.itemsize))
    records, fields = mask.reshape(-1), dict(dtype.fields or {})
    for index in range(first, min(last, len(records))):
        for name in dtype.names:
            field, offset = fields[name][:2]
            within = index * dtype.itemsize + offset
            size = field.base.itemsize
            from_, to = (begin - within) // size, -(-(end - within) // size)
            cells = records[name][index : index + 1].reshape(-1)
            cells[max(0, from_) : max(0, to)] = True


def fits(fragments: _native.Fragments) -> bool:
    """Whether every fragment holds whole elements of its source's type, as many as that says."""
    payload = fragments.payload
    if payload is None:
        return False
    dtype, shape = np.dtype(payload["dtype"]), tuple(payload["shape"])
    if dtype.itemsize == 0 or dtype.names == () or 0 in shape:
        return False
    sizes = np.diff(fragments.offsets)[fragments.valid].astype(np.int64) - payload["skip"]
    if shape:
        return bool((sizes == dtype.itemsize * math.prod(shape)).all())
    return bool(((sizes >= 0) & (sizes % dtype.itemsize == 0)).all())


def lists(fragments: _native.Fragments) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Offsets and elements of fragments that `fits` and that differ in length."""
    payload = fragments.payload or {}
    dtype, skip = np.dtype(payload["dtype"]), payload["skip"]
    valid, offsets, data = fragments.valid, fragments.offsets.astype(np.int64), fragments.data
    sizes = np.where(valid, np.diff(offsets) - skip, 0) // dtype.itemsize
    if skip:
        before = offsets[:-1][valid][:, np.newaxis] + np.arange(skip)
        data = np.delete(data, before.reshape(-1))
    return np.concatenate([[0], np.cumsum(sizes)]), data.view(dtype)


def _fragment_bytes(
    fragments: _native.Fragments,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    lengths: NDArray[np.uint64],
) -> int:
    """Bytes that every fragment must have: as the type says, or as the first one has."""
    payload = fragments.payload or {}
    skip: int = payload["skip"]
    if shape or not len(lengths):
        return skip + dtype.itemsize * math.prod(shape)
    first = int(lengths[0])
    if first < skip or (first - skip) % dtype.itemsize:
        raise ValueError(f"source '{fragments.source}': {first} bytes are no array of {dtype}")
    return first
