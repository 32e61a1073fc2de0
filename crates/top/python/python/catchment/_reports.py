"""Checks of whole runs: their ledgers and their checksums."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from catchment import _native

__all__ = ["AuditReport", "Difference", "Problem", "Unexplained", "VerifyReport", "audit", "verify"]


@dataclass(frozen=True)
class Problem:
    """Something broken, and where."""

    file: Path
    """The file; the run's folder where a whole file is concerned."""
    frame: int | None
    """The frame's index in that file, from 0."""
    column: str | None
    """What the broken column means, by the name in the specification of the file."""
    source: str | None
    """The source that the column belongs to."""
    channel: str | None
    """The channel whose samples the column holds."""
    problem: str
    """What is wrong."""


@dataclass(frozen=True)
class Difference:
    """An entry in which the recorder's total and the columns differ."""

    source: str
    entry: str
    recorded: int
    """What the recorder wrote."""
    recomputed: int
    """What increments and columns give."""


@dataclass(frozen=True)
class Unexplained:
    """What one source's ledger leaves open: in flight while a run goes on, a defect at its end."""

    source: str
    fragments: int
    """Fragments that came in and are neither recorded nor counted as dropped."""
    packets: int
    """Packets that came in and are neither accepted nor counted as malformed."""


@dataclass(frozen=True)
class AuditReport:
    """The ledger of a run, recomputed from its columns."""

    verdict: Literal["balanced", "data_lost", "not_balanced"]
    """What it comes to. "data_lost": everything is explained, and something is in no file."""
    closing: Literal["ended", "repaired", "recording", "killed", "part"]
    """How the run was closed; only "ended" must balance to the last fragment."""
    events: int
    frames: int
    """Frames with events or samples of channels."""
    frames_missing: int
    """Frames that are missing, by the numbers of those that are there."""
    fragments_lost: int
    """Fragments that the network lost."""
    fragments_dropped: int
    """Fragments that came in and are in no file."""
    packets_malformed: int
    differences: tuple[Difference, ...]
    unexplained: tuple[Unexplained, ...]
    problems: tuple[Problem, ...]
    recorded: Mapping[str, Mapping[str, int]] | None = field(repr=False)
    """The recorder's total: counts that are not zero, by source and entry; None without one."""
    recomputed: Mapping[str, Mapping[str, int]] = field(repr=False)
    """The same as increments and columns give it."""

    @property
    def balanced(self) -> bool:
        """Whether everything is explained."""
        return self.verdict != "not_balanced"


@dataclass(frozen=True)
class VerifyReport:
    """Every checksum of a run, checked."""

    files: int
    frames: int
    columns: int
    bytes: int
    """Bytes of the frames."""
    frames_missing: int
    """Frames that are missing, by the numbers of those that are there."""
    unclosed: tuple[Path, ...]
    """Files without a table of contents: being recorded, or left by a recorder that was killed."""
    problems: tuple[Problem, ...]
    """What is broken: the first 10,000 of it."""
    problem_count: int

    @property
    def intact(self) -> bool:
        """Whether everything that is there is as it was written."""
        return self.problem_count == 0


def audit(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> AuditReport:
    """Recompute a run's ledger from its columns and compare it with its recorder's.

    Reads the lengths of all fragments, but no payload.

    Args:
        path: A file or a run's folder, or several folders of one run, which are balanced together:
            what one lacks and another has is not missing.

    Raises:
        FileError: There is nothing that can be read.

    """
    report: dict[str, Any] = json.loads(_native.audit_json(path))
    sources: list[str] = report["sources"]

    def by_source(ledger: list[dict[str, int]]) -> dict[str, dict[str, int]]:
        return dict(zip(sources, ledger, strict=True))

    recorded = report["recorded"]
    balance = report["balance"]
    return AuditReport(
        verdict=report["verdict"],
        closing=report["closing"],
        events=report["events"],
        frames=report["frames"],
        frames_missing=report["frames_missing"],
        fragments_lost=balance["fragments_lost"],
        fragments_dropped=balance["fragments_dropped"],
        packets_malformed=balance["packets_malformed"],
        differences=tuple(Difference(**difference) for difference in report["differences"]),
        unexplained=tuple(Unexplained(**source) for source in report["open"]),
        problems=_problems(report),
        recorded=None if recorded is None else by_source(recorded),
        recomputed=by_source(report["recomputed"]),
    )


def verify(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> VerifyReport:
    """Read a whole run and check every checksum.

    Args:
        path: A file or a run's folder, or several folders of one run: all files are checked, and a
            problem names a whole copy of its frame in another folder.

    Raises:
        FileError: There is nothing that can be read.

    """
    report: dict[str, Any] = json.loads(_native.verify_json(path))
    return VerifyReport(
        files=report["files"],
        frames=report["frames"],
        columns=report["columns"],
        bytes=report["bytes"],
        frames_missing=report["frames_missing"],
        unclosed=tuple(Path(path) for path in report["unclosed"]),
        problems=_problems(report),
        problem_count=report["problem_count"],
    )


def _problems(report: dict[str, Any]) -> tuple[Problem, ...]:
    return tuple(
        Problem(**{**problem, "file": Path(problem["file"])}) for problem in report["problems"]
    )
