"""The codec `for` for numcodecs and for Zarr, version 2 and 3.

Both find it by themselves where the package catchment is installed: as `catchment-for`. Its bytes
are specified in docs/spec/for-codec.md.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ndarray_copy
from numpy.typing import NDArray

from catchment import _native

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer

NAME = "catchment-for"
_SIZES = (1, 2, 4, 8)


class For(Codec):  # type: ignore[misc] # numcodecs has no types
    """Patched frame of reference, as a numcodecs codec.

    element_bytes: bytes of an element: 1, 2, 4 or 8; None takes the arrays' own.
    signed: whether elements are signed; None takes the arrays' own.
    """

    codec_id: ClassVar[str] = NAME

    def __init__(self, element_bytes: int | None = None, signed: bool | None = None) -> None:
        _check(element_bytes)
        self.element_bytes = element_bytes
        self.signed = signed

    def encode(self, buf: Any) -> bytes:  # noqa: ANN401 (whatever has a buffer)
        """Encode an array, or bytes."""
        array = ensure_contiguous_ndarray(buf)
        size = self.element_bytes
        if size is None:
            size = array.dtype.itemsize if array.dtype.itemsize in _SIZES else 1
        signed = array.dtype.kind == "i" if self.signed is None else self.signed
        return _native.for_encode(array.view(np.uint8), size, signed).tobytes()

    def decode(self, buf: Any, out: Any = None) -> Any:  # noqa: ANN401 (as numcodecs has it)
        """Decode into `out`, or into a new array of bytes."""
        stored = ensure_contiguous_ndarray(buf).view(np.uint8)
        return ndarray_copy(_native.for_decode(stored), out)


def _check(element_bytes: int | None) -> None:
    if element_bytes is not None and element_bytes not in _SIZES:
        raise ValueError(f"element_bytes is {element_bytes}, expected 1, 2, 4 or 8")


try:
    from zarr.abc.codec import BytesBytesCodec
except ImportError:  # Zarr version 2 takes numcodecs' codecs.
    pass
else:

    @dataclass(frozen=True)
    class ForZarr(BytesBytesCodec):
        """Patched frame of reference, as a codec of Zarr version 3, behind the codec `bytes`."""

        is_fixed_size = False

        element_bytes: int | None = None
        signed: bool | None = None

        def __post_init__(self) -> None:
            """Refuse what cannot be."""
            _check(self.element_bytes)

        @classmethod
        def from_dict(cls, data: dict[str, Any]) -> Self:
            """Make it from an array's metadata."""
            if data.get("name") != NAME:
                raise ValueError(f"expected the codec {NAME}, got {data.get('name')}")
            return cls(**data.get("configuration", {}))

        def to_dict(self) -> dict[str, Any]:
            """Say it for an array's metadata."""
            configuration = {"element_bytes": self.element_bytes, "signed": self.signed}
            return {"name": NAME, "configuration": configuration}

        def evolve_from_array_spec(self, array_spec: "ArraySpec") -> Self:
            """Take settings that are missing from the array's type."""
            dtype = array_spec.dtype.to_native_dtype()
            size, signed = self.element_bytes, self.signed
            if size is None:
                size = dtype.itemsize if dtype.itemsize in _SIZES else 1
            return replace(
                self,
                element_bytes=size,
                signed=dtype.kind == "i" if signed is None else signed,
            )

        async def _decode_single(self, chunk_bytes: "Buffer", chunk_spec: "ArraySpec") -> "Buffer":
            raw = await asyncio.to_thread(_native.for_decode, _plain(chunk_bytes))
            return chunk_spec.prototype.buffer.from_bytes(raw.tobytes())

        async def _encode_single(
            self, chunk_bytes: "Buffer", chunk_spec: "ArraySpec"
        ) -> "Buffer | None":
            size, signed = self.element_bytes or 1, bool(self.signed)
            plain = _plain(chunk_bytes)
            stored = await asyncio.to_thread(_native.for_encode, plain, size, signed)
            return chunk_spec.prototype.buffer.from_bytes(stored.tobytes())

        def compute_encoded_size(self, input_byte_length: int, _chunk_spec: "ArraySpec") -> int:
            """Refuse: the encoded size is not known beforehand."""
            raise NotImplementedError

    def _plain(buffer: "Buffer") -> NDArray[np.uint8]:
        return np.ascontiguousarray(buffer.as_numpy_array()).view(np.uint8)
