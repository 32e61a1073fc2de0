"""A run that is followed while it is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catchment import _native


def growths(run: _native.Run) -> Iterator[None]:
    """Come back now, and then whenever the run has grown, until it has ended."""
    seen = -1
    while True:
        frames = run._grown(max(seen, 0), 0 if seen < 0 else None)  # noqa: SLF001 (its native half)
        if frames <= seen:
            return
        seen = frames
        yield


def frames(run: _native.Run) -> Iterator[_native.Frame]:
    """Frames of events as they are written."""
    given = 0
    for _ in growths(run):
        known = run._known_frames()  # noqa: SLF001
        for index in range(given, len(known)):
            yield known[index]
        given = len(known)
