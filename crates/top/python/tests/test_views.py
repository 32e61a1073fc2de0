"""Arrays are views: what they show is not copied, cannot be written, and stays."""

import gc
import threading

import numpy as np
import pytest
from numpy.typing import NDArray

import catchment
from fixtures import Golden


def address(array: NDArray[np.uint8]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def test_fragments_of_one_frame_are_views_of_one_column(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        frame = run.frames()[0]
        column = frame["board-0"]
        whole = column.data
        first, last = int(frame.keys[2]), int(frame.keys[6])
        part = run["board-0"].fragments(first, last + 1)
        start = int(column.offsets[2])
        # The same bytes at the same address in memory, whether stored raw or decompressed.
        assert address(part.data) == address(whole) + start
        assert np.shares_memory(part.data, whole)
        assert np.shares_memory(part.keys, column.keys)
        assert np.shares_memory(frame.keys, column.keys)
        for row, key in enumerate(frame.keys):
            event = run["board-0"].event(int(key))
            # Those that are small beside the column are copies.
            if event is None or 16 * (28 + len(event)) < 28 * len(frame) + len(whole):
                continue
            assert address(event) == address(whole) + int(column.offsets[row])
            assert np.shares_memory(event, whole)
            row_view = column[row]
            assert row_view is not None
            assert address(row_view) == address(event)


def test_a_view_names_its_owner_and_cannot_be_made_writeable(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        data = run.frames()[0]["board-0"].data
        assert type(data.base).__name__ == "Memory"
        assert not data.flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            data[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            data.flags.writeable = True


def test_views_outlive_fragments_frame_run_and_cache(closed_golden: Golden) -> None:
    run = catchment.open(closed_golden.path, cache_bytes=0)
    frame = run.frames()[0]
    data, keys = frame["board-0"].data, frame.keys
    before = (data.tobytes(), keys.tolist())
    run.close()
    del run, frame
    gc.collect()
    noise = [np.random.default_rng(seed).bytes(data.nbytes) for seed in range(100)]
    assert (data.tobytes(), keys.tolist()) == before
    assert len(noise) == 100


def test_fragments_of_several_frames_are_joined_in_order(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        assert len(run.frames()) > 1
        joined = run["board-0"].fragments()
        parts = [frame["board-0"] for frame in run.frames()]
        assert joined.data.tobytes() == b"".join(part.data.tobytes() for part in parts)
        assert not any(np.shares_memory(joined.data, part.data) for part in parts)
        assert not joined.data.flags.writeable
        assert joined.offsets[-1] == joined.data.size


def test_many_threads_read_one_run(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path, cache_bytes=0) as run:
        expected = {name: run[name].fragments().data.tobytes() for name in run}
        wrong: list[str] = []

        def compare(name: str) -> None:
            read = (run[name].fragments().data.tobytes() for _ in range(50))
            wrong.extend(name for data in read if data != expected[name])

        threads = [threading.Thread(target=compare, args=(name,)) for name in run for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
