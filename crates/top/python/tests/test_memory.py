"""What arrays that are kept keep in memory: no more than 16 times their own bytes."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

import catchment
from fixtures import Recorded

ROW_BYTES = 28


@pytest.fixture
def run(recorded: Recorded) -> Iterator[catchment.Run]:
    with catchment.open(recorded.path) as run:
        yield run


def is_view(part: NDArray[np.uint8], whole: NDArray[np.uint8]) -> bool:
    return bool(np.shares_memory(part, whole))


def test_a_single_fragment_is_a_view_only_where_it_is_a_sixteenth(run: catchment.Run) -> None:
    views = copies = 0
    for name in run.sources:
        for frame in run.frames():
            column = frame[name]
            whole = column.data
            for row, key in list(enumerate(frame.keys.tolist()))[::20]:
                for one in (run.sources[name].event(key), column[row], next(iter(column[row:]))):
                    assert one is not None
                    bytes_kept = ROW_BYTES * len(column) + len(whole)
                    expected = 16 * (len(one) + ROW_BYTES) >= bytes_kept
                    assert is_view(one, whole) is expected
                    assert not one.flags.writeable
                    views, copies = views + expected, copies + (not expected)
    # The huge ones, and all the others.
    assert views > 0
    assert copies > 1000


def test_few_events_are_a_copy_and_many_a_view(run: catchment.Run) -> None:
    frame = max(run.frames(), key=len)
    keys, whole = frame.keys.tolist(), frame[0].data
    few, many = run[0].fragments(keys[0], keys[2]), run[0].fragments(keys[0], keys[-1])
    assert not is_view(few.data, whole)
    assert is_view(many.data, whole)
    start, stop = frame[0].offsets[[0, 2]]
    np.testing.assert_array_equal(few.data, whole[start:stop])
    assert few.keys.tolist() == keys[:2]
    assert few.offsets.tolist() == frame[0].offsets[:3].tolist()
