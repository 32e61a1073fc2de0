"""Front-ends send to the recorder for tests."""

import threading
from typing import Any

import numpy as np
import pytest

from catchment import frontend


@pytest.fixture
def recorder() -> frontend.TestRecorder:
    return frontend.TestRecorder()


def test_arrays_and_bytes_arrive_as_they_are(recorder: frontend.TestRecorder) -> None:
    image = np.arange(12, dtype=np.uint16).reshape(3, 4)
    sent: list[Any] = [
        b"bytes",
        bytearray(b"more"),
        memoryview(b"a view"),
        image,
        image[:, ::2],
        image.T,
        image.astype(">u2"),
        np.array([], np.float64),
        np.datetime64("2026-01-01", "ns"),
        [1.5, 2.5],
    ]
    with frontend.connect(recorder.url, "camera") as camera:
        for key, data in enumerate(sent):
            camera.send(key, data)
    expected = [
        bytes(data)
        if isinstance(data, bytes | bytearray | memoryview)
        else np.array(data).tobytes()
        for data in sent
    ]
    assert recorder.taken("camera") == list(enumerate(expected))
    assert recorder.faults == []


def test_nothing_is_lost_over_cuts_and_restarts(recorder: frontend.TestRecorder) -> None:
    random = np.random.default_rng(1)
    images = [random.integers(0, 256, 2_000, np.uint8) for _ in range(300)]
    link = frontend.connect(recorder.url, "camera", sources=["left", "right"], buffer="2 MiB")
    for key, image in enumerate(images):
        link["left"].send(key, image)
        link["right"].send(key, image[:100])
        if key == 100:
            recorder.cut()
        if key == 200:
            recorder.restart()
    assert link.close(600) == 0
    left = [(key, image.tobytes()) for key, image in enumerate(images)]
    assert recorder.taken("camera/left") == left
    assert recorder.taken("camera/right") == [(key, image[:100]) for key, image in left]
    assert recorder.faults == []
    # The mark that begins the run is an item, too.
    assert link["left"].counts["durable"] == 301


def test_a_ring_that_is_full_says_so(recorder: frontend.TestRecorder) -> None:
    recorder.pause()
    link = frontend.connect(recorder.url, "camera", buffer="64 KiB", fragment_bytes_max=20_000)
    for key in range(3):
        assert link.try_send(key, bytes(20_000)) is frontend.Sent.ACCEPTED
    assert link.try_send(3, bytes(20_000)) is frontend.Sent.FULL
    link.sources[0].abandon(1, "buffer", keys=(3, 3))
    link.sources[0].setting("gain", "5")
    # While one thread waits for room, others go on.
    waits = threading.Thread(target=link.send, args=(4, bytes(20_000)))
    waits.start()
    recorder.go_on()
    waits.join()
    assert link.close(600) == 0
    assert [key for key, _ in recorder.taken("camera")] == [0, 1, 2, 4]
    assert link.sources[0].counts["abandoned"] == 1
    assert link.try_send(5, b"") is frontend.Sent.ENDED


def test_an_answer_that_is_not_used_is_a_warning(recorder: frontend.TestRecorder) -> None:
    recorder.pause()
    link = frontend.connect(recorder.url, "camera", buffer="64 KiB", fragment_bytes_max=20_000)
    source = link.sources[0]
    answers = [link.try_send(key, bytes(20_000)) for key in range(6)]
    assert answers[3:] == [frontend.Sent.FULL] * 3
    assert link.try_send(5, bytes(20_000)) is frontend.Sent.FULL
    assert source.dropped == 3
    recorder.go_on()
    link.send(5, b"sent again")
    assert source.dropped == 2
    source.abandon(1, "buffer")
    assert source.dropped == 1
    with pytest.warns(RuntimeWarning, match="1 fragments were neither"):
        assert link.close(600) == 0
    assert [key for key, _ in recorder.taken("camera")] == [0, 1, 2, 5]


def test_what_is_not_durable_is_told(recorder: frontend.TestRecorder) -> None:
    recorder.durable_at_once(False)
    link = frontend.connect(recorder.url, "camera")
    for key in range(5):
        link.send(key, b"data")
    assert link.status.startswith("connected; ")
    # These, and the mark that begins the run.
    assert link.close(0.05) == 6
    assert link.status == "closed"
    error = frontend.NotConfirmedError(5)
    assert (error.count, str(error)) == (5, "5 items are not confirmed by the recorder")
    with pytest.raises(frontend.FrontendError, match="nothing more can be sent"):
        link.send(5, b"late")


def test_what_is_wrong_is_said(recorder: frontend.TestRecorder) -> None:
    with pytest.raises(ValueError, match="no address of a recorder"):
        frontend.connect("daq1:7100", "camera")
    with pytest.raises(ValueError, match="a size such as 64 MiB"):
        frontend.connect(recorder.url, "camera", buffer="much")
    with pytest.raises(ValueError, match="skew is at most 1 GiB, got 2147483648 bytes"):
        frontend.connect(recorder.url, "camera", skew="2 GiB")
    source = frontend.Source(name="", key_bits=7)
    with pytest.raises(ValueError, match="key_bits is 16 to 48"):
        frontend.connect(recorder.url, "camera", sources=[source])
    with pytest.raises(frontend.FrontendError, match="no recorder at"):
        frontend.connect("catchment+tcp://127.0.0.1:1", "camera", wait=0.01)
    with frontend.connect(recorder.url, "camera") as camera:
        camera.send(7, b"")
        with pytest.raises(ValueError, match="the key 7 does not rise above 7"):
            camera.send(7, b"")
        with pytest.raises(TypeError):
            camera.send(8, np.array([object()]))


def test_close_waits_for_a_callback_that_runs(recorder: frontend.TestRecorder) -> None:
    called, closed = threading.Event(), threading.Event()
    early = []

    def on_command(_command: frontend.Command) -> None:
        called.set()
        # A close that does not wait for this is over long before.
        early.append(closed.wait(0.5))

    camera = frontend.connect(recorder.url, "camera", on_command=on_command)
    recorder.command("prepare", 42)
    called.wait()
    assert camera.close(600) == 0
    assert early == [False]
    closed.set()


def test_a_callback_cannot_close_its_session(recorder: frontend.TestRecorder) -> None:
    def on_command(_command: frontend.Command) -> None:
        camera.close()

    camera = frontend.connect(recorder.url, "camera", on_command=on_command)
    number = recorder.command("prepare", 42)
    text = "a callback cannot close the session that calls it"
    while (number, "Refused", text) not in recorder.answers():
        pass
    assert camera.status.startswith("connected")
    assert camera.close(600) == 0


def test_a_command_is_answered_by_the_callback(recorder: frontend.TestRecorder) -> None:
    called = threading.Event()
    commands = []

    def on_command(command: frontend.Command) -> None:
        commands.append(command)
        called.set()
        if command.kind == "start":
            raise RuntimeError("no beam")
        raise TimeoutError

    with frontend.connect(recorder.url, "camera", on_command=on_command) as camera:
        number = recorder.command("start", 42)
        called.wait()
        key = 0
        while not recorder.answers():
            camera.send(key, b"while it answers")
            key += 1
        recorder.command("pause", 42)
        while (number + 1, "Refused", "TimeoutError") not in recorder.answers():
            pass
    assert commands == [frontend.Command(kind, 42, {}) for kind in ("start", "pause")]
    assert recorder.answers()[0] == (number, "Refused", "no beam")
