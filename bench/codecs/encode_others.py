"""Encodes and decodes columns by other programs' bitshuffle+lz4, on one thread.

A job comes as JSON on stdin, its results go as JSON to stdout. `catchment bench codecs` asks.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    Encode = Callable[[np.ndarray], Any]
    Decode = Callable[[Any, np.ndarray], np.ndarray]


def main() -> None:
    """Do the job."""
    job = json.load(sys.stdin)
    # Before a library is loaded: bitshuffle takes every CPU by OpenMP and has no call to stop it.
    os.environ["OMP_NUM_THREADS"] = "1"
    data = np.fromfile(Path(job["path"]), job["dtype"])
    columns = np.split(data, data.nbytes // job["column_bytes"])
    results = []
    for name, pair in LIBRARIES.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        encode, decode = pair(module)
        # The first round touches the memory and checks the bytes.
        check(name, columns, encode, decode)
        begin, all_begin = time.thread_time(), time.process_time()
        rounds = [measure(columns, encode, decode) for _ in range(job["repeats"])]
        own_s, all_s = time.thread_time() - begin, time.process_time() - all_begin
        if all_s > ALL_THREADS_SHARE_MAX * own_s:
            sys.exit(f"{name} works on more than one thread")
        stored_bytes = sum(len(encode(column)) for column in columns)
        results.append(
            {
                "library": f"{name} {module.__version__}",
                "ratio": data.nbytes / stored_bytes,
                "encode_s": float(np.median([encoding for encoding, _ in rounds])),
                "decode_s": float(np.median([decoding for _, decoding in rounds])),
            }
        )
    print(json.dumps(results))  # noqa: T201 (its only output)


def blosc2(module: Any) -> tuple[Encode, Decode]:  # noqa: ANN401 (a module)
    """Give c-blosc2 at its default level, with the filter and the codec that Catchment has."""
    module.set_nthreads(1)
    options = {
        "codec": module.Codec.LZ4,
        "clevel": 5,
        "filters": [module.Filter.BITSHUFFLE],
        "nthreads": 1,
    }

    def encode(column: np.ndarray) -> bytes:
        stored: bytes = module.compress2(column, typesize=column.itemsize, **options)
        return stored

    def decode(stored: bytes, like: np.ndarray) -> np.ndarray:
        return np.frombuffer(module.decompress2(stored, nthreads=1), like.dtype)

    return encode, decode


def bitshuffle(module: Any) -> tuple[Encode, Decode]:  # noqa: ANN401 (a module)
    """Give the library that HDF5's filter is made of."""

    def decode(stored: np.ndarray, like: np.ndarray) -> np.ndarray:
        column: np.ndarray = module.decompress_lz4(stored, like.shape, like.dtype)
        return column

    return module.compress_lz4, decode


# CPU time of all threads, as a share of the thread's own: the clocks' resolutions differ.
ALL_THREADS_SHARE_MAX = 1.1

LIBRARIES = {"blosc2": blosc2, "bitshuffle": bitshuffle}


def check(name: str, columns: list[np.ndarray], encode: Encode, decode: Decode) -> None:
    """Refuse a library that gives other bytes back: its speed would mean nothing."""
    for column in columns:
        if not np.array_equal(decode(encode(column), column), column):
            sys.exit(f"{name} gives other bytes back")


def measure(columns: list[np.ndarray], encode: Encode, decode: Decode) -> tuple[float, float]:
    """Seconds of encoding and of decoding all columns, one after the other."""
    encoding = decoding = 0.0
    for column in columns:
        begin = time.perf_counter()
        stored = encode(column)
        middle = time.perf_counter()
        decode(stored, column)
        encoding += middle - begin
        decoding += time.perf_counter() - middle
    return encoding, decoding


if __name__ == "__main__":
    main()
