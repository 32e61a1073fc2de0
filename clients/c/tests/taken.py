"""What a recorder of tests knows of a sender."""

import socket
from dataclasses import dataclass, field

JOINS = 1  # a log's answer: it joins the run


@dataclass
class Item:
    """What was taken: a fragment (kind 0), or a mark."""

    sequence: int
    key: int
    data: bytes = b""
    kind: int = 0
    tag: int = 0
    flags: int = 0
    groups: int = 0
    count: int = 1
    key_last: int = 0
    reason: int = 0
    run_number: int = 0
    text: str = ""


@dataclass
class Log:
    """A source of a session."""

    name: str
    connection: int
    first: int
    made: int
    fragment_bytes_max: int
    begin: int
    expected: int = 0
    durable: int = 0
    items: list[Item] = field(default_factory=list)
    part: Item | None = None
    low_waters: list[tuple[int, int, bool]] = field(default_factory=list)  # sequence, key, idle
    answer: int = JOINS
    ended: bytes = b""  # the run that was last answered to have ended

    @property
    def fragments(self) -> list[Item]:
        return [item for item in self.items if item.kind == 0]

    def keep(self, position: int) -> None:
        """Forgets the items from a position on."""
        self.items = [item for item in self.items if item.sequence < position]
        if self.items:
            last = self.items[-1]
            last.count = min(last.count, position - last.sequence)
        self.expected = position


@dataclass
class Session:
    """What a recorder knows of a sender, over connections."""

    name: str
    number: int
    release: int = 1
    token: str = ""
    program: str = ""
    run: bytes = bytes(16)
    command: int = 0
    logs: list[Log] = field(default_factory=list)
    log_count: int = 0
    data_connections: int = 0
    skew_bytes: int = 0
    buffer_ms: int = 0
    flags: int = 0
    opened: int = 0
    answers: list[tuple[int, int, str]] = field(default_factory=list)
    reports: list[tuple[int, str, bytes, str]] = field(default_factory=list)  # kind, name, value
    bye: int | None = None

    def taken(self) -> dict[str, list[tuple[int, str]]]:
        """Keys and bytes, in hex, of the fragments of each source."""
        named = {f"{self.name}/{log.name}".rstrip("/"): log.fragments for log in self.logs}
        return {name: [(it.key, it.data.hex()) for it in items] for name, items in named.items()}


@dataclass
class Connection:
    """One socket."""

    socket: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    number: int = 0
    sent: int = 0
    read: int = 0
    kind: int = 0
    index: int = -1
    session: Session | None = None
    ticket: bytes = b""
    is_dead: bool = False  # half-open: neither read nor answered, and not closed
    is_parked: bool = False  # held, and so not in the selector
    item_bytes: int = 0
    keys: list[tuple[int, int]] = field(default_factory=list)  # new highest key; bytes up to it
