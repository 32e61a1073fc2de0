"""What a client does when the network or the recorder fails: nothing is lost, nothing twice.

Tests with `way` or `client` hold that in Python, and so in Rust, to the same as that in C.
"""

from pathlib import Path

import pytest

from frontend import FrontEnd, check_fragments, check_sequences, driver, error_of
from recorder import ABANDONED, BEGIN, CHANNELS, END, NUMBERING, SETTING, Recorder
from tls import Way, certificates, client, tls_driver, way
from tunnel import Break, Tunnel

__all__ = ["certificates", "client", "driver", "tls_driver", "way"]

STATUS = 4  # a kind of reports


@pytest.mark.parametrize("message_bytes_max", [131_064, 4_325_376])
def test_fragments_of_all_sizes_arrive_once_and_in_order(way: Way, message_bytes_max: int) -> None:
    sizes = [
        0,
        1,
        7,
        1_000,
        2_048,
        2_049,
        65_536,
        131_000,
        131_064,
        1 << 20,
        (1 << 20) + 1,
        5 << 20,
    ]
    with way.recorder() as recorder:
        recorder.message_bytes_max = message_bytes_max
        front_end = way.front_end(recorder, sources="a,b", bytes_max=16 << 20, flags=2)
        with front_end.opened() as camera:
            for size in sizes:
                assert camera.do(f"send 0 1 {size}")["sent"] == 1
                assert camera.do(f"reserve 1 1 {size}")["sent"] == 1
            assert camera.do("send 0 3000 100")["sent"] == 3000
            assert camera.do("send 0 60 100000")["sent"] == 60
            assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, sizes + [100] * 3000 + [100_000] * 60)
        check_fragments(recorder.log("b"), 1, sizes)
        assert recorder.log("a").items[0].kind == BEGIN
        recorder.wait(lambda: recorder.session.bye == 0)
        recorder.check()


@pytest.mark.parametrize("fault", ["cut", "restart", "mute"])
def test_a_break_loses_nothing_and_gives_nothing_twice(way: Way, fault: str) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a,b,c").opened() as camera,
    ):
        recorder.is_durable_at_once = fault != "restart"
        breaks = [57, 6_000] if fault == "mute" else [57, 1_500, 1_501, 6_000]
        for items in breaks:
            recorder.after(items, getattr(recorder, fault))
        if fault == "restart":  # what was taken before a cut is not durable after it
            recorder.after(1_400, recorder.cut)
        recorder.after(800, recorder.make_durable)
        assert camera.do("each 0 3000 500")["result"] == 0
        recorder.wait_taken(6_001)
        recorder.is_durable_at_once = True
        assert camera.close() == 0
        for source, name in enumerate("abc"):
            check_fragments(recorder.log(name), source, [500] * 3000)
        assert recorder.session.opened > len(breaks)
        recorder.check()


def test_a_fragment_in_parts_begins_again(way: Way) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a", bytes_max=32 << 20).opened() as camera,
    ):
        recorder.read_bytes = 512  # so that a fragment is seen under way, however busy all is
        assert camera.do("send 0 2 20000000")["sent"] == 2
        recorder.wait(lambda: recorder.session.logs[0].part is not None)
        recorder.cut()
        recorder.read_bytes = 1 << 18
        assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, [20_000_000] * 2)
        recorder.check()


def test_a_recorder_that_is_gone_for_a_while_is_found_again(way: Way) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a").opened() as camera,
    ):
        assert camera.do("send 0 100 1000")["sent"] == 100
        recorder.wait_taken(50)
        recorder.down()
        assert camera.do("send 0 100 1000")["sent"] == 100
        recorder.up()
        assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, [1000] * 200)
        recorder.check()


def test_an_epoch_that_repairs_is_waited_for(client: Way) -> None:
    with client.recorder() as recorder:
        recorder.refuse(7, 50, "repairing run 42", times=3)
        with client.front_end(recorder, sources="a").opened() as camera:
            assert camera.do("send 0 10 10")["sent"] == 10
            recorder.refuse(7, 50, "repairing run 42", times=3)
            recorder.restart()
            assert camera.close() == 0
            check_fragments(recorder.log("a"), 0, [10] * 10)
        recorder.check()


def test_a_refusal_for_good_is_told_in_its_words(driver: Path) -> None:
    with Recorder() as recorder:
        recorder.refuse(2, 0, "no such token")
        with FrontEnd(driver, recorder.url) as camera:
            answer = camera.answer()
            assert answer["result"] < 0
            assert answer["error"] == "the recorder said: token (2): no such token"
        with FrontEnd(driver, recorder.url).opened() as camera:
            assert camera.do("send 0 5 10")["sent"] == 5
            recorder.wait_taken(5)
            recorder.is_durable_at_once = False
            assert camera.do("send 0 5 10")["sent"] == 5
            recorder.wait_taken(10)
            recorder.say_bye(12, 0, "another front-end has this name")
            while (answer := camera.do("key 0 1000000 10"))["result"] != -2:
                pass
            assert answer["error"].endswith("superseded (12): another front-end has this name")
            assert camera.close() >= 5


def test_a_source_that_is_refused_is_named(driver: Path) -> None:
    with Recorder() as recorder:
        recorder.refused_logs = {"b": 6}
        with FrontEnd(driver, recorder.url, sources="a,b") as camera:
            assert camera.answer()["error"] == 'the recorder refused source 1 "b", reason 6'


def test_no_recorder_ends_in_an_error_and_not_in_a_wait_for_ever(driver: Path) -> None:
    with Recorder() as recorder:
        url = recorder.url
    assert "Connection refused" in error_of(driver, url)
    with FrontEnd(driver, "catchment://daq1") as camera:
        assert "TLS" in camera.answer()["error"]
    with FrontEnd(driver, "catchment+tcp://no.such.host.invalid:7100", connect_ms=200) as camera:
        assert camera.answer()["result"] < 0


def test_what_a_closed_front_end_could_not_deliver_is_returned(way: Way) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a", flags=2).opened() as camera,
    ):
        recorder.is_durable_at_once = False
        assert camera.do("send 0 30 100")["sent"] == 30
        recorder.wait_taken(31)
        recorder.make_durable()
        camera.do("durable 0 31")
        assert camera.do("send 0 12 100")["sent"] == 12
        assert camera.close(50) == 12
        recorder.wait(lambda: recorder.session.bye == 12)
        recorder.check()


def test_what_is_released_when_taken_needs_no_durable(way: Way) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a", release=2).opened() as camera,
    ):
        recorder.is_durable_at_once = False
        assert camera.do("send 0 1000 100")["sent"] == 1000
        assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, [100] * 1000)
        recorder.check()


def test_a_run_that_ended_without_what_is_held_says_how_much_that_was(client: Way) -> None:
    with (
        client.recorder() as recorder,
        client.front_end(recorder, sources="a").opened() as camera,
    ):
        recorder.is_durable_at_once = False
        assert camera.do("send 0 20 100")["sent"] == 20
        recorder.wait_taken(20)
        recorder.hold()
        assert camera.do("send 0 15 100")["sent"] == 15
        recorder.end_run()
        camera.do("durable 0 20")
        recorder.release()
        recorder.is_durable_at_once = True
        assert camera.do("send 0 5 100")["sent"] == 5
        camera.do("durable 0 40")
        assert camera.do("counts 0")["held_at_run_end"] == 15
        assert camera.close() == 15
        assert [item.key for item in recorder.log("a").fragments] == [*range(20), *range(35, 40)]
        recorder.check()


def test_a_run_that_ended_is_told_again_where_its_answer_broke_off(client: Way) -> None:
    """What is held is no data of the run that a welcome names, before all its grants came."""
    breaks = [Break(), Break(), Break(recorder=16), Break(recorder=16 + 128)]
    with (
        client.recorder() as recorder,
        Tunnel(recorder.port, *breaks) as tunnel,
        client.front_end(recorder, tunnel, sources="a").opened() as camera,
    ):
        recorder.is_durable_at_once = False
        assert camera.do("send 0 20 100")["sent"] == 20
        recorder.wait_taken(20)
        recorder.hold()
        assert camera.do("send 0 15 100")["sent"] == 15
        recorder.end_run()
        recorder.release()
        recorder.wait_opened(4)
        recorder.is_durable_at_once = True
        assert camera.do("send 0 5 100")["sent"] == 5
        camera.do("durable 0 40")
        assert camera.do("counts 0")["held_at_run_end"] == 15
        assert camera.close() == 15
        recorder.check()


def test_between_runs_what_is_made_belongs_to_the_next_one(client: Way) -> None:
    with (
        client.recorder() as recorder,
        client.front_end(recorder, sources="a").opened() as camera,
    ):
        assert camera.do("send 0 10 100")["sent"] == 10
        camera.do("durable 0 10")
        recorder.refuse(7, 200, "the next run is armed")
        recorder.end_run(50)
        recorder.wait(lambda: not recorder.refusals)  # it has heard that the run ended
        assert camera.do("send 0 5 100")["sent"] == 5
        recorder.wait_opened(2)
        assert recorder.session.run == bytes(16)
        assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, [100] * 15)
        recorder.check()


def test_a_recorder_of_an_earlier_epoch_is_not_believed(client: Way) -> None:
    """One that was thought to be dead, and answers."""
    with client.recorder() as recorder:
        recorder.epoch = 3
        with client.front_end(recorder, sources="a").opened() as camera:
            recorder.epoch = 2
            recorder.cut()
            recorder.wait_opened(3)
            assert camera.do("send 0 10 100")["sent"] == 10
            assert recorder.taken == 0
            recorder.epoch = 4
            assert camera.close() == 0
            check_fragments(recorder.log("a"), 0, [100] * 10)
        recorder.check()


def test_a_call_that_waits_for_room_ends_with_the_session(way: Way) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a", buffer=65_536).opened() as camera,
    ):
        recorder.is_durable_at_once = False
        camera.tell("send 0 100 1000")
        recorder.wait_taken(60)
        why = "another front-end has this name"
        recorder.refuse(12, 0, why)  # where the reset of a data connection overtakes the `bye`
        recorder.say_bye(12, 0, why)
        answer = camera.answer()
        assert answer["result"] == -2
        assert camera.close() == answer["sent"] >= 60


def test_a_source_that_is_refused_later_ends_and_the_others_go_on(driver: Path) -> None:
    with (
        Recorder() as recorder,
        FrontEnd(driver, recorder.url, sources="a,b").opened() as camera,
    ):
        recorder.refused_logs = {"b": 6}
        recorder.cut()
        recorder.wait_opened(2)
        while (answer := camera.do("key 1 1000000 10"))["result"] != -2:
            pass
        assert answer["error"] == 'the recorder refused source 1 "b", reason 6'
        assert camera.do("send 0 10 100")["sent"] == 10
        camera.do("durable 0 10")
        recorder.check()


def test_a_cut_at_any_byte_loses_nothing(client: Way) -> None:
    """Within the preamble, the hello, an answer, the attaching, items, positions."""
    sent = [0, 1, 15, 16, 40, 200, 344, 500, 5_000, 65_537]
    answered = [0, 1, 15, 16, 40, 144, 150, 232, 300, 500]
    breaks = [Break(sender=count) for count in sent] + [Break(recorder=count) for count in answered]
    both = [[one] for one in breaks] + [[Break(), one] for one in breaks]
    for broken in both[:: 1 if client.is_c else 3]:  # of control; of data
        with (
            client.recorder() as recorder,
            Tunnel(recorder.port, *broken) as tunnel,
            client.front_end(recorder, tunnel, sources="a,b").opened() as camera,
        ):
            assert camera.do("each 0 300 1000")["result"] == 0
            assert camera.close() == 0
            for source, name in enumerate("ab"):
                check_fragments(recorder.log(name), source, [1000] * 300)
            recorder.check()


def test_a_full_ring_is_said_and_what_was_dropped_is_abandoned(way: Way) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a", buffer=65_536).opened() as camera,
    ):
        recorder.is_durable_at_once = False
        recorder.hold()
        made = camera.do("try 0 100 1000")
        assert made == {"sent": 65, "result": -1}
        assert camera.do("put 0 1 1000") == {"sent": 0, "result": -1}
        for _ in range(200):
            assert camera.do("abandon 0 5 1")["result"] == 0
        counts = camera.do("counts 0")
        assert (counts["abandoned"], counts["full"], counts["made"]) == (1000, 2, 1065)
        recorder.release()
        recorder.is_durable_at_once = True
        assert camera.do("send 0 100 1000")["sent"] == 100
        assert camera.close() == 0
        log = recorder.log("a")
        check_sequences(log)
        ranges = [item for item in log.items if item.kind == ABANDONED]
        assert sum(item.count for item in ranges) == 1000
        assert (ranges[0].key, ranges[-1].key_last) == (65, 1064)
        assert ranges[0].reason == 1
        assert ranges[0].text == ("the ring was full" if way.is_c else "")
        recorder.check()


def test_ranges_without_end_use_up_no_entries(driver: Path) -> None:
    with (
        Recorder() as recorder,
        FrontEnd(driver, recorder.url, sources="a", buffer=65_536).opened() as camera,
    ):
        recorder.is_durable_at_once = False
        # 1,024 entries: 64 are left to ranges, of which the last one is joined by all others.
        assert camera.do("send 0 960 1")["sent"] == 960
        assert camera.do("try 0 1 1")["result"] == -1
        recorder.wait_taken(960)
        for made in range(200):
            assert camera.do("abandon 0 1 1")["result"] == 0
            if made < 59:  # the last one waits
                recorder.wait_taken(961 + made)
        assert camera.do("abandon 0 1 2")["result"] == -1
        recorder.is_durable_at_once = True
        assert camera.close() == 0
        log = recorder.log("a")
        check_sequences(log)
        assert log.expected == 1160
        recorder.check()


def test_a_send_that_waits_goes_on_when_there_is_room(way: Way) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a", buffer=65_536).opened() as camera,
    ):
        recorder.is_durable_at_once = False
        camera.tell("send 0 500 1000")
        for taken in range(60, 481, 60):
            recorder.wait_taken(taken)
            recorder.make_durable()
        recorder.is_durable_at_once = True
        assert camera.answer()["sent"] == 500
        assert not way.is_c or camera.do("counts 0")["waited_ns"] > 0
        assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, [1000] * 500)
        recorder.check()


def test_a_held_recorder_slows_and_does_not_break(way: Way) -> None:
    with (
        way.recorder() as recorder,
        way.front_end(recorder, sources="a", buffer=4 << 20).opened() as camera,
    ):
        recorder.hold()
        camera.tell("send 0 20000 1000")
        # Longer than the silence after which a sender gives up a connection that is not held.
        pings = recorder.session.opened
        recorder.wait_pings(8)
        assert recorder.session.opened == pings
        recorder.release()
        assert camera.answer()["sent"] == 20_000
        assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, [1000] * 20_000)
        recorder.check()


def test_a_key_that_does_not_rise_is_refused_and_takes_no_sequence(driver: Path) -> None:
    with (
        Recorder() as recorder,
        FrontEnd(driver, recorder.url, sources="a", key_bits=16).opened() as camera,
    ):
        assert camera.do("key 0 65530 8")["result"] == 0
        for key in [65_530, 65_529, 40_000, 1 << 16]:
            assert camera.do(f"key 0 {key} 8")["result"] == -3
        assert camera.do("key 0 3 8")["result"] == 0  # wrapped
        refused = camera.do("key 0 65535 8")
        assert refused["error"] == (
            'source 0 "a": key 65535 does not rise: the next one is 4 or above, by less than half '
            "of all keys"
        )
        assert camera.do("low 0 100 0")["result"] == 0
        assert camera.do("key 0 99 8")["result"] == -3
        assert camera.do("mark 0 4 5")["result"] == 0
        assert camera.do("key 0 5 8")["result"] == 0
        assert camera.do("counts 0")["key_refused"] == 6
        assert camera.close() == 0
        log = recorder.log("a")
        check_sequences(log)
        assert [item.key for item in log.items] == [65_530, 3, 5, 5]
        assert log.items[2].kind == NUMBERING
        recorder.check()


def test_times_may_be_equal(driver: Path) -> None:
    with (
        Recorder() as recorder,
        FrontEnd(driver, recorder.url, sources="a", key_kind=2).opened() as camera,
    ):
        for key in [10, 10, 11]:
            assert camera.do(f"key 0 {key} 8")["result"] == 0
        assert camera.do("key 0 10 8")["result"] == -3
        assert camera.close() == 0
        recorder.check()


def test_a_fragment_longer_than_granted_is_refused(driver: Path) -> None:
    with (
        Recorder() as recorder,
        FrontEnd(driver, recorder.url, sources="a", bytes_max=1000).opened() as camera,
    ):
        refused = camera.do("key 0 1 1001")
        assert refused["error"] == (
            'source 0 "a": a fragment of 1001 bytes; fragment_bytes_max is 1000'
        )
        assert camera.close() == 0


def test_low_water_keys_stand_in_order_with_items(client: Way) -> None:
    with (
        client.recorder() as recorder,
        client.front_end(recorder, sources="a,b").opened() as camera,
    ):
        assert camera.do("send 0 10 100")["sent"] == 10
        assert camera.do("low 0 50 0")["result"] == 0
        assert camera.do("low 1 7 1")["result"] == 0
        recorder.wait(lambda: (10, 50, False) in recorder.log("a").low_waters)
        recorder.wait(lambda: (0, 7, True) in recorder.log("b").low_waters)
        recorder.cut()  # and said again behind the backlog
        recorder.wait(lambda: recorder.log("b").low_waters.count((0, 7, True)) >= 2)
        assert camera.close() == 0
        recorder.check()


def test_sources_of_one_connection_come_in_the_order_of_their_keys(client: Way) -> None:
    names = [f"s{number}" for number in range(20)]
    with (
        client.recorder() as recorder,
        client.front_end(recorder, sources=",".join(names), skew=10_000).opened() as camera,
    ):
        assert camera.do("each 0 500 100")["result"] == 0
        assert camera.close() == 0
        for source, name in enumerate(names):
            check_fragments(recorder.log(name), source, [100] * 500)
        assert (recorder.session.data_connections, recorder.session.skew_bytes) == (16, 10_000)
        recorder.check()
        assert recorder.key_skew_bytes_max <= 10_000


def test_a_source_of_a_shared_connection_that_is_silent_bounds_the_others(client: Way) -> None:
    names = [f"s{number}" for number in range(17)]  # the last one shares the first connection
    with (
        client.recorder() as recorder,
        client.front_end(recorder, sources=",".join(names), skew=10_000).opened() as camera,
    ):
        assert camera.do("send 0 200 1000")["sent"] == 200
        recorder.wait_taken(1)
        recorder.wait_pings(2)
        assert recorder.taken < 20
        assert camera.do("low 16 150 0")["result"] == 0
        recorder.wait_taken(150)
        recorder.wait_pings(2)
        assert recorder.taken < 170
        assert camera.do("low 16 150 1")["result"] == 0  # idle
        recorder.wait_taken(200)
        assert camera.close() == 0
        check_fragments(recorder.log("s0"), 0, [1000] * 200)
        recorder.check()


def test_a_recorder_is_found_by_name(client: Way) -> None:
    with client.recorder() as recorder:
        url = recorder.url.replace("127.0.0.1", "localhost")
        with FrontEnd(client.program, url, sources="a").opened() as camera:
            assert camera.do("send 0 10 10")["sent"] == 10
            assert camera.close() == 0
        check_fragments(recorder.log("a"), 0, [10] * 10)


def test_commands_are_answered_and_make_marks(way: Way) -> None:
    with way.recorder() as recorder:
        recorder.state = 0
        recorder.run = bytes(16)
        with way.front_end(recorder, sources="a,b", flags=2, refuse=3).opened() as camera:
            recorder.run = b"a new run to come"[:16]

            def command(number: int, kind: int) -> None:
                recorder.command(number, kind)
                recorder.wait(lambda: any(one[0] == number for one in recorder.session.answers))

            command(1, 1)
            command(2, 2)
            assert camera.do("send 0 5 100")["sent"] == 5
            command(3, 3)
            command(4, 5)
            command(5, 99)
            assert camera.close() == 0
            answers = recorder.session.answers
            assert answers[:5] == [
                (1, 1, ""),
                (2, 4, ""),
                (3, 2, "no high voltage"),
                (4, 4, ""),
                (5, 2, "no command has the kind 99"),
            ]
            kinds = [item.kind for item in recorder.log("a").items]
            assert kinds == [BEGIN, 0, 0, 0, 0, 0, END]
            begin, end = recorder.log("a").items[0], recorder.log("a").items[-1]
            assert (begin.run_number, end.run_number, end.key_last) == (42, 42, 4)
            assert [item.kind for item in recorder.log("b").items] == [BEGIN, END]
        recorder.check()


def test_a_front_end_that_stops_in_a_pause_sends_nothing_meanwhile(client: Way) -> None:
    with (
        client.recorder() as recorder,
        client.front_end(recorder, sources="a", flags=2, stops=1, buffer_ms=640).opened() as camera,
    ):
        assert (recorder.session.flags, recorder.session.buffer_ms) == (3, 640)

        def command(number: int, kind: int) -> None:
            recorder.command(number, kind)
            recorder.wait(lambda: (number, 4, "") in recorder.session.answers)

        recorder.wait_taken(1)  # the mark begin
        command(1, 3)
        assert camera.do("send 0 5 100")["sent"] == 5
        recorder.wait_pings(2)
        assert recorder.taken == 1
        command(2, 4)
        recorder.wait_taken(6)
        command(3, 3)
        assert camera.do("send 0 5 100")["sent"] == 5
        command(4, 5)  # the run's end lets go what is held
        recorder.wait_taken(12)
        assert [item.kind for item in recorder.log("a").items] == [BEGIN] + [0] * 10 + [END]
        assert camera.close() == 0
        recorder.check()


def test_a_setting_comes_back_as_a_mark(client: Way) -> None:
    record = bytes([2, 3, 2, 0]) + b"\xff" * 4 + (5).to_bytes(8, "little") + bytes(48) + b"gain"
    note = bytes([2, 5, 2, 0]) + b"\xff" * 4 + bytes(56) + b"note"
    locked = bytes([2, 3, 2, 0]) + b"\xff" * 4 + bytes(56) + b"locked"
    with (
        client.recorder() as recorder,
        client.front_end(recorder, sources="a").opened() as camera,
    ):
        recorder.command(1, 7, record.ljust(128, b"\0"))
        recorder.wait(lambda: len(recorder.session.answers) >= 1)
        recorder.command(2, 7, note.ljust(128, b"\0"), "dark frames")
        recorder.wait(lambda: len(recorder.session.answers) >= 2)
        recorder.command(3, 7, locked.ljust(128, b"\0"))
        recorder.wait(lambda: len(recorder.session.answers) >= 3)
        recorder.command(3, 7, locked.ljust(128, b"\0"))  # again: the same answer
        recorder.wait(lambda: len(recorder.session.answers) >= 4)
        assert camera.do("commands")["commands"] == ["gain=5", "note=dark frames", "locked=0"]
        assert camera.close() == 0
        assert recorder.session.answers == [
            (1, 4, ""),
            (2, 4, ""),
            (3, 2, "locked is fixed"),
            (3, 2, "locked is fixed"),
        ]
        marks = [(item.kind, item.text) for item in recorder.log("a").items]
        assert marks == [(SETTING, "gain=5"), (SETTING, "note=dark frames")]
        recorder.check()


def test_an_answer_may_come_later(client: Way) -> None:
    with (
        client.recorder() as recorder,
        client.front_end(recorder, later=1).opened() as camera,
    ):
        recorder.command(1, 1)
        recorder.wait(lambda: (1, 3, "") in recorder.session.answers)
        assert camera.do("answer 1")["result"] == 0
        recorder.wait(lambda: (1, 2, "the pump is off") in recorder.session.answers)
        assert camera.close() == 0
        recorder.check()


def test_reports_arrive_and_come_again_after_a_break(client: Way) -> None:
    with (
        client.recorder() as recorder,
        client.front_end(recorder, token="secret", index=3).opened() as camera,
    ):
        assert camera.do("send 0 1 10")["sent"] == 1
        assert camera.do("status cooling down")["result"] == 0
        assert camera.do("alarm hot")["result"] == 0

        def times(text: str) -> int:
            said = [told for kind, _, _, told in recorder.session.reports if kind == STATUS]
            return said.count(text)

        recorder.wait(lambda: times("cooling down") >= 1)
        recorder.wait(lambda: any(report[1] == "hot" for report in recorder.session.reports))
        recorder.cut()
        recorder.wait(lambda: times("cooling down") >= 2)
        recorder.wait(lambda: any(report[1] == "made" for report in recorder.session.reports))
        assert camera.close() == 0
        assert recorder.session.name == "camera-3"
        assert recorder.session.token == "secret"
        assert recorder.session.program.startswith("driver 1.0" if client.is_c else "catchment")
        recorder.check()


def test_three_malformed_messages_without_progress_end_the_session(client: Way) -> None:
    with client.recorder() as recorder, client.front_end(recorder).opened() as camera:
        for opened in range(1, 4):
            recorder.wait_opened(opened)
            recorder.send_raw(b"\xc7\x4c\x05\x00" + bytes(20))
        while camera.do("try 0 1 10")["result"] != -2:
            pass
        error = camera.do("key 0 1000000 10")["error"] if client.is_c else ""
        assert not client.is_c or 'malformed: the fault "number"' in error


@pytest.mark.parametrize("fault", ["cut", "restart", "mute", "down"])
def test_a_break_of_a_channel_link_loses_no_packet_and_gives_none_twice(
    way: Way, fault: str
) -> None:
    with (
        way.recorder(CHANNELS) as recorder,
        way.front_end(recorder, channels=1).opened() as magnets,
    ):
        recorder.is_durable_at_once = fault != "restart"
        breaks = [57] if fault in {"mute", "down"} else [57, 1_500, 1_501]
        for items in breaks:
            recorder.after(items, getattr(recorder, fault))
        if fault == "restart":
            recorder.after(1_400, recorder.cut)
        recorder.after(800, recorder.make_durable)
        assert magnets.do("send 0 2000 500")["sent"] == 2_000
        if fault == "down":
            recorder.wait(lambda: recorder.listener is None)
            recorder.up()
        recorder.wait_taken(1_502)
        recorder.is_durable_at_once = True
        assert magnets.do("send 0 1 65507")["sent"] == 1
        assert magnets.close() == 0
        check_fragments(recorder.log(), 0, [500] * 2_000 + [65_507])
        assert recorder.session.opened > len(breaks)
        recorder.check()


def test_a_channel_link_without_packets_says_that_it_lives(way: Way) -> None:
    with (
        way.recorder(CHANNELS) as recorder,
        way.front_end(recorder, channels=1).opened() as magnets,
    ):
        assert magnets.do("send 0 3 10")["sent"] == 3
        recorder.wait_pings(5)  # longer than a recorder bears silence on the data connection
        recorder.wait(lambda: len(recorder.log().low_waters) >= 3)
        assert {sequence for sequence, _, _ in recorder.log().low_waters} <= {0, 3}
        assert (recorder.session.opened, magnets.close()) == (1, 0)
        recorder.check()
