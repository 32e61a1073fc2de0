"""The examples in C, compiled as their first lines say, and what a recorder makes of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import catchment
from tls import why_no_tls

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


def built(folder: Path, example: str, *more: str) -> Path:
    """An example, compiled as its first line says."""
    program = folder / example
    files = [C / "examples" / f"{example}.c", C / "catchment.c"]
    subprocess.run(["cc", "-O2", f"-I{C}", *files, *more, "-lpthread", "-o", program], check=True)
    return program


def record(folder: Path, example: str, sources: str, *arguments: str) -> Path:
    """Record what an example sends: the folder of the run."""
    program = built(folder, example)
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
    check_hello(record(tmp_path, "hello", CAMERA))


def test_hello_is_recorded_under_tls_with_a_token(tmp_path: Path) -> None:
    """The certificate is the node's own; a token that it does not know is refused by its words."""
    if why := why_no_tls():
        pytest.skip(why)
    program = built(tmp_path, "hello_tls", str(C / "catchment_tls.c"), "-lssl", "-lcrypto")
    protected = CONFIG.replace("[[listen]]", "[[listen]]\ntls = true\ntokens = true")
    (tmp_path / "run.toml").write_text(protected + CAMERA)
    run = [sys.executable, "-m", "catchment"]
    add = [*run, "token", "add", "crate", "--role", "source"]
    made = subprocess.run(add, cwd=tmp_path, check=True, capture_output=True, text=True)
    token = made.stdout.strip()

    def hello(token: str) -> str:
        command = [str(program), f"catchment://{address}", str(trusted)]
        environment = {**os.environ, "CATCHMENT_TOKEN": token}
        made = subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=False)
        return made.stderr.decode()

    command = [*run, "run", "run.toml"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        line = next(line for line in recorder.stdout if line.startswith("Front-ends connect to"))
        address = line.split()[-1].rstrip(".")
        trusted = tmp_path / "runs" / ".catchment" / "tls" / "certificate.pem"
        said = [hello("wrong"), hello(token)]
        recorder.send_signal(signal.SIGINT)
        recorder.stdout.read()
    assert recorder.returncode == 0
    assert "token (2): no token of the role source" in said[0]
    assert said[1] == ""
    check_hello(next((tmp_path / "runs").glob("run-*")))


def check_hello(run: Path) -> None:
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
