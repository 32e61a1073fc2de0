"""What a client does when the recorder commands: session.md, section 9; event-link.md, 8.

Tests with `client` hold that in Python, and so in Rust, to the same as that in C.
"""

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from frontend import FrontEnd, driver
from recorder import BEGIN, END, SETTING, Recorder
from tls import Way, c_client, certificates, client, tls_driver

__all__ = ["c_client", "certificates", "client", "driver", "tls_driver"]

PREPARE, START, PAUSE, CONTINUE, STOP, CANCEL, SET = range(1, 8)
AGREED, REFUSED, WORKING, DONE = range(1, 5)
BOOL, I64, U64, F64, TEXT = range(1, 6)
SENDER = 0xFFFF_FFFF
BUSY = (REFUSED, "the front-end is at work on the command before")
NEXT_RUN = bytes(range(100, 116))


class Commands:
    """A recorder that gives commands, each with the next number, and a front-end."""

    def __init__(self, recorder: Recorder, camera: FrontEnd) -> None:
        self.recorder = recorder
        self.camera = camera
        self.number = 0

    def give(self, kind: int, records: bytes = b"", text: str = "") -> int:
        self.number += 1
        self.recorder.command(self.number, kind, records, text)
        return self.number

    def answers(self, number: int) -> list[tuple[int, str]]:
        return [
            (answer, text) for of, answer, text in self.recorder.session.answers if of == number
        ]

    def answer(self, number: int) -> tuple[int, str]:
        """The first answer to a command."""
        self.recorder.wait(lambda: bool(self.answers(number)))
        return self.answers(number)[0]

    def obey(self, kind: int, records: bytes = b"", text: str = "") -> tuple[int, str]:
        return self.answer(self.give(kind, records, text))

    def obey_when_free(self, kind: int) -> tuple[int, str]:
        """Gives a command again and again while the front-end is at work on one before."""
        while (answer := self.obey(kind)) == BUSY:
            pass
        return answer

    def called(self) -> list[str]:
        calls: list[str] = self.camera.do("commands")["commands"]
        return calls

    def marks(self, source: str = "a") -> list[int]:
        return [item.kind for item in self.recorder.log(source).items if item.kind]


@contextmanager
def commanded(client: Way, state: int = 0, **options: object) -> Iterator[Commands]:
    """No run is there yet, but one is to come."""
    with client.recorder() as recorder:
        recorder.state, recorder.run = state, NEXT_RUN if state else bytes(16)
        options = {"sources": "a,b", "flags": 2, **options}
        with client.front_end(recorder, None, **options).opened() as camera:
            recorder.run = NEXT_RUN
            yield Commands(recorder, camera)
            assert camera.close() == 0
        recorder.check()


def setting(name: str, of: int, value: bytes = bytes(8), log: int = SENDER) -> bytes:
    record = struct.pack("<BBHI", 2, of, 2, log) + value.ljust(8, b"\0") + bytes(48) + name.encode()
    return record.ljust(128, b"\0")


def test_each_command_is_answered_as_its_kind_asks_for(client: Way) -> None:
    with commanded(client) as to:
        kinds = [PREPARE, CANCEL, PREPARE, START, PAUSE, CONTINUE, STOP]
        answers = [to.obey(kind) for kind in kinds]
        assert answers == [(AGREED if kind == PREPARE else DONE, "") for kind in kinds]
        assert to.called() == [f"{kind} 42" for kind in kinds]
        to.recorder.wait_taken(4)
        assert to.marks("a") == to.marks("b") == [BEGIN, END]


@pytest.mark.parametrize("kind", [PREPARE, START, PAUSE, CONTINUE, STOP, CANCEL])
def test_each_command_can_be_refused_and_does_nothing_then(client: Way, kind: int) -> None:
    with commanded(client, refuse=kind, stops=1) as to:
        assert to.obey(kind) == (REFUSED, "no high voltage")
        assert to.camera.do("send 0 5 100")["sent"] == 5
        # It is not paused. The mark of a start stands before the callback.
        marks = [BEGIN] if kind == START else []
        to.recorder.wait_taken(5 + 2 * len(marks))
        assert to.marks("a") == to.marks("b") == marks


@pytest.mark.parametrize("kind", [PREPARE, START, PAUSE, CONTINUE, STOP, CANCEL])
def test_each_command_can_be_worked_at_and_answered_later(client: Way, kind: int) -> None:
    with commanded(client, later=kind) as to:
        number = to.give(kind)
        times = 2 if kind == PREPARE else 1  # again each second
        to.recorder.wait(lambda: len(to.answers(number)) >= times)
        assert set(to.answers(number)) == {(WORKING, "")}
        marks = [BEGIN] if kind == START else []
        to.recorder.wait_taken(2 * len(marks))
        assert to.marks() == marks
        assert to.camera.do("answer 0")["result"] == 0
        last = (AGREED if kind == PREPARE else DONE, "")
        to.recorder.wait(lambda: last in to.answers(number))
        assert to.called() == [f"{kind} 42"]


def test_what_is_sent_while_the_front_end_starts_is_of_the_run(client: Way) -> None:
    with commanded(client, later=START) as to:
        number = to.give(START)
        to.recorder.wait(lambda: (WORKING, "") in to.answers(number))
        assert to.camera.do("send 0 2 10")["sent"] == 2
        assert to.camera.do("answer 0")["result"] == 0
        to.recorder.wait(lambda: (DONE, "") in to.answers(number))
        to.recorder.wait_taken(4)
        items = to.recorder.log("a").items
        assert [item.kind == BEGIN for item in items] == [True, False, False]
        assert to.marks("b") == [BEGIN]


def test_the_session_goes_on_beside_a_callback_that_takes_long(client: Way) -> None:
    with commanded(client, long=PREPARE) as to:
        number = to.give(PREPARE)
        to.recorder.wait(lambda: (WORKING, "") in to.answers(number))
        assert to.camera.do("send 0 2 10")["sent"] == 2
        to.recorder.wait_taken(2)
        to.recorder.wait_pings(8)  # for longer than a session may be silent
        assert to.obey(START) == BUSY
        assert to.camera.do("over")["result"] == 0
        # The answer to a command that was given up is none to the next one.
        assert to.obey_when_free(STOP) == (DONE, "")
        assert to.recorder.session.opened == 1


def test_a_command_waits_for_a_callback_that_goes_on_behind_its_answer(c_client: Way) -> None:
    with commanded(c_client, long=PREPARE, early=PREPARE) as to:
        assert to.obey(PREPARE) == (AGREED, "")
        number = to.give(START)
        to.recorder.wait(lambda: len(to.answers(number)) >= 2)  # each second
        assert set(to.answers(number)) == {(WORKING, "")}
        assert to.called() == ["1 42"]
        assert to.camera.do("over")["result"] == 0
        to.recorder.wait(lambda: (DONE, "") in to.answers(number))
        assert to.called() == ["1 42", "2 42"]


def test_a_callback_cannot_close_its_session(c_client: Way) -> None:
    with commanded(c_client, closes=PREPARE) as to:
        assert to.obey(PREPARE) == (REFUSED, "a callback cannot close the session that calls it")
        assert to.camera.do("send 0 2 10")["sent"] == 2
        to.recorder.wait_taken(2)


def test_a_number_that_comes_again_repeats_its_answer_and_a_lower_one_is_ignored(
    client: Way,
) -> None:
    with commanded(client, refuse=PAUSE, later=STOP) as to:
        assert to.obey(START) == (DONE, "")
        assert to.obey(PAUSE) == (REFUSED, "no high voltage")
        to.recorder.command(2, PAUSE)
        to.recorder.wait(lambda: to.answers(2) == [(REFUSED, "no high voltage")] * 2)
        to.recorder.command(1, START)
        to.recorder.command(2, CONTINUE)  # the number counts
        to.recorder.wait(lambda: len(to.answers(2)) == 3)
        assert to.answers(1) == [(DONE, "")]
        stop = to.give(STOP)
        to.recorder.command(stop, STOP)  # and is not called again while it works
        to.recorder.wait(lambda: (WORKING, "") in to.answers(stop))
        assert to.camera.do("answer 0")["result"] == 0
        to.recorder.wait(lambda: (DONE, "") in to.answers(stop))
        to.recorder.wait_taken(4)
        assert to.marks() == [BEGIN, END]
        assert to.called() == ["2 42", "3 42", "5 42"]


def test_a_command_is_done_once_over_a_break(client: Way) -> None:
    with commanded(client, later=PREPARE) as to:
        number = to.give(PREPARE)
        to.recorder.wait(lambda: (WORKING, "") in to.answers(number))
        to.recorder.cut()
        assert to.camera.do("answer 1")["result"] == 0  # nobody hears it
        to.recorder.wait_opened(2)
        assert to.recorder.session.command == number
        to.recorder.command(number, PREPARE)
        to.recorder.wait(lambda: (REFUSED, "the pump is off") in to.answers(number))
        assert to.called() == ["1 42"]


def test_a_command_that_a_cut_lost_is_done_when_it_comes_again(client: Way) -> None:
    with commanded(client) as to:
        with to.recorder.lock:  # nobody is there to hear it
            to.recorder.cut()
            number = to.give(PREPARE)
        to.recorder.wait_opened(2)
        assert to.recorder.session.command == 0
        to.recorder.command(number, PREPARE)
        assert to.answer(number) == (AGREED, "")
        assert to.called() == ["1 42"]


def test_an_answer_comes_to_a_command_that_waits_for_one(c_client: Way) -> None:
    with commanded(c_client) as to:
        assert to.camera.do("answer 0")["error"] == "no command waits for an answer"


def test_a_command_of_unknown_kind_is_refused_without_a_call(client: Way) -> None:
    with commanded(client) as to:
        assert to.obey(0) == (REFUSED, "no command has the kind 0")
        assert to.obey(99) == (REFUSED, "no command has the kind 99")
        assert to.called() == []


def test_a_command_that_comes_over_another_is_refused(client: Way) -> None:
    """The recorder gave the first one up; the late answer is none to the second."""
    with commanded(client, later=PREPARE) as to:
        first = to.give(PREPARE)
        to.recorder.wait(lambda: (WORKING, "") in to.answers(first))
        assert to.obey(START) == BUSY
        late = to.camera.do("answer 0")
        assert not client.is_c or late["error"] == "the recorder gave this command up"
        assert to.obey_when_free(START) == (DONE, "")
        to.recorder.wait_taken(2)
        assert to.marks() == [BEGIN]
        assert to.called() == ["1 42", "2 42"]


def test_a_run_ends_once_and_only_if_it_began(client: Way) -> None:
    with commanded(client) as to:
        assert to.obey(STOP) == (DONE, "")
        assert to.obey(START) == (DONE, "")
        assert to.obey(STOP) == (DONE, "")
        assert to.obey(STOP) == (DONE, "")
        assert to.camera.do("send 0 1 1")["sent"] == 1
        to.recorder.wait_taken(5)
        assert to.marks("a") == to.marks("b") == [BEGIN, END]


def test_a_run_that_goes_on_behind_its_stop_begins_again(client: Way) -> None:
    """As where the recorder died while it stopped the run."""
    with commanded(client) as to:
        for kind in [PREPARE, START, STOP, PREPARE, START]:
            assert to.obey(kind) == (AGREED if kind == PREPARE else DONE, "")
        to.recorder.wait_taken(6)
        assert to.marks("a") == to.marks("b") == [BEGIN, END, BEGIN]


def test_positions_of_a_run_that_is_commanded_count_from_its_first_epoch(client: Way) -> None:
    with client.recorder() as recorder:
        recorder.epoch = 3
        with client.front_end(recorder, sources="a", flags=2).opened() as camera:
            recorder.run, recorder.epoch = NEXT_RUN, 0
            to = Commands(recorder, camera)
            assert to.obey(PREPARE) == (AGREED, "")
            assert to.obey(START) == (DONE, "")
            assert camera.do("send 0 5 100")["sent"] == 5
            assert camera.close() == 0
        recorder.check()


@pytest.mark.parametrize(
    ("of", "value", "text"),
    [
        (BOOL, b"\0", "false"),
        (BOOL, b"\1", "true"),
        (I64, struct.pack("<q", -(2**63)), str(-(2**63))),
        (U64, struct.pack("<Q", 2**64 - 1), str(2**64 - 1)),
        (F64, struct.pack("<d", 2.5), "2.5"),
        (F64, struct.pack("<d", 0.1), "0.1"),
        (F64, struct.pack("<d", 1 / 3), str(1 / 3)),
        (F64, struct.pack("<d", -0.0), "-0"),
        (F64, struct.pack("<d", math.inf), "inf"),
    ],
)
def test_a_setting_of_each_type_comes_back_in_each_log(
    client: Way, of: int, value: bytes, text: str
) -> None:
    with commanded(client) as to:
        assert to.obey(SET, setting("gain", of, value)) == (DONE, "")
        assert to.called() == [f"gain={text}"]
        to.recorder.wait_taken(2)
        for source in "ab":
            items = to.recorder.log(source).items
            assert [(item.kind, item.text) for item in items] == [(SETTING, f"gain={text}")]


def test_several_settings_are_one_command(client: Way) -> None:
    gain, note = setting("gain", U64, b"\5"), setting("note", TEXT)
    locked, slow = setting("locked", BOOL), setting("slow", BOOL)
    with commanded(client) as to:
        # With more than one record there is no text.
        assert to.obey(SET, gain + note, "dark frames") == (DONE, "")
        assert to.obey(SET, gain + locked + note) == (REFUSED, "locked is fixed")
        number = to.give(SET, slow + gain)
        assert to.answer(number) == (WORKING, "")
        assert to.camera.do("answer 0")["result"] == 0
        to.recorder.wait(lambda: (DONE, "") in to.answers(number))
        assert to.obey(SET, slow + locked) == (REFUSED, "locked is fixed")
        expected = ["gain=5", "note=", "gain=5", "locked=false", "slow=false", "gain=5"]
        assert to.called() == [*expected, "slow=false", "locked=false"]
        to.recorder.wait_taken(8)
        texts = [item.text for item in to.recorder.log("a").items]
        assert texts == ["gain=5", "note=", "slow=false", "gain=5"]


def test_a_setting_that_cannot_be_read_is_refused_or_a_fault(client: Way) -> None:
    with commanded(client) as to:
        assert to.obey(SET, setting("gain", 9)) == (REFUSED, "a value of unknown type")
        too_long = (REFUSED, "the value of note is too long")
        assert to.obey(SET, setting("note", TEXT), "x" * 1020) == too_long
        assert to.obey(SET, setting("gain", U64, log=1)) == (DONE, "")
        to.give(SET, setting("gain", U64, log=2))  # there are two logs
        to.recorder.wait_opened(2)
        assert to.called() == ["gain=0"]


def test_a_setting_waits_for_the_marks_of_the_one_before(c_client: Way) -> None:
    """Texts are in the ring in C alone: with others there is room for some hundred marks."""
    with commanded(c_client, sources="a", buffer=65_536) as to:
        to.recorder.is_durable_at_once = False
        assert to.camera.do("try 0 66 1000")["sent"] == 65
        assert to.obey(SET, setting("note", TEXT), "x" * 1000) == (DONE, "")
        full = (REFUSED, "a ring is full, and an earlier setting has no mark yet")
        assert to.obey(SET, setting("gain", U64)) == full
        assert to.called() == [f"note={'x' * 1000}"[:63]]
        to.recorder.is_durable_at_once = True
        to.recorder.wait_pings(1)
        to.recorder.wait(lambda: SETTING in to.marks())
        assert to.obey(SET, setting("gain", U64)) == (DONE, "")
        to.recorder.wait_taken(67)
        assert [item.text for item in to.recorder.log("a").items[65:]][-1] == "gain=0"


def test_a_join_of_a_run_that_is_recorded_begins_it_once(client: Way) -> None:
    with commanded(client, state=2) as to:
        to.recorder.wait_taken(2)
        to.recorder.cut()
        to.recorder.wait_opened(2)
        assert to.obey(START) == (DONE, "")
        assert to.obey(STOP) == (DONE, "")
        to.recorder.cut()  # before the recorder has ended the run
        to.recorder.wait_opened(3)
        assert to.camera.do("send 0 1 1")["sent"] == 1
        # It may say once more that it joins.
        to.recorder.wait(lambda: bool(to.recorder.log("a").fragments))
        assert to.marks("a")[:3] in ([BEGIN, END], [BEGIN, END, BEGIN])
