"""From a front-end in Python to a recorder, its files, and arrays in Python again."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import catchment
from catchment import frontend
from fixtures import REPOSITORY, free_port

CONFIG = """
[memory]
budget = "512 MiB"
[write]
buffer_bytes = "256 KiB"
preallocate_bytes = "1 MiB"
[frame]
time = "100 ms"
[[listen]]
address = "127.0.0.1:0"
[[sources]]
name = "camera/left"
via = "link"
payload = { dtype = "u16", shape = [16, 16] }
[[sources]]
name = "camera/right"
via = "link"
payload = { dtype = "f64" }
"""
EVENTS = 500


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record what a front-end of two sources sends."""
    root = tmp_path_factory.mktemp("frontend")
    (root / "run.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "catchment", "run", "run.toml", "--events", str(EVENTS)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        line = next(line for line in recorder.stdout if line.startswith("Front-ends connect to"))
        url = f"catchment+tcp://{line.split()[-1].rstrip('.')}"
        with frontend.connect(url, "camera", sources=["left", "right"]) as camera:
            for key in range(EVENTS):
                camera["left"].send(key, image(key))
                camera["right"].send(key, wave(key))
        recorder.stdout.read()
    assert recorder.returncode == 0
    return next((root / "runs").glob("run-*"))


def image(key: int) -> np.ndarray:
    return (np.arange(256, dtype=np.uint16).reshape(16, 16) + key).astype(np.uint16)


def wave(key: int) -> np.ndarray:
    return np.sin(np.arange(key % 50) + key)


def test_what_was_sent_is_read_back(run: Path) -> None:
    with catchment.open(run) as recorded:
        assert list(recorded.sources) == ["camera/left", "camera/right"]
        assert len(recorded.events) == EVENTS
        left, right = recorded["camera/left"], recorded["camera/right"]
        images = left.fragments(0, EVENTS).array
        assert np.array_equal(images, np.stack([image(key) for key in range(EVENTS)]))
        for key in range(EVENTS):
            fragment = right.event(key)
            assert fragment is not None
            assert np.array_equal(fragment.view(np.float64), wave(key))
        ledger = recorded.ledger.total
        assert ledger["fragments_recorded"] == ledger["fragments_received"] == 2 * EVENTS
    report = catchment.audit(run)
    assert (report.verdict, report.problems) == ("balanced", ())


def test_under_tls_a_front_end_shows_a_token(tmp_path: Path) -> None:
    """The certificate is the node's own, and the token one of the role source."""
    protected = CONFIG.replace("[[listen]]", "[[listen]]\ntls = true\ntokens = true")
    (tmp_path / "run.toml").write_text(protected)
    catchment_command = [sys.executable, "-m", "catchment"]
    add = [*catchment_command, "token", "add", "crate", "--role", "source"]
    token = subprocess.run(add, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    command = [*catchment_command, "run", "run.toml", "--events", "10"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        line = next(line for line in recorder.stdout if line.startswith("Front-ends connect to"))
        url = f"catchment://{line.split()[-1].rstrip('.')}"
        trusted = tmp_path / "runs" / ".catchment" / "tls" / "certificate.pem"
        names = ["left", "right"]
        with pytest.raises(frontend.FrontendError, match="no token of the role source"):
            frontend.connect(url, "camera", sources=names, certificate=trusted, token="wrong")
        link = frontend.connect(
            url, "camera", sources=names, certificate=trusted, token=token.strip()
        )
        with link as camera:
            for key in range(10):
                camera["left"].send(key, image(key))
                camera["right"].send(key, wave(key))
        recorder.stdout.read()
    assert recorder.returncode == 0
    with catchment.open(next((tmp_path / "runs").glob("run-*"))) as recorded:
        assert len(recorded.events) == 10


def test_front_ends_come_in_the_clear_and_under_tls(tmp_path: Path) -> None:
    """Each of two front-ends by a listener of its own; one in the clear is refused by name."""
    second = '[[listen]]\naddress = "127.0.0.1:0"\ntls = "all"\n[[sources]]'
    (tmp_path / "run.toml").write_text(CONFIG.replace("[[sources]]", second, 1))
    command = [sys.executable, "-m", "catchment", "run", "run.toml", "--events", "10"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        lines = (line for line in recorder.stdout if line.startswith("Front-ends connect to"))
        clear, secured = (next(lines).split()[-1].rstrip(".") for _ in range(2))
        trusted = tmp_path / "runs" / ".catchment" / "tls" / "certificate.pem"
        with pytest.raises(frontend.FrontendError, match="connect under TLS"):
            frontend.connect(f"catchment+tcp://{secured}", "camera/left")
        with (
            frontend.connect(f"catchment+tcp://{clear}", "camera/left") as left,
            frontend.connect(
                f"catchment://{secured}", "camera/right", certificate=trusted
            ) as right,
        ):
            for key in range(10):
                left.send(key, image(key))
                right.send(key, wave(key))
        recorder.stdout.read()
    assert recorder.returncode == 0
    with catchment.open(next((tmp_path / "runs").glob("run-*"))) as recorded:
        assert len(recorded.events) == 10
        fragment = recorded["camera/right"].event(7)
        assert fragment is not None
        assert np.array_equal(fragment.view(np.float64), wave(7))


GROUPS = """
[[listen]]
address = "127.0.0.1:0"
[[sources]]
name = "crate/trigger"
via = "link"
[[sources]]
name = "crate/left"
via = "link"
expected_in = [0]
[[sources]]
name = "crate/right"
via = "link"
"""


def test_a_source_that_was_not_expected_is_not_missing(tmp_path: Path) -> None:
    """The trigger names group 0 for even events, group 1 for odd ones; one fragment never comes."""
    (tmp_path / "run.toml").write_text(CONFIG[: CONFIG.index("[[listen]]")] + GROUPS)
    command = [sys.executable, "-m", "catchment", "run", "run.toml", "--events", "20"]
    sources = [
        frontend.Source(name="trigger", reference=True),
        frontend.Source(name="left"),
        frontend.Source(name="right", groups=1 << 1),
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        line = next(line for line in recorder.stdout if line.startswith("Front-ends connect to"))
        url = f"catchment+tcp://{line.split()[-1].rstrip('.')}"
        with frontend.connect(url, "crate", sources=sources) as crate:
            for key in range(20):
                crate["trigger"].send(key, b"trigger", groups=1 << (key % 2))
                if key != 10:
                    crate["right" if key % 2 else "left"].send(key, b"data")
            for name in ("trigger", "left", "right"):
                crate[name].low_water(20)
        recorder.stdout.read()
    assert recorder.returncode == 3
    with catchment.open(next((tmp_path / "runs").glob("run-*"))) as recorded:
        even = np.arange(20) % 2 == 0
        left, right = (recorded[f"crate/{name}"].fragments() for name in ("left", "right"))
        assert np.array_equal(left.expected, even)
        assert np.array_equal(left.expected & ~left.valid, np.arange(20) == 10)
        assert np.array_equal(right.expected, ~even)
        assert np.array_equal(right.valid, ~even)
        assert recorded["crate/trigger"].fragments(5, 8).expected.all()
        assert recorded.events.missing(10) == ["crate/left"]
        assert recorded.events.missing(11) == []
        assert recorded.events.incomplete == 1
        assert recorded.ledger.total["fragments_missing"] == 1


def recorder(root: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    """Start a recorder; also say where front-ends connect to it."""
    command = [sys.executable, "-m", "catchment", "run", "run.toml", *options]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = next(line for line in process.stdout if line.startswith("Front-ends connect to"))
    return process, f"catchment+tcp://{line.split()[-1].rstrip('.')}"


DUMMY = """
[[sources]]
name = "dummy-2/s0"
via = "link"
[[sources]]
name = "dummy-2/s1"
via = "link"
"""


def test_the_dummy_is_recorded_and_read_back(tmp_path: Path) -> None:
    """The example, from its process to the file: the sources, bytes and keys that it sends."""
    (tmp_path / "run.toml").write_text(CONFIG[: CONFIG.index("[[sources]]")] + DUMMY)
    process, url = recorder(tmp_path)
    options = "--sources 2 --bytes 5000 --rate 2000 --seconds 1 --index 2"
    dummy = [sys.executable, str(REPOSITORY / "examples/dummy.py"), url, *options.split()]
    said = subprocess.run(dummy, check=True, capture_output=True, text=True).stdout
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0
    assert said.endswith("; 0 not confirmed\n")
    (run,) = (tmp_path / "runs").glob("run-*")
    data = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
    with catchment.open(run) as recorded:
        count = len(recorded.events)
        assert int(said.split()[0]) == 2 * count > 0
        for source in ("dummy-2/s0", "dummy-2/s1"):
            assert np.array_equal(recorded[source].fragments().data, np.tile(data, count))
        keys = np.array(recorded.events.keys)
        assert (np.diff(keys) == 1).all()
    assert catchment.audit(run).verdict == "balanced"


def test_a_run_that_went_on_after_its_recorder_was_killed_is_one_run(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "run.toml").write_text(CONFIG.replace("127.0.0.1:0", address))
    killed, _ = recorder(tmp_path)
    sources = ["left", "right"]
    with frontend.connect(f"catchment+tcp://{address}", "camera", sources=sources) as camera:
        for key in range(EVENTS):
            if key == EVENTS // 2:
                killed.kill()
                killed.communicate()
                went_on, _ = recorder(tmp_path)
            camera["left"].send(key, image(key))
            camera["right"].send(key, wave(key))
    went_on.send_signal(signal.SIGINT)
    went_on.communicate()
    assert went_on.returncode == 0
    (run,) = (tmp_path / "runs").glob("run-*")
    with catchment.open(run) as recorded:
        assert list(recorded.events.keys) == list(range(EVENTS))
        images = recorded["camera/left"].fragments(0, EVENTS).array
        assert np.array_equal(images, np.stack([image(key) for key in range(EVENTS)]))
        ledger = recorded.ledger.total
        assert ledger["fragments_recorded"] == ledger["fragments_received"] == 2 * EVENTS
        assert ledger["fragments_lost_restart"] == 0
    assert catchment.audit(run).verdict == "balanced"


MORTAL = """
import sys
from catchment import frontend
from test_frontend_run import image, wave

url, first = sys.argv[1], int(sys.argv[2])
with frontend.connect(url, "camera", sources=["left", "right"]) as camera:
    for sent in range(1_000_000):
        key = first + sent
        camera["left"].send(key, image(key % 50_000))
        camera["right"].send(key, wave(key))
        if sent % 16 == 15:
            counts = [camera[name].counts for name in ("left", "right")]
            # Items are fragments, and marks.
            print(min(one["durable"] - (one["made"] - sent - 1) for one in counts), flush=True)
"""


def test_what_a_front_end_was_told_to_be_durable_outlives_it(tmp_path: Path) -> None:
    """Kill a front-end five times under load; another process goes on with keys of its own."""
    (tmp_path / "run.toml").write_text(CONFIG)
    process, url = recorder(tmp_path)
    durable = []
    try:
        for life in range(5):
            command = [sys.executable, "-c", MORTAL, url, str(life * 1_000_000)]
            with subprocess.Popen(
                command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
            ) as front_end:
                assert front_end.stdout is not None
                told = (int(line) for line in front_end.stdout)
                last = next(count for count in told if count > 200)
                front_end.kill()
                # What it had printed by then is true too.
                durable.append(max([last, *told]))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    (run,) = (tmp_path / "runs").glob("run-*")
    with catchment.open(run) as recorded:
        keys = np.array(recorded.events.keys)
        for life, count in enumerate(durable):
            first = life * 1_000_000
            of_life = keys[(first <= keys) & (keys < first + 1_000_000)]
            assert len(of_life) >= count
            assert np.array_equal(of_life, np.arange(first, first + len(of_life)))
        left, right = recorded["camera/left"], recorded["camera/right"]
        absent = 0
        for key in keys.tolist():
            for source, made in ((left, image(key % 50_000)), (right, wave(key))):
                fragment = source.event(key)
                absent += fragment is None
                assert fragment is None or fragment.tobytes() == made.tobytes()
        ledger = recorded.ledger.total
        assert ledger["fragments_recorded"] == ledger["fragments_received"] >= 2 * sum(durable)
        # What a front-end had sent of one source and not yet of the other is its loss.
        assert ledger["fragments_missing"] == absent
    assert catchment.audit(run).verdict == ("data_lost" if absent else "balanced")
