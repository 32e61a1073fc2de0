#!/usr/bin/env python3
"""Builds the golden exchanges of session.md and event-link.md from the tables on these pages.

    python3 golden.py            check the tables, build the exchanges, compare pages and files
    python3 golden.py --write    write the exchanges into the pages, and the files

The files: all messages as hex, for the tests of all who write or read them (crates/format/wire/tests/golden), and
as bytes, the seeds of the fuzz targets (fuzz/corpus). A test runs this program (crates/top/python/tests/test_spec.py).

No field offset or size stands in this program: they are read from the tables. What it checks of the tables:
offsets follow each other, sizes are those of the types and of the caption, parts are multiples of 8 bytes.
What it checks of the packets, with a reader that knows the general rules of section 3 alone: marker, number,
lengths, shape, bounds, zeros in reserved bytes and padding, and that the values come back.
"""

import re
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
PAGES = ["session.md", "event-link.md"]
REPOSITORY = HERE.parent.parent
GOLDEN = REPOSITORY / "crates/format/wire/tests/golden"
CORPUS = REPOSITORY / "fuzz/corpus"
CAPTION = re.compile(r"^\*\*`(\w+)`(?: \(type (\d+)\))?: (fixed part|record|all|service part), (\d+) bytes")
ROW = re.compile(r"^\| (\d+) \| (\d+) \| (\S+) \| (\S+) \|(.*)\|(.*)\|$")
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "shape": 8, "u64x16": 128}
PACK = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "u64x16": "<16Q"}
MESSAGE_BYTES_MAX = 131_064  # what the recorder of the examples grants
CONTROL_BYTES_MAX, CONTROL_HEAD_MAX, DATA_HEAD_MAX = 16_384, 16_368, 114_688
RECORDS_MAX, PART_BYTES_MAX, TEXT_BYTES_MAX = 4_096, 1_024, 1_024
DATA_TYPES = {3, 32, 33, 34, 35, 48}


@dataclass
class Field:
    offset: int
    size: int
    type: str
    name: str


@dataclass
class Table:
    name: str
    part: str
    size: int
    type: int | None
    fields: list[Field] = field(default_factory=list)


def read_tables() -> dict[tuple[str, str], Table]:
    tables: dict[tuple[str, str], Table] = {}
    for page in PAGES:
        table = None
        for number, line in enumerate((HERE / page).read_text().splitlines(), 1):
            if caption := CAPTION.match(line):
                name, type_, part, size = caption.groups()
                table = Table(name, part, int(size), int(type_) if type_ else None)
                assert (name, part) not in tables, f"{page}:{number}: {name}, {part} is there twice"
                tables[name, part] = table
            elif table and (row := ROW.match(line)):
                offset, size, type_, name = row.groups()[:4]
                table.fields.append(Field(int(offset), int(size), type_, name))
            elif table and table.fields and not line.startswith("|"):
                table = None
    for table in tables.values():
        check_table(table)
    return tables


def check_table(table: Table) -> None:
    where, at, names = f"{table.name}, {table.part}", 0, []
    for field_ in table.fields:
        assert field_.offset == at, f"{where}: {field_.name} is at {field_.offset}, expected {at}"
        expected = SIZES.get(field_.type, field_.size)
        assert field_.size == expected, f"{where}: {field_.name} has {field_.size} bytes, expected {expected}"
        if field_.type in ("u16", "u32", "u64"):
            assert at % field_.size == 0, f"{where}: {field_.name} is not aligned"
        assert (field_.type == "reserved") == (field_.name == "-"), f"{where}: {field_}"
        if field_.name != "-":
            names.append(field_.name)
        at += field_.size
    assert at == table.size, f"{where}: the rows have {at} bytes, the caption says {table.size}"
    assert at % 8 == 0, f"{where}: {at} is no multiple of 8"
    assert len(names) == len(set(names)), f"{where}: a name is there twice"
    if table.part == "fixed part":
        assert table.fields[0].type == "shape", f"{where}: a fixed part begins with its shape"
        assert at <= PART_BYTES_MAX
    print(f"  {where:34} {table.size:4} bytes, {len(table.fields):2} fields", file=sys.stderr)


TABLES = read_tables()
TABLES["command", "record"] = TABLES["report", "record"]  # "records as in `report`"


@dataclass
class Piece:
    """Bytes with what they say."""

    data: bytes
    says: str
    heading: bool = False


def encode(field_: Field, value) -> bytes:
    if field_.type == "reserved":
        return bytes(field_.size)
    if field_.type == "text":
        data = value.encode()
        assert len(data) <= field_.size, value
        return data.ljust(field_.size, b"\0")
    if field_.type in ("bytes", "service"):
        assert len(value) == field_.size, (field_, value)
        return value
    values = value if isinstance(value, tuple) else (value,)
    return struct.pack(PACK[field_.type], *values)


def shown(field_: Field, value) -> str:
    if field_.type == "reserved":
        return "reserved"
    if field_.type == "text":
        return f'{field_.name} "{value}"' if value else f"{field_.name}: empty"
    if field_.type in ("bytes", "u64x16"):
        if isinstance(value, tuple):
            used = [str(one) for one in value]
            while len(used) > 1 and used[-1] == "0":
                used.pop()
            return f"{field_.name} {', '.join(used)}" + (", the others 0" if len(used) < len(value) else "")
        return f"{field_.name}: none" if not any(value) else field_.name
    if value == 2**64 - 1:
        return f"{field_.name}: none"
    if isinstance(value, int) and field_.name in ("session", "marker"):
        return f"{field_.name} {value:#x}"
    return f"{field_.name} {value}"


def pieces_of(name: str, part: str, values: dict, shape: tuple[int, int, int] | None = None) -> list[Piece]:
    """A part of a message, field by field. What is not named is 0 or empty."""
    table, values = TABLES[name, part], dict(values)
    pieces = []
    for field_ in table.fields:
        if field_.type == "shape":
            fixed, record, count = shape
            pieces.append(Piece(struct.pack("<HHI", *shape), f"fixed_bytes {fixed}, record_bytes {record}, record_count {count}"))
        elif field_.type == "service":
            pieces += pieces_of(f"{name}_events", "service part", values.pop("service"))
        else:
            default = {"text": "", "bytes": bytes(field_.size), "u64x16": (0,) * 16}.get(field_.type, 0)
            value = default if field_.type == "reserved" else values.pop(field_.name, default)
            pieces.append(Piece(encode(field_, value), shown(field_, value)))
    assert not values, f"{name}, {part}: no fields {sorted(values)}"
    return pieces


def message(name: str, number: int, fixed: dict, records: list[dict] = (), text: str = "", body: list[Piece] = (),
            record_bytes: int | None = None, is_checked: bool = True) -> list[Piece]:
    """A message, checked unless it is to be damaged. `record_bytes` cuts records off where a table says that they may end earlier."""
    table = TABLES[name, "fixed part"]
    record_bytes = record_bytes or (TABLES[name, "record"].size if records else 0)
    shape = (table.size, record_bytes, len(records))
    head = pieces_of(name, "fixed part", fixed, shape)
    for index, record in enumerate(records):
        pieces, size = pieces_of(name, "record", record), 0
        head.append(Piece(b"", f"record {index}", heading=True))
        for piece in pieces:
            if size < record_bytes:
                head.append(piece)
            else:
                assert not any(piece.data), "what is cut off is zero"
            size += len(piece.data)
    if text:
        data = text.encode()
        assert len(data) <= TEXT_BYTES_MAX
        head.append(Piece(data + bytes(-len(data) % 8), f'text "{text}"'))
    head_bytes = sum(len(piece.data) for piece in head)
    body_bytes = sum(len(piece.data) for piece in body)
    header = dict(marker=0x4CC7, type=table.type, head_bytes=head_bytes, body_bytes=body_bytes, number=number)
    pieces = [Piece(b"", f"message {number}: {name}", heading=True), *pieces_of("header", "all", header), *head, *body]
    if body_bytes % 8:
        pieces.append(Piece(bytes(-body_bytes % 8), "padding"))
    if is_checked:
        check_message(b"".join(piece.data for piece in pieces), number, name, fixed, records)
    return pieces


def read_general(data: bytes, number: int) -> tuple[int, int, int, int]:
    """Reads a message by the rules for all types. Returns its parts; raises what a receiver calls a framing fault."""
    marker, type_, head_bytes, body_bytes, got_number = struct.unpack_from("<HHIII", data)
    is_data = type_ in DATA_TYPES
    assert marker == 0x4CC7 and data[:2] == b"\xc7\x4c", "marker"
    assert got_number == number, "number"
    assert head_bytes % 8 == 0 and 8 <= head_bytes <= (DATA_HEAD_MAX if is_data else CONTROL_HEAD_MAX), "length"
    assert is_data or body_bytes == 0, "length"
    total = 16 + head_bytes + body_bytes + -body_bytes % 8
    assert total == len(data) <= (MESSAGE_BYTES_MAX if is_data else CONTROL_BYTES_MAX), "length"
    fixed_bytes, record_bytes, count = struct.unpack_from("<HHI", data, 16)
    assert fixed_bytes % 8 == record_bytes % 8 == 0 and 8 <= fixed_bytes <= PART_BYTES_MAX >= record_bytes, "shape"
    assert count <= RECORDS_MAX and (record_bytes == 0) == (count == 0), "shape"
    text_at = 16 + fixed_bytes + record_bytes * count
    assert text_at <= 16 + head_bytes, "shape"
    assert len(data[text_at:16 + head_bytes].rstrip(b"\0")) <= TEXT_BYTES_MAX, "text"
    assert not any(data[16 + head_bytes + body_bytes:]), "padding is zero in what we send"
    if type_ == TABLES["fragments", "fixed part"].type:
        at = 16 + fixed_bytes + 8
        sizes = [struct.unpack_from("<I", data, at + index * record_bytes)[0] for index in range(count)]
        assert sum(sizes) == body_bytes, "sum"
    return type_, fixed_bytes, record_bytes, count


def check_message(data: bytes, number: int, name: str, fixed: dict, records: list[dict]) -> None:
    """Reads a message by the general rules, and its fields by the tables; then damages it."""
    type_, fixed_bytes, record_bytes, count = read_general(data, number)
    assert (type_, count) == (TABLES[name, "fixed part"].type, len(records))
    read_back(data, 16, TABLES[name, "fixed part"], fixed_bytes, fixed)
    for index, record in enumerate(records):
        at = 16 + fixed_bytes + index * record_bytes
        read_back(data, at, TABLES[name, "record"], record_bytes, record)
    # Each bit of marker, lengths, number and record count, and each truncation, is noticed. (A part may be one with
    # less of its padding in its body: then the next one does not go on where it ends.)
    damaged = [data[:length] for length in range(len(data))]
    for at in [0, 1, *range(4, 8), *range(9 if name == "part" else 8, 16), *range(20, 24)]:
        damaged += [data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:] for bit in range(8)]
    for bad in damaged:
        try:
            read_general(bad, number)
        except (AssertionError, struct.error):
            continue
        raise SystemExit(f"{name}: damage was not noticed: {bad.hex()}")


def read_back(data: bytes, at: int, table: Table, size: int, values: dict) -> None:
    for field_ in table.fields:
        raw = data[at + field_.offset:at + field_.offset + field_.size]
        if field_.offset >= size:
            continue
        if field_.type == "service":
            read_back(data, at + field_.offset, TABLES[f"{table.name}_events", "service part"], field_.size, values["service"])
        elif field_.type == "reserved":
            assert not any(raw), field_
        elif field_.name in values:
            value = values[field_.name]
            if field_.type == "text":
                assert raw.rstrip(b"\0").decode() == value
            elif field_.type == "bytes":
                assert raw == value
            else:
                got = struct.unpack(PACK[field_.type], raw)
                assert got == (value if isinstance(value, tuple) else (value,)), (field_, got, value)


def preamble(connection: int, versions: tuple[int, int] = (1, 1)) -> list[Piece]:
    low, high = versions
    values = dict(magic=b"\x89CTSL\r\n\x1a", session_min=low, session_max=high, service=1, service_min=low,
                  service_max=high, connection=connection)
    return [Piece(b"", "preamble", heading=True), *pieces_of("preamble", "all", values)]


# The exchanges. ---------------------------------------------------------------------------------

SESSION = 0x5EED_0000_0000_0007
RUN = bytes(range(0x10, 0x20))
TICKETS = [bytes(range(0xA0, 0xB0)), bytes(range(0xB0, 0xC0))]
CAMERA = dict(fragment_bytes_max=1 << 20, groups=0, flags=2, key_kind=1, key_bits=64, presence=0, dtype=2, begin=2**64 - 1)


def hello(number: int, run: bytes, first: int, made: int, token: str = "", command: int = 0) -> list[Piece]:
    fixed = dict(session=SESSION, run=run, buffer_bytes=64 << 20, skew_bytes=0, buffer_ms=640, log_count=1,
                 data_connections=1, release=1, flags=1, command=command, name="camera", program="example 1.0")
    service = CAMERA if made == 0 else CAMERA | dict(begin=0)
    log = dict(log=0, connection=0, first=first, made=made, name="", service=service)
    return message("hello", number, fixed, text=token) + message("logs", number + 1, {}, [log])


def welcome(number: int, ticket: bytes, epoch: int, next_: int, durable: int, command: int = 0) -> list[Piece]:
    fixed = dict(session=SESSION, run=RUN, ticket=ticket, run_number=42, stream=0, epoch=epoch, state=2, command=command,
                 ping_ms=500, silence_ms=2500, skew_bytes=0, message_bytes_max=MESSAGE_BYTES_MAX, log_count=1)
    grant = dict(log=0, answer=1, next=next_, durable=durable, source=3, service=dict(fragment_bytes_max=1 << 20))
    return message("welcome", number, fixed) + message("grants", number + 1, {}, [grant])


def fragments(number: int, sequence: int, entries: list[tuple[int, bytes, int, int]]) -> list[Piece]:
    records = [dict(key=key, bytes=len(data), tag=tag, flags=flags) for key, data, tag, flags in entries]
    body = [Piece(data, f'"{data.decode()}"') for _, data, _, _ in entries if data]
    return message("fragments", number, dict(log=0, sequence=sequence), records, body=body, record_bytes=16)


FIRST_THREE = [(17, b"hello", 0, 0), (18, b"", 0, 0), (20, b"abcd", 2, 1)]


def exchanges() -> dict[str, list[tuple[str, list[Piece]]]]:
    attach = dict(session=SESSION, ticket=TICKETS[1], connection=0)
    again = [*preamble(2), *message("attach", 0, attach), *fragments(1, 1002, [(20, b"abcd", 2, 1), (21, b"xyz", 0, 0)])]
    received = (sum(len(piece.data) for piece in again),) + (0,) * 15
    return {
        "hello": [
            ("sender, control", preamble(1) + hello(0, bytes(16), 0, 0, token="catchment_0123abcd")),
            ("recorder, control", preamble(1) + welcome(0, TICKETS[0], 0, 0, 0)),
        ],
        "fragments": [("sender, data 0", fragments(7, 1000, FIRST_THREE))],
        "resume": [
            ("sender, control, first attempt", preamble(1) + hello(0, RUN, 1000, 1004, command=2)),
            ("recorder, control", preamble(1) + message("bye", 0, dict(reason=7, retry_ms=200), text="repairing run 42")),
            ("sender, control, second attempt: the same bytes", []),
            ("recorder, control", preamble(1) + welcome(0, TICKETS[1], 1, 1002, 1002, command=2)),
            ("sender, data 0", again),
            ("sender, control", message("ping", 2, dict(cookie=1), [dict(log=0, flags=2, made=1004, held_bytes=7)])),
            ("recorder, control", message("positions", 2, dict(cookie=1, epoch=1, received=received),
                                          [dict(log=0, taken=1004, durable=1002)])),
            ("recorder, control, when the frame is on disk",
             message("positions", 3, dict(epoch=1, received=received), [dict(log=0, taken=1004, durable=1004)])),
        ],
    }


def others() -> list[tuple[str, list[Piece]]]:
    """Messages that no exchange on a page has, so that each type is there, at its shortest and with all it may have."""
    run = dict(run=RUN, run_number=42)
    gain = dict(kind=2, type=3, flags=2, log=0xFFFFFFFF, value=number(5), min=number(1), max=number(9), unit="dB", name="gain")
    note = dict(kind=2, type=5, flags=2, log=0, name="note")
    rate = dict(kind=1, type=3, log=0, value=number(12_345), unit="1/s", name="triggers")
    hot = dict(kind=3, type=5, flags=1, log=0, name="hot")
    groups = [dict(key=5, bytes=2, tag=1, groups=0b101), dict(key=6, bytes=0, tag=1, groups=0b001)]
    part = dict(log=1, tag=2, flags=2, sequence=12, key=7, groups=2, fragment_bytes=4_100)
    mark = dict(log=0, sequence=1_004, count=1)
    begin = mark | dict(kind=1, key=1, flags=1, run_number=42)
    end = mark | dict(kind=2, sequence=1_006, key_last=30, flags=1, run_number=42)
    abandoned = mark | dict(kind=3, reason=1, sequence=1_007, count=3, key=31, key_last=33, flags=1)
    idle = dict(log=0, flags=3, sequence=1_012, low_water=40)
    return [
        ("recorder, control", message("command", 4, run | dict(number=3, kind=2))
         + message("command", 5, run | dict(number=4, kind=7), [gain, note], text="dark")),
        ("sender, control", message("answer", 3, dict(number=3, answer=2), text="no trigger: hv is off")
         + message("answer", 4, dict(number=4, answer=4)) + message("report", 5, {}, [rate, gain])
         + message("report", 6, {}, [hot], text="61 \u00b0C") + message("ping", 7, dict(cookie=2))
         + message("bye", 8, dict(reason=0, detail=3))),
        ("recorder, control", message("positions", 6, dict(cookie=2, epoch=1, unread=1))),
        ("recorder, control, of a later minor version", later(7)),
        ("sender, data 0", message("heartbeat", 2, {})
         + message("heartbeat", 3, {}, [idle, idle | dict(log=1, flags=0, sequence=12, low_water=0)])
         + message("fragments", 4, dict(log=0, sequence=1_002), groups, body=[Piece(b"xy", '"xy"')])
         + message("part", 5, part, body=[Piece(bytes(range(256)) * 16, "4,096 bytes")])
         + message("part", 6, part | dict(position=4_096), body=[Piece(b"last", '"last"')])
         + message("mark", 7, begin) + message("mark", 8, end)
         + message("mark", 9, abandoned, text="the ring was full")
         + message("mark", 10, mark | dict(kind=4, sequence=1_010, flags=1))
         + message("mark", 11, mark | dict(kind=5, sequence=1_011), text="gain=5")),
    ]


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


def later(number_: int) -> list[Piece]:
    """A ping with more than version 1 has in fixed part and records, and a type that version 1 skips."""
    head = struct.pack("<HHIQQ", 24, 32, 1, 3, 0x11) + struct.pack("<IIQQQ", 0, 1, 1_004, 7, 0x22)
    ping = struct.pack("<HHIII", 0x4CC7, 4, len(head), 0, number_) + head
    head = struct.pack("<HHIQ", 16, 0, 0, 0x33) + b"text\0\0\0\0"
    skipped = struct.pack("<HHIII", 0x4CC7, 0x8014, len(head), 0, number_ + 1) + head
    return [Piece(b"", f"message {number_}: ping", heading=True), Piece(ping, "longer than known"),
            Piece(b"", f"message {number_ + 1}: skipped", heading=True), Piece(skipped, "unknown, with bit 15")]


def malformed() -> list[tuple[str, str, str, bytes]]:
    """Bytes that are no message: connection, fault, what is wrong, bytes. Each has number 0."""

    def sent(name: str, fixed: dict, records: list[dict] = (), patch: list[tuple[int, str, int]] = (), **more) -> bytes:
        data = bytearray(b"".join(piece.data for piece in message(name, 0, fixed, records, is_checked=False, **more)))
        for at, form, value in patch:
            struct.pack_into("<" + form, data, at, value)
        return bytes(data)

    def field_at(name: str, part: str, field_: str, base: int = 16) -> int:
        return base + next(one.offset for one in TABLES[name, part].fields if one.name == field_)

    ping = lambda *patch: sent("ping", {}, [dict(log=0)], patch)
    bye = lambda *patch, **more: sent("bye", {}, (), patch, **more)
    hello = lambda name, form, value: sent("hello", dict(session=1, log_count=1, data_connections=1, release=1, name="a"), (),
                                           [(field_at("hello", "fixed part", name), form, value)])
    welcome = lambda name, form, value: sent(
        "welcome", dict(session=1, ping_ms=500, silence_ms=2500, message_bytes_max=131_064, log_count=1), (),
        [(field_at("welcome", "fixed part", name), form, value)])
    record = lambda name, values, field_, form, value: sent(
        name, {}, [values], [(field_at(name, "record", field_, 16 + TABLES[name, "fixed part"].size), form, value)])
    grant = dict(log=0, answer=1, next=8, durable=8, service=dict(fragment_bytes_max=1))
    log = dict(log=0, first=8, made=8, service=CAMERA)
    data = lambda *patch, body=b"abc": sent("fragments", {}, [dict(key=1, bytes=3)], patch, body=[Piece(body, "")], record_bytes=16)
    part = lambda *patch, body=b"abc": sent("part", dict(fragment_bytes=8), (), patch, body=[Piece(body, "")])
    mark = lambda **values: sent("mark", dict(kind=3, count=1) | values)
    return [
        ("control", "marker", "marker 0", ping((0, "H", 0))),
        ("control", "marker", "marker in the other order", ping((0, "H", 0xC74C))),
        ("control", "number", "number 1", ping((12, "I", 1))),
        ("control", "number", "number all ones", ping((12, "I", 0xFFFFFFFF))),
        ("control", "type", "type 0", ping((2, "H", 0))),
        ("control", "type", "type 12: of no version", ping((2, "H", 12))),
        ("control", "type", "type 128: of no service", ping((2, "H", 128))),
        ("data", "type", "type 48: of another service", data((2, "H", 48))),
        ("control", "connection", "type 3 on control", ping((2, "H", 3))),
        ("control", "connection", "type 32 on control", ping((2, "H", 32))),
        ("data", "connection", "type 4 on data", data((2, "H", 4))),
        ("control", "length", "head of 0 bytes", ping((4, "I", 0))),
        ("control", "length", "head of 44 bytes", ping((4, "I", 44))),
        ("control", "length", "head of 16,376 bytes", ping((4, "I", 16_376))),
        ("control", "length", "head all ones", ping((4, "I", 0xFFFFFFF8))),
        ("control", "length", "body on control", ping((8, "I", 1))),
        ("data", "length", "head of 114,696 bytes", data((4, "I", 114_696))),
        ("data", "length", "body all ones", data((8, "I", 0xFFFFFFFF))),
        ("data", "length", "message of 131,072 bytes", data((8, "I", 131_072 - 16 - 40))),
        ("data", "length", "body of a mark", sent("mark", dict(kind=1, count=1), (), [(8, "I", 8)])),
        ("data", "length", "part without bytes", part((8, "I", 0))),
        ("control", "shape", "fixed part of 8 bytes", ping((16, "H", 8))),
        ("control", "shape", "fixed part of 20 bytes", ping((16, "H", 20))),
        ("control", "shape", "fixed part of 1,032 bytes", ping((16, "H", 1_032))),
        ("control", "shape", "record of 16 bytes", ping((18, "H", 16))),
        ("control", "shape", "record of 28 bytes", ping((18, "H", 28))),
        ("control", "shape", "record of 1,032 bytes", ping((18, "H", 1_032))),
        ("control", "shape", "record of 0 bytes", ping((18, "H", 0))),
        ("control", "shape", "no record of 24 bytes", ping((20, "I", 0))),
        ("control", "shape", "two records in the place of one", ping((20, "I", 2))),
        ("control", "shape", "4,097 records", ping((20, "I", 4_097))),
        ("control", "shape", "records all ones", ping((20, "I", 0xFFFFFFFF))),
        ("control", "shape", "record of a type without", bye((18, "H", 8), (20, "I", 1), text="12345678")),
        ("control", "shape", "65 settings", sent("command", dict(number=1), [dict(kind=2, log=at) for at in range(65)])),
        ("data", "shape", "no fragments", sent("fragments", {})),
        ("data", "shape", "record of 8 bytes", data((18, "H", 8))),
        ("control", "text", "text of 1,025 bytes", bye((4, "I", 24 + 1_032), text="a" * 1_024) + b"a".ljust(8, b"\0")),
        ("control", "text", "text with a zero in it", bye((41, "B", 0), text="abcd")),
        ("control", "text", "text that is no UTF-8", bye((40, "B", 0xFF), text="abcd")),
        ("control", "text", "name with a zero in it", hello("name", "H", 0x6100)),
        ("control", "text", "name that is no UTF-8", hello("name", "B", 0xC3)),
        ("control", "bound", "session 0", hello("session", "Q", 0)),
        ("control", "bound", "buffer of 2^40 + 1 bytes", hello("buffer_bytes", "Q", (1 << 40) + 1)),
        ("control", "bound", "skew of 2^30 + 1 bytes", hello("skew_bytes", "Q", (1 << 30) + 1)),
        ("control", "bound", "no logs", hello("log_count", "I", 0)),
        ("control", "bound", "no data connections", hello("data_connections", "H", 0)),
        ("control", "kind", "release 0", hello("release", "B", 0)),
        ("control", "kind", "release 3", hello("release", "B", 3)),
        ("control", "kind", "state 4", welcome("state", "H", 4)),
        ("control", "bound", "ping of 99 ms", welcome("ping_ms", "I", 99)),
        ("control", "bound", "silence of 1,499 ms", welcome("silence_ms", "I", 1_499)),
        ("control", "bound", "silence of 60,001 ms", welcome("silence_ms", "I", 60_001)),
        ("control", "bound", "messages of 65,528 bytes", welcome("message_bytes_max", "I", 65_528)),
        ("control", "bound", "messages of 65,540 bytes", welcome("message_bytes_max", "I", 65_540)),
        ("control", "bound", "messages of 4,325,384 bytes", welcome("message_bytes_max", "I", 4_325_384)),
        ("control", "bound", "first above made", record("logs", log, "first", "Q", 9)),
        ("control", "bound", "made above 2^63", record("logs", log, "made", "Q", (1 << 63) + 1)),
        ("control", "kind", "answer 0 to a log", record("grants", grant, "answer", "H", 0)),
        ("control", "kind", "answer 5 to a log", record("grants", grant, "answer", "H", 5)),
        ("control", "bound", "durable above next", record("grants", grant, "durable", "Q", 9)),
        ("control", "bound", "durable above taken", record("positions", dict(taken=8, durable=8), "durable", "Q", 9)),
        ("control", "bound", "retry after 60,001 ms", bye((16 + 12, "I", 60_001))),
        ("control", "bound", "command 0", sent("command", dict(number=0))),
        ("control", "kind", "answer 5 to a command", sent("answer", dict(number=1, answer=5))),
        ("data", "sum", "one byte less than the body", data((48, "I", 2))),
        ("data", "sum", "one byte more than the body", data((48, "I", 4))),
        ("data", "sum", "bytes all ones", data((48, "I", 0xFFFFFFFF))),
        ("data", "bound", "fragment at sequence 2^63", data((32, "Q", 1 << 63))),
        ("data", "part", "part beyond its fragment", part((56, "Q", 6))),
        ("data", "part", "part at all ones", part((56, "Q", (1 << 64) - 1))),
        ("data", "bound", "fragment of 1,920 MiB and 1 byte", part((64, "Q", (1_920 << 20) + 1))),
        ("data", "kind", "mark of kind 0", mark(kind=0)),
        ("data", "kind", "mark of kind 6", mark(kind=6)),
        ("data", "bound", "mark of count 0", mark(count=0)),
        ("data", "bound", "mark begin of count 2", mark(kind=1, count=2)),
        ("data", "bound", "range of 2^40 + 1", mark(count=(1 << 40) + 1)),
        ("data", "bound", "range beyond 2^63", mark(count=2, sequence=(1 << 63) - 1)),
        ("data", "bound", "heartbeat above 2^63", sent("heartbeat", {}, [dict(sequence=(1 << 63) + 1)])),
    ]


# Files. -----------------------------------------------------------------------------------------

def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def hex_lines(data: bytes) -> list[str]:
    return [data[at:at + 32].hex() for at in range(0, len(data), 32)]


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
        target = "event_message" if connection == "data" else "session_message"
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
    assert there == set(made), f"golden files: {sorted(map(str, there ^ set(made)))}; golden.py --write makes them"
    for path, data in made.items():
        assert path.read_bytes() == data, f"{path} is not what the tables say; golden.py --write makes it"


# Printing. --------------------------------------------------------------------------------------

def hex_of(data: bytes) -> list[str]:
    """Lines of at most 16 bytes; a tail of 8 zeros or more is counted."""
    body = data.rstrip(b"\0")
    zeros = len(data) - len(body)
    if zeros < 8 or len(data) <= 8:
        body, zeros = data, 0
    lines = [body[at:at + 16].hex(" ").upper() for at in range(0, len(body), 16)]
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
    return "\n".join(out + ["```"])


def main() -> None:
    built = exchanges()
    compare_files(files(built | {"others": others()}), "--write" in sys.argv)
    found = set()
    for page in PAGES:
        text = (HERE / page).read_text()

        def replaced(match: re.Match) -> str:
            found.add(match[1])
            return f"<!-- golden: {match[1]} -->\n{printed(built[match[1]])}\n<!-- end -->"

        new = re.sub(r"<!-- golden: (\w+) -->\n.*?<!-- end -->", replaced, text, flags=re.S)
        if "--write" in sys.argv:
            (HERE / page).write_text(new)
        else:
            assert new == text, f"{page}: its golden exchanges are not those of its tables"
    assert found == set(built), found
    check_stated_counts()
    print("tables and golden exchanges agree")


def check_stated_counts() -> None:
    """The numbers of records that the pages state fit the bounds of a message."""
    for name, most in [("logs", 127), ("grants", 255), ("ping", 681), ("positions", 675), ("report", 127)]:
        fixed, record = TABLES[name, "fixed part"].size, TABLES[name, "record"].size
        assert (CONTROL_BYTES_MAX - 16 - fixed) // record == most, (name, (CONTROL_BYTES_MAX - 16 - fixed) // record)
    for name in ["fragments", "heartbeat"]:
        head = TABLES[name, "fixed part"].size + RECORDS_MAX * TABLES[name, "record"].size
        assert head + 1024 <= DATA_HEAD_MAX, (name, head)
    # A command has room for its settings, and a data message of the least grant for 2,000 entries.
    assert 16 + 48 + 64 * 128 + 1024 <= CONTROL_BYTES_MAX
    assert 65_536 % 8 == MESSAGE_BYTES_MAX % 8 == 4_325_376 % 8 == 0 and MESSAGE_BYTES_MAX < 128 << 10
    assert 4_325_376 == (4 << 20) + (128 << 10)


if __name__ == "__main__":
    main()
