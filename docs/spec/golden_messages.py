"""The golden messages: exchanges on the pages, and all other types; see golden.py."""

import struct

from golden_tables import MESSAGE_BYTES_MAX, Piece, message, preamble

SESSION = 0x5EED_0000_0000_0007
RUN = bytes(range(0x10, 0x20))
TICKETS = [bytes(range(0xA0, 0xB0)), bytes(range(0xB0, 0xC0))]
CAMERA = dict(
    fragment_bytes_max=1 << 20,
    groups=0,
    flags=2,
    key_kind=1,
    key_bits=64,
    presence=0,
    dtype=2,
    begin=2**64 - 1,
)


def hello(
    number: int,
    run: bytes,
    first: int,
    made: int,
    token: str = "",
    command: int = 0,
    skew_bytes: int = 0,
) -> list[Piece]:
    fixed = dict(
        session=SESSION,
        run=run,
        buffer_bytes=64 << 20,
        skew_bytes=skew_bytes,
        buffer_ms=640,
        log_count=1,
        data_connections=1,
        release=1,
        flags=1,
        stage=3 if command else 0,
        stage_run=42 if command else 0,
        command=command,
        name="camera",
        program="example 1.0",
    )
    service = CAMERA if made == 0 else CAMERA | dict(begin=0)
    log = dict(log=0, connection=0, first=first, made=made, name="", service=service)
    return message("hello", number, fixed, text=token) + message("logs", number + 1, {}, [log])


def welcome(
    number: int,
    ticket: bytes,
    epoch: int,
    next_: int,
    durable: int,
    command: int = 0,
    skew_bytes: int = 0,
) -> list[Piece]:
    fixed = dict(
        session=SESSION,
        run=RUN,
        ticket=ticket,
        run_number=42,
        stream=0,
        epoch=epoch,
        state=2,
        command=command,
        ping_ms=500,
        silence_ms=2500,
        skew_bytes=skew_bytes,
        message_bytes_max=MESSAGE_BYTES_MAX,
        log_count=1,
    )
    grant = dict(
        log=0,
        answer=1,
        next=next_,
        durable=durable,
        source=3,
        service=dict(fragment_bytes_max=1 << 20),
    )
    return message("welcome", number, fixed) + message("grants", number + 1, {}, [grant])


def fragments(
    number: int, sequence: int, entries: list[tuple[int, bytes, int, int]]
) -> list[Piece]:
    records = [
        dict(key=key, bytes=len(data), tag=tag, flags=flags) for key, data, tag, flags in entries
    ]
    body = [Piece(data, f'"{data.decode()}"') for _, data, _, _ in entries if data]
    return message(
        "fragments", number, dict(log=0, sequence=sequence), records, body=body, record_bytes=16
    )


FIRST_THREE = [(17, b"hello", 0, 0), (18, b"", 0, 0), (20, b"abcd", 2, 1)]


def exchanges() -> dict[str, list[tuple[str, list[Piece]]]]:
    attach = dict(session=SESSION, ticket=TICKETS[1], connection=0)
    again = [
        *preamble(2),
        *message("attach", 0, attach),
        *fragments(1, 1002, [(20, b"abcd", 2, 1), (21, b"xyz", 0, 0)]),
    ]
    received = (sum(len(piece.data) for piece in again),) + (0,) * 15
    return {
        "hello": [
            (
                "sender, control",
                preamble(1) + hello(0, bytes(16), 0, 0, token="catchment_0123abcd"),
            ),
            ("recorder, control", preamble(1) + welcome(0, TICKETS[0], 0, 0, 0)),
        ],
        "fragments": [("sender, data 0", fragments(7, 1000, FIRST_THREE))],
        "resume": [
            ("sender, control, first attempt", preamble(1) + hello(0, RUN, 1000, 1004, command=2)),
            (
                "recorder, control",
                preamble(1)
                + message("bye", 0, dict(reason=7, retry_ms=200), text="repairing run 42"),
            ),
            ("sender, control, second attempt: the same bytes", []),
            ("recorder, control", preamble(1) + welcome(0, TICKETS[1], 1, 1002, 1002, command=2)),
            ("sender, data 0", again),
            (
                "sender, control",
                message("ping", 2, dict(cookie=1), [dict(log=0, flags=2, made=1004, held_bytes=7)]),
            ),
            (
                "recorder, control",
                message(
                    "positions",
                    2,
                    dict(cookie=1, epoch=1, received=received),
                    [dict(log=0, taken=1004, durable=1002)],
                ),
            ),
            (
                "recorder, control, when the frame is on disk",
                message(
                    "positions",
                    3,
                    dict(epoch=1, received=received),
                    [dict(log=0, taken=1004, durable=1004)],
                ),
            ),
        ],
    }


def others() -> list[tuple[str, list[Piece]]]:
    """Each type that no exchange has, at its shortest and with all it may have."""
    run = dict(run=RUN, run_number=42)
    gain = dict(
        kind=2,
        type=3,
        flags=2,
        log=0xFFFFFFFF,
        value=number(5),
        min=number(1),
        max=number(9),
        unit="dB",
        name="gain",
    )
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
        (
            "recorder, control",
            message("command", 4, run | dict(number=3, kind=2))
            + message("command", 5, run | dict(number=4, kind=7), [gain, note], text="dark"),
        ),
        (
            "sender, control",
            message("answer", 3, dict(number=3, answer=2), text="no trigger: hv is off")
            + message("answer", 4, dict(number=4, answer=4))
            + message("report", 5, {}, [rate, gain])
            + message("report", 6, {}, [hot], text="61 \u00b0C")
            + message("ping", 7, dict(cookie=2))
            + message("bye", 8, dict(reason=0, detail=3)),
        ),
        ("recorder, control", message("positions", 6, dict(cookie=2, epoch=1, unread=1))),
        ("recorder, control, of a later minor version", later(7)),
        (
            "sender, control, with a skew",
            preamble(1) + hello(0, bytes(16), 0, 0, skew_bytes=1 << 30),
        ),
        (
            "recorder, control, with a skew",
            preamble(1) + welcome(0, TICKETS[0], 0, 0, 0, skew_bytes=4 << 20),
        ),
        (
            "sender, data 0",
            message("heartbeat", 2, {})
            + message(
                "heartbeat", 3, {}, [idle, idle | dict(log=1, flags=0, sequence=12, low_water=0)]
            )
            + message(
                "fragments", 4, dict(log=0, sequence=1_002), groups, body=[Piece(b"xy", '"xy"')]
            )
            + message("part", 5, part, body=[Piece(bytes(range(256)) * 16, "4,096 bytes")])
            + message("part", 6, part | dict(position=4_096), body=[Piece(b"last", '"last"')])
            + message("mark", 7, begin)
            + message("mark", 8, end)
            + message("mark", 9, abandoned, text="the ring was full")
            + message("mark", 10, mark | dict(kind=4, sequence=1_010, flags=1))
            + message("mark", 11, mark | dict(kind=5, sequence=1_011), text="gain=5"),
        ),
    ]


def channels() -> list[tuple[str, list[Piece]]]:
    """Items of a channel link: a packet with 5 bytes of its channel 2, a heartbeat, and neither."""
    header = struct.Struct("<4sBBHIHHQQQQ")
    samples = header.pack(b"CTLK", 1, 1, 0, 7, 1, 0, 11, 1_000, 250_000_000, 0)
    samples += struct.pack("<IIII", 2, 0, 5, 0) + b"12345\0\0\0"
    heartbeat = header.pack(b"CTLK", 1, 2, 0, 7, 0, 0, 12, 1_001, 250_000_000, 0)
    return [
        (
            "sender, channels data 0",
            message("samples", 1, dict(log=0, sequence=11), body=[Piece(samples, "a packet")])
            + message("samples", 2, dict(log=0, sequence=12), body=[Piece(heartbeat, "heartbeat")])
            + message("samples", 3, dict(log=0, sequence=12)),
        )
    ]


def storage() -> list[tuple[str, list[Piece]]]:
    """A skipped frame with its only column, in two messages, the end of the stream, and idle.

    And which files the node has closed: one, and two as one record; and what it has of the stream,
    which is no frame file here.
    """
    frame = dict(kind=5, sequence=40, generation=1, rows=2, epoch=3, columns_max=1, numbers=2)
    records = struct.pack("<IHHQ", 0, 2, 0, 7) + struct.pack("<IHHQ", 1, 2, 0, 9)
    column = dict(id=4, sequence=40, stored_bytes=32, raw_bytes=32, rows=2, dtype=17)
    parts = [Piece(part, "stored bytes") for part in (records[:20], records[20:])]
    return [
        (
            "sender, storage data 0",
            message("open", 1, dict(header_bytes=6), body=[Piece(b"header", "the header")])
            + message("frame", 2, frame | dict(bytes_max=1_000))
            + message("column", 3, column, body=[parts[0]])
            + message("column", 4, column | dict(offset=20, crc32c=0x12345678), body=[parts[1]])
            + message(
                "end", 5, dict(columns=1, sequence=40), body=[Piece(records, "the ledger's counts")]
            )
            + message("close", 6, dict(sequence=42))
            + message("alive", 7, {}),
        ),
        (
            "node, control",
            message(
                "files",
                4,
                dict(files=3),
                [
                    dict(first_file=0, last_file=0, files=1, first_frame=0, last_frame=9),
                    dict(first_file=2, last_file=3, files=2, first_frame=20, last_frame=39),
                ],
            )
            + message(
                "left",
                5,
                dict(bytes=40, age_ns=3_000_000_000, frames=30, events=2_000, file_bytes=1 << 20),
                [dict(bytes=bytes(range(32))), dict(bytes=bytes(range(32, 40)) + bytes(24))],
            )
            + message("left", 6, {}),
        ),
    ]


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


def later(number_: int) -> list[Piece]:
    """A ping with more than version 1 has in it, and a type that version 1 skips."""
    head = struct.pack("<HHIQQ", 24, 32, 1, 3, 0x11) + struct.pack("<IIQQQ", 0, 1, 1_004, 7, 0x22)
    ping = struct.pack("<HHIII", 0x4CC7, 4, len(head), 0, number_) + head
    head = struct.pack("<HHIQ", 16, 0, 0, 0x33) + b"text\0\0\0\0"
    skipped = struct.pack("<HHIII", 0x4CC7, 0x8014, len(head), 0, number_ + 1) + head
    return [
        Piece(b"", f"message {number_}: ping", heading=True),
        Piece(ping, "longer than known"),
        Piece(b"", f"message {number_ + 1}: skipped", heading=True),
        Piece(skipped, "unknown, with bit 15"),
    ]
