"""What the codecs store, others decode; and the codec `for` works in numcodecs and Zarr."""

from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from catchment import _native
from catchment.codecs import For

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]
ELEMENTS = dict(
    zip(DTYPES, ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"], strict=True)
)
COUNTS = [1, 7, 1023, 1024, 1025, 100_000]


def samples(dtype: str, count: int) -> NDArray[Any]:
    random = np.random.default_rng(1)
    values = 20 * np.sin(np.arange(count) / 100) + random.normal(40, 5, count)
    return values.astype(dtype)


def encode(coding: str, array: NDArray[Any]) -> tuple[str, bytes]:
    element = ELEMENTS[array.dtype.str[1:]]
    codec, stored = _native.encode(coding, element, array.view(np.uint8))
    return codec, stored.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("coding", "decoder"),
    [
        ("zstd:1", {"id": "zstd"}),
        ("zstd:5", {"id": "zstd"}),
        ("lz4", {"id": "lz4"}),
        ("bitshuffle+lz4", {"id": "blosc"}),
        ("bitshuffle+zstd:1", {"id": "blosc"}),
        ("shuffle+lz4", {"id": "blosc"}),
        ("shuffle+zstd:1", {"id": "blosc"}),
        ("pcodec:8", {"id": "pcodec"}),
        ("for", {"id": "catchment-for"}),
    ],
)
def test_numcodecs_decodes_what_is_stored(coding: str, decoder: dict[str, str], dtype: str) -> None:
    names = {"zstd": "zstd", "lz4": "lz4", "blosc": "blosc", "pcodec": "pcodec", "for": NAME}
    for count in COUNTS:
        array = samples(dtype, count)
        codec, stored = encode(coding, array)
        if array.itemsize == 1 or (coding == "for" and array.dtype.kind == "f"):
            decoder = {"id": names[codec]}
        out = np.empty_like(array)
        numcodecs.get_codec(decoder).decode(stored, out=out)
        np.testing.assert_array_equal(out, array)


NAME = "catchment-for"


def test_numcodecs_finds_the_codec_and_keeps_its_configuration() -> None:
    codec = numcodecs.get_codec({"id": NAME, "element_bytes": 2, "signed": True})
    assert isinstance(codec, For)
    assert codec.get_config() == {"id": NAME, "element_bytes": 2, "signed": True}
    array = samples("i2", 5000)
    stored = codec.encode(array)
    assert len(stored) < array.nbytes / 2
    np.testing.assert_array_equal(codec.decode(stored).view("i2"), array)
    assert For().encode(array) == stored


@pytest.mark.parametrize("dtype", DTYPES)
def test_zarr_3_stores_arrays_with_the_codec(dtype: str) -> None:
    store = zarr.storage.MemoryStore()
    array = samples(dtype, 30_000).reshape(100, 300)
    stored = zarr.create_array(
        store,
        shape=array.shape,
        chunks=(30, 300),
        dtype=array.dtype,
        compressors=[{"name": NAME, "configuration": {}}],
        zarr_format=3,
    )
    stored[:] = array
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[:], array)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zarr_2_stores_arrays_with_the_codec(dtype: str) -> None:
    store = zarr.storage.MemoryStore()
    array = samples(dtype, 30_000).reshape(100, 300)
    stored = zarr.create_array(
        store,
        shape=array.shape,
        chunks=(30, 300),
        dtype=array.dtype,
        compressors=For(),
        zarr_format=2,
    )
    stored[:] = array
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[:], array)


def test_bytes_that_are_no_column_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        For().decode(b"nothing")
    stored = bytearray(For().encode(samples("u2", 2000)))
    for at in range(len(stored)):
        broken = bytes(stored[:at])
        with pytest.raises(ValueError, match="expected"):
            For().decode(broken)
    with pytest.raises(ValueError, match="element_bytes is 3"):
        For(element_bytes=3)
