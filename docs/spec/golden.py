"""Builds the golden exchanges of session.md, event-link.md and storage-link.md from their tables.

    python3 golden.py            check the tables, build the exchanges, compare pages and files
    python3 golden.py --write    write the exchanges into the pages, and the files

The files: all messages as hex, for the tests of all who write or read them
(crates/format/wire/tests/golden), and as bytes, the seeds of the fuzz targets (fuzz/corpus). A test
runs this program: crates/top/python/tests/test_spec.py.

No field offset or size stands in golden_tables.py: they are read from the tables. What it checks of
the tables: offsets follow each other, sizes are those of the types and of the caption, parts are
multiples of 8 bytes. What it checks of the messages, with a reader that knows the general rules of
section 3 alone: marker, number, lengths, shape, bounds, zeros in reserved bytes and padding, and
that the values come back. golden_messages.py and golden_malformed.py say which messages there are.
"""

import re
import sys
from pathlib import Path

from golden_malformed import malformed
from golden_messages import channels, exchanges, others, storage
from golden_tables import (
    CONTROL_BYTES_MAX,
    DATA_HEAD_MAX,
    HERE,
    MESSAGE_BYTES_MAX,
    PAGES,
    RECORDS_MAX,
    TABLES,
    Piece,
)

REPOSITORY = HERE.parent.parent
GOLDEN = REPOSITORY / "crates/format/wire/tests/golden"
CORPUS = REPOSITORY / "fuzz/corpus"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def hex_lines(data: bytes) -> list[str]:
    return [data[at : at + 32].hex() for at in range(0, len(data), 32)]


def files(exchanges_: dict[str, list[tuple[str, list[Piece]]]]) -> dict[Path, bytes]:
    """Every file that is made: by exchange and by fault as hex, and each connection as a seed."""
    made: dict[Path, bytes] = {}
    for name, exchange in exchanges_.items():
        lines = []
        for index, (who, pieces) in enumerate(exchange):
            if pieces:
                lines.append(f"## {who}")
                target = "event_message" if "data" in who else "session_message"
                seed = b"".join(piece.data for piece in pieces)
                made[CORPUS / target / f"{name}-{index}-{slug(who)}"] = seed
            data = b""
            for piece in pieces:
                if piece.heading and not piece.says.startswith("record"):
                    lines += [*hex_lines(data), f"# {piece.says}"]
                    data = b""
                data += piece.data
            lines += hex_lines(data)
        made[GOLDEN / f"{name}.hex"] = "\n".join([*lines, ""]).encode()
    lines = []
    for connection, fault, says, data in malformed():
        lines += [f"# {connection}, {fault}: {says}", *hex_lines(data)]
        target = "session_message" if connection.endswith("control") else "event_message"
        made[CORPUS / target / f"malformed-{fault}-{slug(says)}"] = data
    made[GOLDEN / "malformed.hex"] = "\n".join([*lines, ""]).encode()
    return made


def compare_files(made: dict[Path, bytes], is_written: bool) -> None:
    folders = {path.parent for path in made}
    if is_written:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                path.unlink()
        for path, data in made.items():
            path.write_bytes(data)
    there = {path for folder in folders for path in folder.iterdir()}
    assert there == set(made), (
        f"golden files: {sorted(map(str, there ^ set(made)))}; golden.py --write makes them"
    )
    for path, data in made.items():
        assert path.read_bytes() == data, (
            f"{path} is not what the tables say; golden.py --write makes it"
        )


# Printing. --------------------------------------------------------------------------------------


def hex_of(data: bytes) -> list[str]:
    """Lines of at most 16 bytes; a tail of 8 zeros or more is counted."""
    body = data.rstrip(b"\0")
    zeros = len(data) - len(body)
    if zeros < 8 or len(data) <= 8:
        body, zeros = data, 0
    lines = [body[at : at + 16].hex(" ").upper() for at in range(0, len(body), 16)]
    if zeros:
        lines = lines or [""]
        tail = f"00 x {zeros}"
        if len(lines[-1]) + len(tail) + 1 > 47:
            lines.append(tail)
        else:
            lines[-1] = f"{lines[-1]} {tail}".strip()
    return lines


def printed(exchange: list[tuple[str, list[Piece]]]) -> str:
    out = ["```text"]
    for index, (who, pieces) in enumerate(exchange):
        size = sum(len(piece.data) for piece in pieces)
        out += ([""] if index else []) + [f"{who}: {size} bytes" if pieces else who]
        at = 0
        for piece in pieces:
            if piece.heading:
                out.append(f"        {piece.says}")
                continue
            for line_index, line in enumerate(hex_of(piece.data)):
                says = piece.says if line_index == 0 else ""
                out.append(f"{at if line_index == 0 else '':>6}  {line:<47}  {says}".rstrip())
            at += len(piece.data)
    return "\n".join([*out, "```"])


def main() -> None:
    built = exchanges() | {"storage": storage()}
    more = {"others": others(), "channels": channels()}
    compare_files(files(built | more), "--write" in sys.argv)
    found = set()
    for page in PAGES:
        text = (HERE / page).read_text()

        def replaced(match: re.Match) -> str:
            found.add(match[1])
            return f"<!-- golden: {match[1]} -->\n{printed(built[match[1]])}\n<!-- end -->"

        new = re.sub(r"<!-- golden: (\w+) -->\n.*?<!-- end -->", replaced, text, flags=re.DOTALL)
        if "--write" in sys.argv:
            (HERE / page).write_text(new)
        else:
            assert new == text, f"{page}: its golden exchanges are not those of its tables"
    assert found == set(built), found
    check_stated_counts()
    print("tables and golden exchanges agree")


def check_stated_counts() -> None:
    """The numbers of records that the pages state fit the bounds of a message."""
    for name, most in [
        ("logs", 127),
        ("grants", 255),
        ("ping", 681),
        ("positions", 675),
        ("report", 127),
    ]:
        fixed, record = TABLES[name, "fixed part"].size, TABLES[name, "record"].size
        assert (CONTROL_BYTES_MAX - 16 - fixed) // record == most, (
            name,
            (CONTROL_BYTES_MAX - 16 - fixed) // record,
        )
    for name in ["fragments", "heartbeat"]:
        head = TABLES[name, "fixed part"].size + RECORDS_MAX * TABLES[name, "record"].size
        assert head + 1024 <= DATA_HEAD_MAX, (name, head)
    # A command has room for its settings, and a data message of the least grant for 2,000 entries.
    assert CONTROL_BYTES_MAX >= 16 + 48 + 64 * 128 + 1024
    assert MESSAGE_BYTES_MAX % 8 == 0
    assert MESSAGE_BYTES_MAX < 128 << 10


if __name__ == "__main__":
    main()
