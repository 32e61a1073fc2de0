"""Checks of whole runs: their ledgers and their checksums."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from catchment import _native

__all__ = [
    "AuditReport",
    "DamagedCopy",
    "Difference",
    "FolderAudit",
    "MissingFrames",
    "Problem",
    "Unexplained",
    "VerifyReport",
    "audit",
    "verify",
]


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
class MissingFrames:
    """Frames whose numbers are missing in all folders."""

    stream: int
    first: int
    """The number of the first."""
    last: int
    """That of the last."""


@dataclass(frozen=True)
class DamagedCopy:
    """A damaged frame of which there is a whole copy."""

    file: Path
    """The damaged copy's file."""
    frame: int
    """Its index in that file, from 0."""
    problem: str
    """The damage."""
    whole_file: Path
    """The whole copy's file."""
    whole_frame: int
    """Its index in that file, from 0."""


@dataclass(frozen=True)
class FolderAudit:
    """What one of several folders has of a run, and how that agrees with its own ledger."""

    path: Path
    target: str | None
    """The target of which it is one of several folders, or parts."""
    stream: int
    """The stream of its frames."""
    files: int
    """Its files, without copies."""
    file_bytes: int
    frames: int
    """Frames with events or samples, each once."""
    frames_alone: int
    """How many of them no other folder has."""
    frames_lacking: int
    """Frames of its stream that it and other folders of its target lack, and another has."""
    verdict: Literal["balanced", "data_lost", "not_balanced", "incomplete"] | None
    """What its own ledger comes to, with the other folders of its target; None if there are no
    others: then it is the run's."""
    closing: Literal["ended", "repaired", "recording", "killed", "part"] | None
    """How its part of the run was closed."""
    differences: tuple[Difference, ...]
    """Where its own total and its columns differ."""
    unexplained: tuple[Unexplained, ...]
    """What its own ledger leaves open."""
    readable: bool
    """Whether all of it can be read."""


@dataclass(frozen=True)
class AuditReport:
    """The ledger of a run, recomputed from its columns."""

    verdict: Literal["balanced", "data_lost", "not_balanced", "incomplete"]
    """What it comes to. "data_lost": everything is explained, and something is in no file.
    "incomplete": whole files are missing or broken, so that there is no ledger of the run."""
    closing: Literal["ended", "repaired", "recording", "killed", "part"]
    """How the run was closed; only "ended" must balance to the last fragment."""
    events: int
    frames: int
    """Frames with events or samples of channels."""
    frames_missing: int
    """Frames that are missing, by the numbers of those that are there."""
    fragments_lost: int
    """Fragments that events lack and that did not come: not sent, or lost on the way."""
    fragments_dropped: int
    """Fragments that came in and are in no file."""
    packets_malformed: int
    differences: tuple[Difference, ...]
    unexplained: tuple[Unexplained, ...]
    problems: tuple[Problem, ...]
    incomplete: tuple[Problem, ...]
    """Files that are missing, cannot be read, or have lost their end."""
    folders: tuple[FolderAudit, ...]
    """Of several folders of a run: what each has."""
    frames_repeated: int
    """Frames that are in more than one of them."""
    missing: tuple[MissingFrames, ...]
    """The frames that are in none of them: the first 1,000 ranges."""
    elsewhere: tuple[Problem, ...]
    """What is missing or broken in one of several folders, and is in another: no loss."""
    damaged_copies: tuple[DamagedCopy, ...]
    """Damaged frames of which there is a whole copy, by which they are counted."""
    recorded: Mapping[str, Mapping[str, int]] | None = field(repr=False)
    """The recorder's total: counts that are not zero, by source and entry; None without one."""
    recomputed: Mapping[str, Mapping[str, int]] = field(repr=False)
    """The same as increments and columns give it."""

    @property
    def balanced(self) -> bool:
        """Whether everything is explained."""
        return self.verdict in ("balanced", "data_lost")


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
        **_disagreements(report),
        problems=_problems(report),
        incomplete=_problems(report, "incomplete"),
        folders=tuple(_folder(folder) for folder in report["folders"]),
        frames_repeated=report["frames_repeated"],
        missing=tuple(MissingFrames(**missing) for missing in report["missing"]),
        elsewhere=_problems(report, "elsewhere"),
        damaged_copies=tuple(
            DamagedCopy(
                **{**copy, "file": Path(copy["file"]), "whole_file": Path(copy["whole_file"])}
            )
            for copy in report["damaged_copies"]
        ),
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


def _folder(folder: dict[str, Any]) -> FolderAudit:
    return FolderAudit(
        path=Path(folder["path"]),
        target=folder["target"],
        stream=folder["stream"],
        files=folder["files"],
        file_bytes=folder["file_bytes"],
        frames=folder["frames"],
        frames_alone=folder["frames_alone"],
        frames_lacking=folder["frames_lacking"],
        verdict=folder["verdict"],
        closing=folder["closing"],
        readable=folder["is_readable"],
        **_disagreements(folder),
    )


def _disagreements(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "differences": tuple(Difference(**difference) for difference in report["differences"]),
        "unexplained": tuple(Unexplained(**source) for source in report["open"]),
    }


def _problems(report: dict[str, Any], key: str = "problems") -> tuple[Problem, ...]:
    problems = report[key]
    return tuple(Problem(**{**problem, "file": Path(problem["file"])}) for problem in problems)
