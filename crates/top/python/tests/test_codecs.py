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


CODINGS = [
    "zstd:1",
    "zstd:5",
    "lz4",
    "bitshuffle+lz4",
    "bitshuffle+zstd:1",
    "shuffle+lz4",
    "shuffle+zstd:1",
    "pcodec:8",
    "for",
]
NAME = "catchment-for"
# What numcodecs calls the codecs, and Zarr 3.
NUMCODECS = {"zstd": "zstd", "lz4": "lz4", "blosc": "blosc", "pcodec": "pcodec", "for": NAME}
ZARR: dict[str, list[dict[str, Any]]] = {
    "zstd": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    "lz4": [{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}],
    "blosc": [
        {
            "name": "blosc",
            "configuration": {
                "cname": "lz4",
                "clevel": 5,
                "shuffle": "bitshuffle",
                "typesize": 1,
                "blocksize": 0,
            },
        }
    ],
    "for": [{"name": NAME, "configuration": {}}],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("coding", CODINGS)
def test_numcodecs_decodes_what_is_stored(coding: str, dtype: str) -> None:
    for count in COUNTS:
        array = samples(dtype, count)
        codec, stored = encode(coding, array)
        out = np.empty_like(array)
        numcodecs.get_codec({"id": NUMCODECS[codec]}).decode(stored, out=out)
        np.testing.assert_array_equal(out, array)


@pytest.mark.parametrize("coding", CODINGS)
def test_numcodecs_decodes_bytes_that_are_no_whole_elements(coding: str) -> None:
    """Payload of sources ends where it ends, whatever its elements are."""
    if coding.startswith("pcodec"):
        pytest.skip("pcodec is of whole numbers")
    for dtype in DTYPES:
        for count in (1, 3, 1001, 65_537, 300_001):
            raw = samples("u1", count)
            codec, stored = _native.encode(coding, ELEMENTS[dtype], raw)
            out = np.empty_like(raw)
            numcodecs.get_codec({"id": NUMCODECS[codec]}).decode(stored.tobytes(), out=out)
            np.testing.assert_array_equal(out, raw)


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("coding", CODINGS)
def test_zarr_3_reads_what_is_stored_as_a_chunk(coding: str, dtype: str) -> None:
    """Chunks of odd lengths, put into the store as they stand in a file."""
    for count in (1, 7, 1025, 4097):
        array = samples(dtype, 2 * count)
        pieces = [encode(coding, half) for half in np.split(array, 2)]
        codec = pieces[0][0]
        compressors: list[dict[str, Any]] = ZARR.get(codec, [])
        serializer: Any = "auto"
        if codec == "pcodec":
            # To Zarr 3 it is what makes bytes of an array.
            serializer = {"name": "numcodecs.pcodec", "configuration": {"level": 8}}
        store = zarr.storage.MemoryStore()
        opened = zarr.create_array(
            store,
            shape=array.shape,
            chunks=(count,),
            dtype=array.dtype,
            compressors=compressors or None,
            serializer=serializer,
            zarr_format=3,
        )
        for index, (_, stored) in enumerate(pieces):
            chunk = zarr.core.buffer.cpu.Buffer.from_bytes(stored)
            zarr.core.sync.sync(store.set(f"c/{index}", chunk))
        np.testing.assert_array_equal(opened[:], array)


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
