"""A recorder for tests of front-ends, in any language: session.md and event-link.md over sockets.

It is written from the specifications, plainly, and shares no code with a client. It takes what
comes and keeps it, with the sequence of each item; a test tells it what to do wrong, and when:

    with Recorder() as recorder:
        recorder.after(57, recorder.cut)      # when 57 items were taken
        ...
        recorder.check()                      # no rule was broken by the sender

As a command it says its address, and then obeys lines: see `obey`.

One thread reads all sockets. Calls of a test take its lock, and so come between two reads. What a
sender does against a rule is in `faults`, and its connections are closed.
"""

import bisect
import json
import selectors
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Self

from taken import JOINS, Connection, Item, Log, Session

MAGIC = b"\x89CTSL\r\n\x1a"
HELLO, WELCOME, ATTACH, PING, POSITIONS, COMMAND, ANSWER, REPORT, BYE, LOGS, GRANTS = range(1, 12)
FRAGMENTS, PART, MARK, HEARTBEAT = range(32, 36)
SAMPLES = 48
EVENTS, CHANNELS = 1, 2  # services
BEGIN, END, ABANDONED, NUMBERING, SETTING = range(1, 6)
RUN_ENDED, REFUSED = 3, 4
NONE = 2**64 - 1
# Fixed bytes and least record bytes of what a sender sends; records: how many.
SHAPES = {
    HELLO: (176, 0, 0, 0),
    LOGS: (8, 128, 1, 127),
    ATTACH: (40, 0, 0, 0),
    PING: (16, 24, 0, 681),
    ANSWER: (24, 0, 0, 0),
    REPORT: (8, 128, 1, 127),
    BYE: (24, 0, 0, 0),
    FRAGMENTS: (24, 16, 1, 4096),
    PART: (56, 0, 0, 0),
    MARK: (64, 0, 0, 0),
    HEARTBEAT: (8, 24, 0, 4096),
    SAMPLES: (24, 0, 0, 0),
}


class FaultError(Exception):
    """The sender broke a rule."""


def need(is_kept: bool, *said: object) -> None:
    if not is_kept:
        raise FaultError(" ".join(str(one) for one in said))


class Recorder:
    """A recorder with one run, which it records; under TLS if that is given.

    Its service is EVENTS, or CHANNELS.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, service: int = EVENTS) -> None:
        self.tls, self.service = tls, service
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.selector = selectors.DefaultSelector()
        self.connections: list[Connection] = []
        self.sessions: dict[tuple[str, int], Session] = {}
        self.faults: list[str] = []
        self.refusals: list[tuple[int, int, str]] = []
        self.run, self.run_number, self.state, self.epoch = bytes(range(16)), 42, 2, 0
        self.message_bytes_max = 131_064
        self.is_durable_at_once = True
        self.is_held = False
        self.read_bytes = 1 << 18
        self.refused_logs: dict[str, int] = {}
        self.actions: list[tuple[int, Callable[[], None]]] = []
        self.taken = self.pings = self.key_skew_bytes_max = 0
        self.positions_at = 0.0
        self.is_changed = self.is_stopping = False
        self.port = 0
        self.listener: socket.socket | None = None
        self.up()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_stopping = True
        self.thread.join()
        self.down()
        self.selector.close()

    # What a test sees and says. -----------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"catchment{'' if self.tls else '+tcp'}://127.0.0.1:{self.port}"

    @property
    def session(self) -> Session:
        """The newest session."""
        with self.lock:
            return next(reversed(self.sessions.values()))

    def log(self, name: str = "") -> Log:
        return next(log for log in self.session.logs if log.name == name)

    def count(self) -> int:
        """Fragments that it has of all front-ends."""
        sessions = self.sessions.values()
        return sum(len(log.fragments) for session in sessions for log in session.logs)

    def wait(self, until: Callable[[], bool]) -> None:
        """Waits until something holds that the serving thread makes so."""
        with self.changed:
            while not until():
                assert not self.faults, self.faults
                self.changed.wait(0.01)

    def wait_taken(self, count: int) -> None:
        """Waits until so many items were taken."""
        self.wait(lambda: self.taken >= count)

    def wait_opened(self, count: int) -> None:
        """Waits until the newest session was opened so often."""
        self.wait(lambda: self.session.opened >= count)

    def wait_pings(self, count: int) -> None:
        """Waits until the sender has said so many times more that it lives."""
        until = self.pings + count
        self.wait(lambda: self.pings >= until)

    def check(self) -> None:
        assert self.faults == [], self.faults

    def after(self, items: int, action: Callable[[], None]) -> None:
        """Has an action done when so many items have been taken, and not one more."""
        with self.lock:
            self.actions.append((items, action))
            self.actions.sort(key=lambda one: one[0])

    def hold(self) -> None:
        """Reads no data connection."""
        with self.lock:
            self.is_held = True

    def release(self) -> None:
        """Reads them again."""
        with self.lock:
            self.is_held = False
            parked = [one for one in self.connections if one.is_parked and not one.is_dead]
            for connection in parked:
                connection.is_parked = False
                self.selector.register(connection.socket, selectors.EVENT_READ, connection)
                self._take_all(connection)

    def cut(self) -> None:
        """Closes all connections without a word."""
        with self.lock:
            for connection in list(self.connections):
                self._close(connection)

    def mute(self) -> None:
        """Leaves all connections half-open: nothing is read or answered any more."""
        with self.lock:
            for connection in self.connections:
                self._leave_unread(connection)
                connection.is_dead = True

    def down(self) -> None:
        """Dies: connections and the listener are gone."""
        with self.lock:
            self.cut()
            if self.listener:
                self.selector.unregister(self.listener)
                self.listener.close()
                self.listener = None

    def up(self) -> None:
        with self.lock:
            listener = socket.create_server(("127.0.0.1", self.port))
            listener.setblocking(False)
            self.port = listener.getsockname()[1]
            self.listener = listener
            self.selector.register(listener, selectors.EVENT_READ)

    def restart(self) -> None:
        """Dies and is back, with what is durable, in a higher epoch."""
        with self.lock:
            self.cut()
            self.epoch += 1
            for session in self.sessions.values():
                for log in session.logs:
                    log.keep(log.durable)

    def refuse(self, reason: int, retry_ms: int, text: str, *, times: int = 1) -> None:
        """Answers the next hellos by `bye`."""
        with self.lock:
            self.refusals += [(reason, retry_ms, text)] * times

    def say_bye(self, reason: int, retry_ms: int, text: str) -> None:
        with self.lock:
            for connection in [one for one in self.connections if one.kind == 1]:
                self._bye(connection, reason, retry_ms, text)
            self.cut()

    def end_run(self, retry_ms: int = 0) -> None:
        """Ends the run: what senders say at their next hello to hold of it is given up.

        With `retry_ms` it ends in order, and says so; without, the recorder is gone.
        """
        with self.lock:
            self.run, self.run_number = bytes(range(16, 32)), self.run_number + 1
            if retry_ms:
                self.say_bye(14, retry_ms, "")
            self.cut()

    def make_durable(self) -> None:
        """What was taken is durable from now on, until it is said that it is not."""
        with self.lock:
            for session in self.sessions.values():
                for log in session.logs:
                    log.durable = log.expected
            self.is_changed = True

    def command(self, number: int, kind: int, records: bytes = b"", text: str = "") -> None:
        with self.lock:
            fixed = struct.pack("<Q16sQHHI", number, self.run, self.run_number, kind, 0, 0)
            for connection in [one for one in self.connections if one.kind == 1]:
                self._send(connection, COMMAND, fixed, records, 128, text)

    def send_raw(self, data: bytes) -> None:
        """Sends bytes on control as they are; a test of what a sender refuses."""
        with self.lock:
            for connection in [one for one in self.connections if one.kind == 1]:
                self._send_bytes(connection, data)

    # Sockets. -----------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self.is_stopping:
            ready = self.selector.select(0.002)
            with self.changed:
                try:
                    self._serve_ready([key for key, _ in ready])
                except Exception as error:  # or a test would wait for ever
                    self.faults.append(repr(error))
                    raise
                self.changed.notify_all()

    def _serve_ready(self, ready: list[selectors.SelectorKey]) -> None:
        for key in ready:
            if key.fileobj is self.listener and self.listener:
                self._accept(self.listener)
            elif isinstance(key.data, Connection):
                self._read(key.data)
        if self.is_changed and time.monotonic() >= self.positions_at + 0.01:
            self._tell_positions()

    def _accept(self, listener: socket.socket) -> None:
        try:
            accepted, _ = listener.accept()
        except OSError:
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:  # the handshake goes on as it is read
            accepted = self.tls.wrap_socket(
                accepted, server_side=True, do_handshake_on_connect=False
            )
        connection = Connection(accepted)
        self.connections.append(connection)
        self.selector.register(accepted, selectors.EVENT_READ, connection)

    def _close(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
            self._leave_unread(connection)
            connection.socket.close()

    def _leave_unread(self, connection: Connection) -> None:
        if not connection.is_dead and not connection.is_parked:
            self.selector.unregister(connection.socket)

    def _close_session(self, session: Session | None) -> None:
        for connection in list(self.connections):
            if connection.session is session:
                self._close(connection)
        for log in session.logs if session else []:
            log.part = None

    def _is_read(self, connection: Connection) -> bool:
        return connection in self.connections and not connection.is_dead

    def _read(self, connection: Connection) -> None:
        if not self._is_read(connection):
            return
        if connection.kind == 2 and self.is_held:
            self._leave_unread(connection)
            connection.is_parked = True
            return
        one = connection.socket
        try:
            data = one.recv(self.read_bytes)
            while isinstance(one, ssl.SSLSocket) and one.pending():
                data += one.recv(one.pending())
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            data = b""
        if not data:
            session = connection.session
            self._close_session(session) if session else self._close(connection)
            return
        connection.read += len(data)
        connection.buffer += data
        self._take_all(connection)

    def _take_all(self, connection: Connection) -> None:
        try:
            self._take(connection)
        except FaultError as fault:
            self.faults.append(str(fault))
            self._close_session(connection.session)

    def _send(
        self,
        connection: Connection,
        kind: int,
        fixed: bytes,
        records: bytes = b"",
        record_bytes: int = 0,
        text: str = "",
    ) -> None:
        count = len(records) // record_bytes if records else 0
        head = struct.pack("<HHI", 8 + len(fixed), record_bytes if count else 0, count)
        head += fixed + records + text.encode()
        head += bytes(-len(head) % 8)
        header = struct.pack("<HHIII", 0x4CC7, kind, len(head), 0, connection.sent)
        connection.sent += 1
        self._send_bytes(connection, header + head)

    def _send_bytes(self, connection: Connection, data: bytes) -> None:
        try:
            connection.socket.sendall(data)
        except OSError:
            self._close(connection)

    def _bye(self, connection: Connection, reason: int, retry_ms: int, text: str) -> None:
        self._send(connection, BYE, struct.pack("<HHIQ", reason, 0, retry_ms, 0), text=text)

    def _tell_positions(self, cookie: int = 0) -> None:
        self.is_changed, self.positions_at = False, time.monotonic()
        for control in [one for one in self.connections if one.kind == 1 and not one.is_dead]:
            session = control.session
            if session is None or not control.ticket:  # not welcome yet
                continue
            received = [0] * 16
            for data in self.connections:
                if data.kind == 2 and data.session is session:
                    received[data.index] = data.read
            records = b""
            for number, log in enumerate(session.logs[:600]):
                if self.is_durable_at_once:
                    log.durable = log.expected
                records += struct.pack("<IIQQ", number, 0, log.expected, log.durable)
            unread = (1 << session.data_connections) - 1 if self.is_held else 0
            fixed = struct.pack("<QIHH16Q", cookie, self.epoch, unread, 0, *received)
            self._send(control, POSITIONS, fixed, records, 24)

    # Messages. ----------------------------------------------------------------------------------

    def _take(self, connection: Connection) -> None:
        if connection.kind == 0:
            if len(connection.buffer) < 16:
                return
            preamble = bytes(connection.buffer[:16])
            is_own = preamble[8:13] == bytes([1, 1, self.service, 1, 1])
            need(preamble[:8] == MAGIC and is_own, "preamble", preamble.hex())
            need(preamble[13] in {1, 2} and preamble[14:] == b"\0\0", "preamble", preamble.hex())
            del connection.buffer[:16]
            connection.kind = preamble[13]
        while self._is_read(connection) and len(connection.buffer) >= 24:
            if connection.kind == 2 and self.is_held:
                return
            header = struct.unpack_from("<HHIII", connection.buffer)
            marker, kind, head_bytes, body_bytes, number = header
            total = 16 + head_bytes + body_bytes + -body_bytes % 8
            need(marker == 0x4CC7, "marker", marker)
            need(number == connection.number, "number", number, "expected", connection.number)
            need(kind in SHAPES, "type", kind)
            is_data = kind == ATTACH or kind >= 32
            need(is_data == (connection.kind == 2), "type", kind, "on", connection.kind)
            is_items = kind >= FRAGMENTS
            is_of_service = (kind == SAMPLES) == (self.service == CHANNELS)
            need(not is_items or is_of_service, "type", kind, "of another service")
            most = self.message_bytes_max if is_data else 16_384
            need(head_bytes % 8 == 0 and head_bytes >= 8 and total <= most, "length", total)
            need(is_data or body_bytes == 0, "body on control")
            if len(connection.buffer) < total:
                return
            message = bytes(connection.buffer[:total])
            del connection.buffer[:total]
            connection.number += 1
            body = message[16 + head_bytes :][:body_bytes]
            need(not any(message[16 + head_bytes + body_bytes :]), "padding")
            self._message(connection, kind, message[16 : 16 + head_bytes], body)

    def _message(self, connection: Connection, kind: int, head: bytes, body: bytes) -> None:
        fixed_bytes, record_bytes, count = struct.unpack_from("<HHI", head)
        fixed_min, record_min, count_min, count_max = SHAPES[kind]
        text_at = fixed_bytes + record_bytes * count
        need(fixed_bytes == fixed_min, "fixed part", fixed_bytes, "of type", kind)
        need(count_min <= count <= count_max and text_at <= len(head), "records", count, kind)
        need(record_bytes >= record_min if count else record_bytes == 0, "record", record_bytes)
        records = [
            head[fixed_bytes + at * record_bytes : fixed_bytes + (at + 1) * record_bytes]
            for at in range(count)
        ]
        text = head[text_at:].rstrip(b"\0")
        need(len(text) <= 1024 and b"\0" not in text, "text")
        fixed = head[:fixed_bytes]
        is_open = connection.session is not None
        need(is_open or kind in {HELLO, ATTACH}, "type", kind, "before hello or attach")
        need(not is_open or kind not in {HELLO, ATTACH}, "hello or attach again")
        if kind == HELLO:
            self._hello(connection, fixed, text.decode())
        elif kind == ATTACH:
            self._attach(connection, fixed)
        elif connection.session:
            self._in_session(
                connection, connection.session, kind, fixed, records, text.decode(), body
            )

    def _hello(self, connection: Connection, fixed: bytes, token: str) -> None:
        number, run = struct.unpack_from("<Q16s", fixed, 8)
        log_count, connections, release = struct.unpack_from("<IHB", fixed, 60)
        (command,) = struct.unpack_from("<Q", fixed, 72)
        name = fixed[80:144].rstrip(b"\0").decode()
        need(number != 0 and release in {1, 2} and 1 <= connections <= 16, "hello", number, release)
        session = self.sessions.setdefault((name, number), Session(name, number))
        self._close_session(session)
        connection.session = session
        session.release, session.token, session.run, session.command = release, token, run, command
        session.program = fixed[144:176].rstrip(b"\0").decode()
        session.log_count, session.data_connections = log_count, connections
        session.skew_bytes, session.buffer_ms = struct.unpack_from("<QI", fixed, 48)
        session.flags = fixed[67]
        self._send_bytes(connection, MAGIC + bytes([1, 1, self.service, 1, 1, 1, 0, 0]))

    def _describe(self, connection: Connection, session: Session, records: list[bytes]) -> None:
        connection.index = max(connection.index, 0)
        for record in records:
            log, on, _, first, made, most, _ = struct.unpack_from("<IHHQQQQ", record)
            (begin,) = struct.unpack_from("<Q", record, 48)
            need(self.service == EVENTS or record[24:64] == bytes(40), "service part")
            name = record[64:128].rstrip(b"\0").decode()
            need(log == connection.index, "log", log, "expected", connection.index)
            need(first <= made and on < session.data_connections, "log", first, made, on)
            connection.index += 1
            if log == len(session.logs):
                session.logs.append(Log(name, on, first, made, most, begin))
            known = session.logs[log]
            need(known.name == name and known.expected <= made, "log", name, made, known.expected)
            if session.release == 2:
                known.keep(max(first, known.expected))  # what it released is lost
            need(first <= known.expected, "first", first, "expected", known.expected)
            known.first, known.made, known.begin = first, made, begin
        if connection.index == session.log_count:
            self._welcome(connection, session)

    def _welcome(self, connection: Connection, session: Session) -> None:
        if self.refusals:
            self._bye(connection, *self.refusals.pop(0))
            self._close(connection)
            return
        session.opened += 1
        connection.ticket = struct.pack("<QQ", session.number, session.opened)
        fixed = struct.pack("<Q16s16s", session.number, self.run, connection.ticket)
        fixed += struct.pack("<Q", self.run_number)
        fixed += struct.pack("<IIH6xQQ", 0, self.epoch, self.state, 0, session.command)
        fixed += struct.pack("<IIQ", 500, 2500, session.skew_bytes)
        fixed += struct.pack("<II", self.message_bytes_max, session.log_count)
        self._send(connection, WELCOME, fixed)
        grants = b""
        for number, log in enumerate(session.logs):
            is_ended = session.run not in {self.run, bytes(16)} and log.first < log.made
            log.answer = RUN_ENDED if is_ended else JOINS
            if is_ended:  # where it stands in that run's files does not change any more
                log.durable = log.durable if log.ended == session.run else log.expected
                log.ended, log.expected = session.run, log.made
            reason = self.refused_logs.get(log.name, 0)
            log.answer = REFUSED if reason else log.answer
            grants += struct.pack("<IHHQ", number, log.answer, reason, log.expected)
            grants += struct.pack("<QIIQ24x", log.durable, number, 0, log.fragment_bytes_max)
        for at in range(0, len(grants), 64 * 255):
            self._send(connection, GRANTS, bytes(0), grants[at : at + 64 * 255], 64)

    def _attach(self, connection: Connection, fixed: bytes) -> None:
        number, ticket, index = struct.unpack_from("<Q16sH", fixed, 8)
        for control in self.connections:
            session = control.session
            if control.kind == 1 and session and session.number == number:
                need(control.ticket == ticket, "ticket")
                need(index < session.data_connections, "data connection", index)
                connection.session, connection.index = session, index
                return
        self._close(connection)  # its control connection ended meanwhile

    def _in_session(
        self,
        connection: Connection,
        session: Session,
        kind: int,
        fixed: bytes,
        records: list[bytes],
        text: str,
        body: bytes,
    ) -> None:
        if kind == LOGS:
            self._describe(connection, session, records)
        elif kind == PING:
            for record in records:
                number, _, made, _ = struct.unpack_from("<IIQQ", record)
                need(made >= session.logs[number].made, "made", made)
                session.logs[number].made = made
            self.pings += 1
            self._tell_positions(struct.unpack_from("<Q", fixed, 8)[0])
        elif kind == ANSWER:
            session.answers.append((*struct.unpack_from("<QH", fixed, 8), text))
        elif kind == REPORT:
            for record in records:
                name = record[64:128].rstrip(b"\0").decode()
                session.reports.append((record[0], name, record[8:16], text))
        elif kind == BYE:
            session.bye = struct.unpack_from("<Q", fixed, 16)[0]
            self._bye(connection, 0, 0, "")
            self._close_session(session)
        elif kind == HEARTBEAT:
            for record in records:
                number, flags, sequence, low_water = struct.unpack_from("<IIQQ", record)
                log = self._log(connection, session, number)
                need(sequence <= log.expected, "heartbeat", sequence, "expected", log.expected)
                log.low_waters.append((sequence, low_water if flags & 2 else NONE, bool(flags & 1)))
        elif kind == SAMPLES:
            self._samples(connection, session, fixed, body)
        elif kind == MARK:
            self._mark(connection, session, fixed, text)
        elif kind == PART:
            self._part(connection, session, fixed, body)
        else:
            self._fragments(connection, session, fixed, records, body)

    def _log(self, connection: Connection, session: Session, number: int) -> Log:
        need(number < len(session.logs), "log", number)
        log = session.logs[number]
        need(log.connection == connection.index, "log", number, "on connection", connection.index)
        return log

    # Items. -------------------------------------------------------------------------------------

    def _fragments(
        self,
        connection: Connection,
        session: Session,
        fixed: bytes,
        records: list[bytes],
        body: bytes,
    ) -> None:
        number, _, sequence = struct.unpack_from("<IIQ", fixed, 8)
        log = self._log(connection, session, number)
        need(log.part is None, "fragments between parts")
        sizes = [struct.unpack_from("<I", record, 8)[0] for record in records]
        need(sum(sizes) == len(body), "sum", sum(sizes), len(body))
        at = 0
        for index, (record, size) in enumerate(zip(records, sizes, strict=True)):
            key, _, tag, flags = struct.unpack_from("<QIBB", record)
            groups = struct.unpack_from("<Q", record, 16)[0] if len(record) >= 24 else 0
            data = body[at : at + size]
            at += size
            item = Item(sequence + index, key, data, tag=tag, flags=flags, groups=groups)
            self._order(connection, key, size)
            if not self._item(connection, log, item):
                return

    def _samples(self, connection: Connection, session: Session, fixed: bytes, body: bytes) -> None:
        number, _, sequence = struct.unpack_from("<IIQ", fixed, 8)
        log = self._log(connection, session, number)
        need(len(body) <= 65_507, "packet of", len(body))
        if not body or (body[:4] == b"CTLK" and body[5:6] == b"\2"):
            need(sequence <= log.expected, "sign of life", sequence, "expected", log.expected)
            log.low_waters.append((sequence, NONE, False))
            return
        self._item(connection, log, Item(sequence, sequence, body))

    def _order(self, connection: Connection, key: int, size: int) -> None:
        """Measures the bytes between a fragment and the first one before it of a higher key."""
        keys = connection.keys
        higher = bisect.bisect_right(keys, (key, NONE))
        if higher < len(keys):
            skew = connection.item_bytes - keys[higher][1]
            self.key_skew_bytes_max = max(self.key_skew_bytes_max, skew)
        connection.item_bytes += size
        if not keys or key > keys[-1][0]:
            keys.append((key, connection.item_bytes))

    def _part(self, connection: Connection, session: Session, fixed: bytes, body: bytes) -> None:
        number, tag, flags = struct.unpack_from("<IBB", fixed, 8)
        sequence, key, groups, position, whole = struct.unpack_from("<QQQQQ", fixed, 16)
        log = self._log(connection, session, number)
        part = log.part
        if part is None:
            need(position == 0, "first part at", position)
            part = log.part = Item(sequence, key, tag=tag, flags=flags, groups=groups)
        need(part.sequence == sequence and part.key == key, "part of another fragment")
        need(position == len(part.data), "part at", position, "expected", len(part.data))
        is_last = position + len(body) == whole
        need(is_last or (position + len(body) < whole and len(body) % 4096 == 0), "part")
        part.data += body
        if is_last:
            log.part = None
            self._item(connection, log, part)

    def _mark(self, connection: Connection, session: Session, fixed: bytes, text: str) -> None:
        number, kind, reason, sequence, count = struct.unpack_from("<IHHQQ", fixed, 8)
        key, key_last, flags, _, run_number = struct.unpack_from("<QQIIQ", fixed, 32)
        need(1 <= kind <= 5 and 1 <= count <= (2**40 if kind == ABANDONED else 1), "mark", kind)
        log = self._log(connection, session, number)
        need(log.part is None, "mark between parts")
        mark = Item(sequence, key, kind=kind, count=count, reason=reason, text=text)
        mark.flags, mark.key_last, mark.run_number = flags, key_last, run_number
        self._item(connection, log, mark)

    def _item(self, connection: Connection, log: Log, item: Item) -> bool:
        """Takes an item, unless it is a repeat. Returns whether the connection goes on."""
        need(item.sequence <= log.expected, "sequence", item.sequence, "expected", log.expected)
        if item.sequence + item.count <= log.expected:
            return True
        item.count -= log.expected - item.sequence
        item.sequence = log.expected
        log.items.append(item)
        log.expected += item.count
        self.taken += 1
        self.is_changed = True
        while self.actions and self.taken >= self.actions[0][0]:
            self.actions.pop(0)[1]()
        return self._is_read(connection)


def obey(recorder: Recorder, line: str) -> str:
    """Does what a line says (docs/guide/frontend.md), and returns the line that answers it."""
    match line.split():
        case ["hold" | "cut" | "mute" | "restart" as action]:
            getattr(recorder, action)()
        case ["go"]:
            recorder.release()
        case ["later"]:
            recorder.is_durable_at_once = False
        case ["durable"]:
            recorder.is_durable_at_once = True
            recorder.make_durable()
        case ["wait", count] if count.isdecimal():
            recorder.wait(lambda: recorder.count() >= int(count))
        case ["taken"]:
            with recorder.lock:
                return json.dumps(recorder.session.taken() if recorder.sessions else {})
        case _:
            return f"error: no line {line.strip()!r}"
    return "ok"


def main() -> int:
    with Recorder() as recorder:
        print(recorder.url, flush=True)
        for line in sys.stdin:
            try:
                print(obey(recorder, line), flush=True)
            except AssertionError as error:  # a fault, while it waited
                print(f"error: {error}", flush=True)
    for fault in recorder.faults:
        print(fault, file=sys.stderr)
    return 1 if recorder.faults else 0


if __name__ == "__main__":
    sys.exit(main())
