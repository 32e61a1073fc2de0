"""Malformed messages: good ones in which a value is overwritten; see golden.py."""

import struct
from collections.abc import Sequence

from golden_messages import CAMERA
from golden_tables import TABLES, Piece, message

# An alarm.
VALUE = dict(kind=3, type=5, flags=1, log=0xFFFFFFFF, name="hot")

# Where, how and what is written over a message.
Patch = tuple[int, str, int]


def malformed() -> list[tuple[str, str, str, bytes]]:
    """Bytes that are no message: connection, fault, what is wrong, bytes. Each has number 0."""
    grant = dict(log=0, answer=1, next=8, durable=8, service=dict(fragment_bytes_max=1))
    log = dict(log=0, first=8, made=8, service=CAMERA)
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
        ("channels", "type", "type 32: of events", samples(bytes(48), (2, "H", 32))),
        ("channels", "shape", "fixed part of 16 bytes", samples(bytes(48), (16, "H", 16))),
        ("channels", "length", "body of all ones", samples(b"", (8, "I", 0xFFFFFFFF))),
        ("channels", "bound", "packet at sequence 2^63", samples(b"CTLK", (32, "Q", 1 << 63))),
        ("storage", "type", "type 48: of channels", stored("alive", {}, (2, "H", 48))),
        ("storage", "shape", "fixed part of 104 bytes", stored("frame", {}, (16, "H", 104))),
        ("storage", "shape", "sign of life with a record", stored("alive", {}, (20, "I", 1))),
        ("storage", "length", "body of a sign of life", stored("alive", {}, body=b"12345678")),
        ("storage", "bound", "no header", stored("open", {}, body=b"a")),
        ("storage", "length", "header without bytes", stored("open", dict(header_bytes=1))),
        (
            "storage",
            "bound",
            "part behind its header",
            stored("open", dict(header_bytes=8, offset=8), body=b"a"),
        ),
        (
            "storage",
            "bound",
            "part over the end of its header",
            stored("open", dict(header_bytes=8, offset=4), body=b"12345"),
        ),
        ("storage", "bound", "frame that takes no number", stored("frame", {})),
        (
            "storage",
            "bound",
            "frame over the end of sequences",
            stored("frame", dict(sequence=2**63, numbers=1)),
        ),
        (
            "storage",
            "bound",
            "frame of more than 64 GiB",
            stored("frame", dict(numbers=1, bytes_max=2**36 + 1)),
        ),
        (
            "storage",
            "bound",
            "frame of more columns than a schema has",
            stored("frame", dict(numbers=1, columns_max=2**20 + 1)),
        ),
        (
            "storage",
            "bound",
            "column of 2 GiB",
            stored("column", dict(stored_bytes=0x7E000001), body=b"a"),
        ),
        (
            "storage",
            "bound",
            "part behind its column",
            stored("column", dict(stored_bytes=8, offset=9), body=b"a"),
        ),
        (
            "storage",
            "bound",
            "part over the end of its column",
            stored("column", dict(stored_bytes=8, offset=4), body=b"12345"),
        ),
        ("storage", "bound", "part without bytes", stored("column", dict(stored_bytes=8))),
        ("storage", "bound", "half a record", stored("end", {}, body=b"12345678")),
        ("storage", "bound", "end at sequence 2^63", stored("close", dict(sequence=2**63))),
        (
            "storage control",
            "bound",
            "part behind what a node has",
            sent("left", dict(bytes=31, offset=32), [dict(bytes=bytes(32))]),
        ),
        (
            "storage control",
            "bound",
            "128 MiB and a byte of it",
            sent("left", dict(bytes=2**27 + 1)),
        ),
        ("storage control", "bound", "an unknown flag of it", sent("left", dict(flags=2))),
        ("control", "length", "head of 0 bytes", ping((4, "I", 0))),
        ("control", "length", "head of 44 bytes", ping((4, "I", 44))),
        ("control", "length", "head of 16,376 bytes", ping((4, "I", 16_376))),
        ("control", "length", "head all ones", ping((4, "I", 0xFFFFFFF8))),
        ("control", "length", "body on control", ping((8, "I", 1))),
        ("data", "length", "head of 114,696 bytes", data((4, "I", 114_696))),
        ("data", "length", "body all ones", data((8, "I", 0xFFFFFFFF))),
        ("data", "length", "message of 131,072 bytes", data((8, "I", 131_072 - 16 - 40))),
        (
            "data",
            "length",
            "body of a mark",
            sent("mark", dict(kind=1, count=1), (), [(8, "I", 8)]),
        ),
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
        (
            "control",
            "shape",
            "record of a type without",
            bye((18, "H", 8), (20, "I", 1), text="12345678"),
        ),
        (
            "control",
            "shape",
            "65 settings",
            sent("command", dict(number=1), [dict(kind=2, log=at) for at in range(65)]),
        ),
        ("data", "shape", "no fragments", sent("fragments", {})),
        ("data", "shape", "record of 8 bytes", data((18, "H", 8))),
        (
            "control",
            "text",
            "text of 1,025 bytes",
            bye((4, "I", 24 + 1_032), text="a" * 1_024) + b"a".ljust(8, b"\0"),
        ),
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
        (
            "control",
            "bound",
            "messages of 4,325,384 bytes",
            welcome("message_bytes_max", "I", 4_325_384),
        ),
        ("control", "bound", "first above made", record("logs", log, "first", "Q", 9)),
        ("control", "bound", "made above 2^63", record("logs", log, "made", "Q", (1 << 63) + 1)),
        ("control", "kind", "answer 0 to a log", record("grants", grant, "answer", "H", 0)),
        ("control", "kind", "answer 5 to a log", record("grants", grant, "answer", "H", 5)),
        ("control", "bound", "durable above next", record("grants", grant, "durable", "Q", 9)),
        (
            "control",
            "bound",
            "durable above taken",
            record("positions", dict(taken=8, durable=8), "durable", "Q", 9),
        ),
        ("control", "connection", "attach on control", attach()),
        ("data", "length", "attach with half a head", attach((4, "I", 20))),
        ("data", "length", "attach with a body", attach((8, "I", 8))),
        ("data", "shape", "attach of 32 bytes", attach((16, "H", 32))),
        ("data", "shape", "attach with a fixed part beyond its head", attach((16, "H", 48))),
        ("data", "shape", "attach with a record", attach((18, "H", 8), (20, "I", 1))),
        ("data", "connection", "report on data", report()),
        ("control", "length", "body of a report", report((8, "I", 8))),
        ("control", "shape", "report of nothing", sent("report", {})),
        ("control", "shape", "report of 128 values", report((20, "I", 128))),
        ("control", "shape", "report of more values than it has", report((20, "I", 2))),
        ("control", "shape", "value of 120 bytes", report((18, "H", 120))),
        ("control", "text", "value whose name has a zero in it", value("name", "H", 0x6100)),
        ("control", "text", "value whose unit is no UTF-8", value("unit", "B", 0xC3)),
        ("control", "text", "sentence with a zero in it", report((153, "B", 0), text="hot!")),
        ("control", "text", "sentence that is no UTF-8", report((152, "B", 0xFF), text="hot!")),
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
        (
            "data",
            "bound",
            "heartbeat above 2^63",
            sent("heartbeat", {}, [dict(sequence=(1 << 63) + 1)]),
        ),
    ]


def sent(
    name: str,
    fixed: dict,
    records: Sequence[dict] = (),
    patch: Sequence[Patch] = (),
    **more: object,
) -> bytes:
    data = bytearray(
        b"".join(piece.data for piece in message(name, 0, fixed, records, is_checked=False, **more))
    )
    for at, form, value in patch:
        struct.pack_into("<" + form, data, at, value)
    return bytes(data)


def field_at(name: str, part: str, field_: str, base: int = 16) -> int:
    return base + next(one.offset for one in TABLES[name, part].fields if one.name == field_)


def ping(*patch: Patch) -> bytes:
    return sent("ping", {}, [dict(log=0)], patch)


def bye(*patch: Patch, text: str = "") -> bytes:
    return sent("bye", {}, (), patch, text=text)


def with_field(name: str, fixed: dict, field_: str, form: str, value: int) -> bytes:
    return sent(name, fixed, (), [(field_at(name, "fixed part", field_), form, value)])


def hello(field_: str, form: str, value: int) -> bytes:
    fixed = dict(session=1, log_count=1, data_connections=1, release=1, name="a")
    return with_field("hello", fixed, field_, form, value)


def welcome(field_: str, form: str, value: int) -> bytes:
    times = dict(ping_ms=500, silence_ms=2500)
    fixed = dict(session=1, message_bytes_max=131_064, log_count=1) | times
    return with_field("welcome", fixed, field_, form, value)


def record(name: str, values: dict, field_: str, form: str, value: int) -> bytes:
    at = field_at(name, "record", field_, 16 + TABLES[name, "fixed part"].size)
    return sent(name, {}, [values], [(at, form, value)])


def attach(*patch: Patch) -> bytes:
    return sent("attach", dict(session=1, ticket=bytes(range(16))), (), patch)


def report(*patch: Patch, text: str = "") -> bytes:
    return sent("report", {}, [VALUE], patch, text=text)


def value(field_: str, form: str, got: int) -> bytes:
    return record("report", VALUE, field_, form, got)


def data(*patch: Patch) -> bytes:
    body = [Piece(b"abc", "")]
    return sent("fragments", {}, [dict(key=1, bytes=3)], patch, body=body, record_bytes=16)


def samples(packet: bytes, *patch: Patch) -> bytes:
    return sent("samples", dict(sequence=4), (), patch, body=[Piece(packet, "a packet")])


def stored(name: str, values: dict, *patch: Patch, body: bytes = b"") -> bytes:
    pieces = [Piece(body, "bytes")] if body else []
    return sent(name, values, (), patch, body=pieces)


def part(*patch: Patch) -> bytes:
    return sent("part", dict(fragment_bytes=8), (), patch, body=[Piece(b"abc", "")])


def mark(**values: int) -> bytes:
    return sent("mark", dict(kind=3, count=1) | values)
