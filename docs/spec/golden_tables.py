"""The tables of session.md, event-link.md and storage-link.md, and their messages: golden.py."""

import re
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
PAGES = ["session.md", "event-link.md", "storage-link.md"]
CAPTION = re.compile(
    r"^\*\*`(\w+)`(?: \(type (\d+)\))?: (fixed part|record|all|service part), (\d+) bytes"
)
ROW = re.compile(r"^\| (\d+) \| (\d+) \| (\S+) \| (\S+) \|(.*)\|(.*)\|$")
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "shape": 8, "u64x16": 128}
PACK = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "u64x16": "<16Q"}
MESSAGE_BYTES_MAX = 131_064  # what the recorder of the examples grants
CONTROL_BYTES_MAX, CONTROL_HEAD_MAX, DATA_HEAD_MAX = 16_384, 16_368, 114_688
RECORDS_MAX, PART_BYTES_MAX, TEXT_BYTES_MAX = 4_096, 1_024, 1_024
DATA_TYPES = {3, 32, 33, 34, 35, 48, *range(64, 70)}


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
        assert field_.size == expected, (
            f"{where}: {field_.name} has {field_.size} bytes, expected {expected}"
        )
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


def encode(field_: Field, value: object) -> bytes:
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


def shown(field_: Field, value: object) -> str:
    if field_.type == "reserved":
        return "reserved"
    if field_.type == "text":
        return f'{field_.name} "{value}"' if value else f"{field_.name}: empty"
    if field_.type in ("bytes", "u64x16"):
        if isinstance(value, tuple):
            used = [str(one) for one in value]
            while len(used) > 1 and used[-1] == "0":
                used.pop()
            return f"{field_.name} {', '.join(used)}" + (
                ", the others 0" if len(used) < len(value) else ""
            )
        return f"{field_.name}: none" if not any(value) else field_.name
    if value == 2**64 - 1:
        return f"{field_.name}: none"
    if isinstance(value, int) and field_.name in ("session", "marker"):
        return f"{field_.name} {value:#x}"
    return f"{field_.name} {value}"


def pieces_of(
    name: str, part: str, values: dict, shape: tuple[int, int, int] | None = None
) -> list[Piece]:
    """A part of a message, field by field. What is not named is 0 or empty."""
    table, values = TABLES[name, part], dict(values)
    pieces = []
    for field_ in table.fields:
        if field_.type == "shape":
            fixed, record, count = shape
            pieces.append(
                Piece(
                    struct.pack("<HHI", *shape),
                    f"fixed_bytes {fixed}, record_bytes {record}, record_count {count}",
                )
            )
        elif field_.type == "service":
            pieces += pieces_of(f"{name}_events", "service part", values.pop("service"))
        else:
            default = {"text": "", "bytes": bytes(field_.size), "u64x16": (0,) * 16}.get(
                field_.type, 0
            )
            value = default if field_.type == "reserved" else values.pop(field_.name, default)
            pieces.append(Piece(encode(field_, value), shown(field_, value)))
    assert not values, f"{name}, {part}: no fields {sorted(values)}"
    return pieces


def message(
    name: str,
    number: int,
    fixed: dict,
    records: list[dict] = (),
    text: str = "",
    body: list[Piece] = (),
    record_bytes: int | None = None,
    is_checked: bool = True,
) -> list[Piece]:
    """A message, checked unless it is to be damaged. `record_bytes` cuts its records off."""
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
    header = dict(
        marker=0x4CC7, type=table.type, head_bytes=head_bytes, body_bytes=body_bytes, number=number
    )
    pieces = [
        Piece(b"", f"message {number}: {name}", heading=True),
        *pieces_of("header", "all", header),
        *head,
        *body,
    ]
    if body_bytes % 8:
        pieces.append(Piece(bytes(-body_bytes % 8), "padding"))
    if is_checked:
        check_message(b"".join(piece.data for piece in pieces), number, name, fixed, records)
    return pieces


def read_general(data: bytes, number: int) -> tuple[int, int, int, int]:
    """Reads a message by the rules for all types; raises what is a framing fault."""
    marker, type_, head_bytes, body_bytes, got_number = struct.unpack_from("<HHIII", data)
    is_data = type_ in DATA_TYPES
    assert marker == 0x4CC7 and data[:2] == b"\xc7\x4c", "marker"
    assert got_number == number, "number"
    assert head_bytes % 8 == 0 and 8 <= head_bytes <= (
        DATA_HEAD_MAX if is_data else CONTROL_HEAD_MAX
    ), "length"
    assert is_data or body_bytes == 0, "length"
    total = 16 + head_bytes + body_bytes + -body_bytes % 8
    assert total == len(data) <= (MESSAGE_BYTES_MAX if is_data else CONTROL_BYTES_MAX), "length"
    fixed_bytes, record_bytes, count = struct.unpack_from("<HHI", data, 16)
    assert (
        fixed_bytes % 8 == record_bytes % 8 == 0
        and 8 <= fixed_bytes <= PART_BYTES_MAX >= record_bytes
    ), "shape"
    assert count <= RECORDS_MAX and (record_bytes == 0) == (count == 0), "shape"
    text_at = 16 + fixed_bytes + record_bytes * count
    assert text_at <= 16 + head_bytes, "shape"
    assert len(data[text_at : 16 + head_bytes].rstrip(b"\0")) <= TEXT_BYTES_MAX, "text"
    assert not any(data[16 + head_bytes + body_bytes :]), "padding is zero in what we send"
    if type_ == TABLES["fragments", "fixed part"].type:
        at = 16 + fixed_bytes + 8
        sizes = [
            struct.unpack_from("<I", data, at + index * record_bytes)[0] for index in range(count)
        ]
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
    # Each bit of marker, lengths, number and record count, and each truncation, is noticed. (Not
    # the last bits of a part's length: the next one then does not go on where it ends, or its sum
    # is another one.)
    is_part = name in ("part", "open", "column", "end")
    damaged = [data[:length] for length in range(len(data))]
    for at in [0, 1, *range(4, 8), *range(9 if is_part else 8, 16), *range(20, 24)]:
        damaged += [data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for bit in range(8)]
    for bad in damaged:
        try:
            read_general(bad, number)
        except (AssertionError, struct.error):
            continue
        raise SystemExit(f"{name}: damage was not noticed: {bad.hex()}")


def read_back(data: bytes, at: int, table: Table, size: int, values: dict) -> None:
    for field_ in table.fields:
        raw = data[at + field_.offset : at + field_.offset + field_.size]
        if field_.offset >= size:
            continue
        if field_.type == "service":
            read_back(
                data,
                at + field_.offset,
                TABLES[f"{table.name}_events", "service part"],
                field_.size,
                values["service"],
            )
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
                assert got == (value if isinstance(value, tuple) else (value,)), (
                    field_,
                    got,
                    value,
                )


def preamble(connection: int, versions: tuple[int, int] = (1, 1)) -> list[Piece]:
    low, high = versions
    values = dict(
        magic=b"\x89CTSL\r\n\x1a",
        session_min=low,
        session_max=high,
        service=1,
        service_min=low,
        service_max=high,
        connection=connection,
    )
    return [Piece(b"", "preamble", heading=True), *pieces_of("preamble", "all", values)]
