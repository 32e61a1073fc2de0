"""Conditions of events."""

import enum


class EventFlag(enum.IntFlag):
    """Conditions of one event, a bit each. An event without any is complete."""

    INCOMPLETE = 1
    """At least one required source is missing."""
    TIMED_OUT = 2
    """It was closed because its time-out passed."""
    OVERTAKEN = 4
    """It was closed because the sources, or the window, had moved on."""
    TAG_MISMATCH = 8
    """Its fragments do not all carry the same trigger tag."""
    SENDER_ERROR = 16
    """A source marked its own data as broken."""
    RUN_ENDED = 32
    """It was closed because the run ended."""
    BAD_CHECKSUM = 64
    """The checksum of a fragment is not that of its bytes."""
    UNMATCHED = 128
    """By time: one fragment that is in no event, as a row of its own. With LATE: its source's
    clock was out of step, and the fragment's time is only what that clock said."""
    LATE = 256
    """By time: one fragment that came after its event was closed, as a row of its own."""
