"""What tests are given: golden files with their descriptions, and recorded runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[4]
GOLDEN = sorted((REPOSITORY / "crates/format/frame/tests/golden").glob("v*/events-*.json"))


@dataclass(frozen=True)
class Golden:
    """A golden file and what its description says is in it."""

    path: Path
    about: dict[str, Any]

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The frames that hold events."""
        return [frame for frame in self.about["frames"] if frame["keys"]]

    def fragments(self, source: str) -> list[tuple[int, bytes | None]]:
        """Key and fragment of every event, None where it is missing."""
        return [
            (key, None if text is None else bytes.fromhex(text))
            for frame in self.frames
            for key, text in zip(frame["keys"], frame["fragments"][source], strict=True)
        ]


@dataclass(frozen=True)
class Recorded:
    """A run that the installed command recorded, and the summary that it printed."""

    path: Path
    summary: dict[str, Any]
