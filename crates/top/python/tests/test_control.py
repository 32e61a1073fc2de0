"""A node under control, by the Python client and by what a fuzzer of its OpenAPI document sends."""

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import catchment
from fixtures import Node

# Nothing takes so long: reached only when an answer never comes.
PATIENCE_SECONDS = 1200


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    if node.process.poll() is None:
        node.end()
    elif node.process.stdout is not None:
        node.process.stdout.close()


def test_a_run_from_start_to_stop(node: Node) -> None:
    control = catchment.Control(node.url, timeout=PATIENCE_SECONDS)
    assert control.state()["verdict"]["level"] == "not_recording"
    number = control.start("a test")["run"]
    states = (value for name, value in control.stream() if name == "state")
    recording = next(state for state in states if state["verdict"]["level"] == "good")
    assert recording["run"]["comment"] == "a test"
    assert control.stop()["state"] == "configured"
    run = control.run(number)
    assert (run["state"], run["loss_count"], run["comment"]) == ("complete", 0, "a test")
    assert control.ledger(number)["fragments_recorded"] > 0
    assert control.runs(search="test")[0]["number"] == number
    assert {device["path"] for device in control.devices()} >= {"node/recorder", "node/emulator"}
    assert control.set("node/emulator", rate_hz=100)["properties"]["rate_hz"] == 100
    assert any("recording" in line["message"] for line in control.logs())
    with pytest.raises(catchment.ControlError, match="nothing is being recorded") as refused:
        control.pause()
    assert refused.value.status == 409
    with catchment.open(run_folder(node, control, number)) as recorded:
        assert len(recorded.sources) == 3


def run_folder(node: Node, control: catchment.Control, number: int) -> Path:
    return node.runs / str(control.run(number)["folder"])


def test_a_signal_ends_the_run_in_order(node: Node) -> None:
    control = catchment.Control(node.url, timeout=PATIENCE_SECONDS)
    control.start()
    states = (value for name, value in control.stream() if name == "state")
    next(state for state in states if state["run"] and state["run"]["events"] > 0)
    assert node.end() == 0


def test_shutdown_ends_the_program(node: Node) -> None:
    control = catchment.Control(node.url, timeout=PATIENCE_SECONDS)
    control.start()
    control.command("shutdown", wait=False)
    assert node.process.wait() == 0


def test_validators_accept_the_document(node: Node) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    with urllib.request.urlopen(f"{node.url}api/openapi.json") as answer:  # noqa: S310 (our own)
        document = json.load(answer)
    validator.validate(document)


def test_a_fuzzer_of_the_document_finds_no_fault(node: Node, tmp_path: Path) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    assert schemathesis
    # Streams do not end; a shutdown would.
    result = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            f"{node.url}api/openapi.json",
            "--url",
            node.url,
            "--exclude-path",
            "/api/v1/stream",
            "--exclude-path",
            "/api/v1/tokens",
            "--exclude-path",
            "/api/v1/commands",
            "--max-examples",
            "20",
            "--checks",
            "not_a_server_error,content_type_conformance,response_schema_conformance,status_code_conformance",
            "--seed",
            "1",
            "--phases",
            "examples,coverage,fuzzing",
            "--generation-with-security-parameters",
            "false",
            "--suppress-health-check",
            "all",
            "--no-color",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,  # where it keeps what it found
    )
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2_000:]


def test_a_node_that_is_not_there_is_an_error_of_the_package() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        control = catchment.Control(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(
            catchment.ControlConnectionError, match="no node answers at http"
        ) as told:
            control.state()
    assert isinstance(told.value, catchment.CatchmentError)
    assert isinstance(told.value, ConnectionError)
