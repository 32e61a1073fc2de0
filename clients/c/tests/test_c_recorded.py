"""The examples in C, compiled as their first lines say, and what a recorder makes of them."""

import signal
import subprocess
import sys
from pathlib import Path

import catchment

C = Path(__file__).parent.parent
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
"""
CAMERA = """
[[sources]]
name = "camera"
via = "link"
payload = { dtype = "u16", shape = [256, 256] }
"""
DUMMY = """
[[sources]]
name = "dummy/s0"
via = "link"
[[sources]]
name = "dummy/s1"
via = "link"
"""


def record(folder: Path, example: str, sources: str, *arguments: str) -> Path:
    """Record what an example sends: the folder of the run."""
    program = folder / example
    files = [C / "examples" / f"{example}.c", C / "catchment.c"]
    subprocess.run(["cc", "-O2", f"-I{C}", *files, "-lpthread", "-o", program], check=True)
    (folder / "run.toml").write_text(CONFIG + sources)
    command = [sys.executable, "-m", "catchment", "run", "run.toml"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        line = next(line for line in recorder.stdout if line.startswith("Front-ends connect to"))
        url = f"catchment+tcp://{line.split()[-1].rstrip('.')}"
        subprocess.run([program, url, *arguments], check=True)
        recorder.send_signal(signal.SIGINT)
        recorder.stdout.read()
    assert recorder.returncode == 0
    return next((folder / "runs").glob("run-*"))


def test_hello_is_recorded(tmp_path: Path) -> None:
    run = record(tmp_path, "hello", CAMERA)
    with catchment.open(run) as recorded:
        images = recorded["camera"].fragments(0, 1000).array
        assert images.shape == (1000, 256, 256)
        assert images[:, 0, 0].tolist() == list(range(1000))
        assert not images[:, 1:].any()
    assert catchment.audit(run).verdict == "balanced"


def test_the_dummy_is_recorded(tmp_path: Path) -> None:
    arguments = ["--sources", "2", "--bytes", "5000", "--rate", "2000", "--seconds", "1"]
    run = record(tmp_path, "dummy", DUMMY, *arguments)
    with catchment.open(run) as recorded:
        total = recorded.ledger.total
        assert total["fragments_recorded"] == total["fragments_received"]
        assert total["fragments_recorded"] == 2 * len(recorded.events) > 0
        keys = recorded.events.keys
        assert (keys[1:] - keys[:-1] == 1).all()
    assert catchment.audit(run).verdict == "balanced"
