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
    rows = fragments.data.reshape(-1, expected)[:, payload["skip"] :]
    values: NDArray[Any] = rows.view(dtype).reshape(len(rows), *(shape or (-1,)))
    if valid.all():
        return values
    filled = np.zeros((len(valid), *values.shape[1:]), dtype)
    filled[valid] = values
    masked: NDArray[Any] = np.ma.MaskedArray(filled)
    masked[~valid] = np.ma.masked
    return masked


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
