"""What the front-end in Python, and so in Rust, says and does that `driver.py` has no line for."""

import threading

import pytest

from catchment import frontend
from frontend import check_sequences
from recorder import Recorder


def test_many_threads_may_send_to_one_source() -> None:
    with Recorder() as recorder:
        recorder.after(700, recorder.cut)
        lock, keys = threading.Lock(), iter(range(2_000))
        with frontend.connect(recorder.url, "camera", buffer="1 MiB") as camera:

            def send() -> None:
                while True:
                    with lock:
                        key = next(keys, None)
                        if key is None:
                            return
                        camera.send(key, bytes([key % 256]) * (key % 3_000))

            threads = [threading.Thread(target=send) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        check_sequences(recorder.log())
        assert [len(item.data) for item in recorder.log().fragments] == [
            key % 3_000 for key in range(2_000)
        ]
        recorder.check()


def test_a_refusal_for_good_is_told_in_its_words() -> None:
    with Recorder() as recorder:
        recorder.refuse(2, 0, "no such token")
        with pytest.raises(frontend.FrontendError, match="token: no such token"):
            frontend.connect(recorder.url, "camera")
        recorder.refused_logs = {"b": 6}
        link = frontend.connect(recorder.url, "camera", sources=["a", "b"])
        with pytest.raises(frontend.FrontendError, match="refuses the source"):
            link["b"].send(1, b"data")
        link["a"].send(1, b"data")
        assert link.close(60) == 0
        recorder.check()


def test_a_fragment_longer_than_granted_is_refused() -> None:
    with Recorder() as recorder:
        camera = frontend.connect(recorder.url, "camera", fragment_bytes_max=1_000)
        with pytest.raises(ValueError, match="1001"):
            camera.send(1, bytes(1_001))
        assert camera.close(60) == 0


def test_a_front_end_may_start_before_its_recorder() -> None:
    with Recorder() as recorder:
        recorder.down()
        camera = frontend.connect(recorder.url, "camera", wait=0)
        camera.send(1, b"early")
        recorder.up()
        assert camera.close(60) == 0
        assert [item.data for item in recorder.log().fragments] == [b"early"]
        recorder.check()


def test_who_waits_for_room_is_told_that_it_was_closed() -> None:
    with Recorder() as recorder:
        recorder.hold()
        camera = frontend.connect(
            recorder.url, "camera", buffer="64 KiB", fragment_bytes_max=65_536
        )
        camera.send(0, bytes(65_536))
        ended = []

        def wait() -> None:
            try:
                camera.send(1, bytes(65_536))
            except frontend.FrontendError as error:
                ended.append(str(error))

        waits = threading.Thread(target=wait)
        waits.start()
        while camera.sources[0].counts["full"] == 0:
            pass
        # The fragment, and perhaps the mark that the run has begun.
        assert camera.close(0) in (1, 2)
        waits.join()
        assert len(ended) == 1
