"""Run control: front-ends that are prepared, refuse, are set, and say how they are."""

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment
from catchment import frontend
from fixtures import free_port

CONFIG = """
[control]
listen = "127.0.0.1:0"
start = "manual"
requests_per_second = 1000000
drain = "1 h"
[memory]
budget = "512 MiB"
[write]
buffer_bytes = "256 KiB"
preallocate_bytes = "1 MiB"
[[listen]]
address = "127.0.0.1:{port}"
"""
SOURCE = """
[[sources]]
name = "{name}"
via = "link"
"""
# Nothing that a front-end says is late on a slow machine.
LONG = """
[run]
edge = "1 h"
[build]
timeout = "1 h"
"""
# Nothing takes so long: reached only when an answer never comes.
PATIENCE_SECONDS = 1200


class Node:
    """A node with the places of front-ends."""

    def __init__(self, root: Path, *names: str, more: str = "") -> None:
        port = free_port()
        sources = "".join(SOURCE.format(name=name) for name in names)
        (root / "run.toml").write_text(CONFIG.format(port=port) + sources + more)
        command = [sys.executable, "-m", "catchment", "run", "run.toml"]
        self.process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = next(line for line in self.process.stdout if line.startswith("Serving "))
        self.control = catchment.Control(line.split()[-1], timeout=PATIENCE_SECONDS)
        self.url = f"catchment+tcp://127.0.0.1:{port}"
        self.root = root

    def end(self, status: int = 0) -> None:
        self.control.command("shutdown", wait=False)
        assert self.process.wait() == status
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path, "camera")
    yield node
    node.end()


class Camera:
    """A front-end that does as it is told, and writes down what that was."""

    def __init__(self, url: str) -> None:
        self.told: list[str] = []
        self.refuses: str | None = None
        self.holds_us = 0
        self.link = frontend.connect(url, "camera", on_command=self.on_command, wait=0.0)
        self.link.declare("gain", 2.0, unit="dB", bounds=(0.0, 20.0))
        self.link.declare("serial", "A7", writable=False)

    def on_command(self, command: frontend.Command) -> None:
        self.told.append(command.kind)
        if self.holds_us and command.kind == "prepare":
            ctypes.PyDLL(None).usleep(self.holds_us)
        if command.kind == self.refuses:
            raise RuntimeError("the cooling is off")


def device(control: catchment.Control, path: str) -> dict[str, Any]:
    return next((one for one in control.devices() if one["path"] == path), {})


def until_state(control: catchment.Control, state: str) -> None:
    """Wait until the camera is there, in that state, and has said what can be set."""
    for _name, _value in control.stream():
        camera = device(control, "node/front_ends/camera")
        if camera.get("state") == state and "gain" in camera["properties"]:
            return


def test_a_front_end_is_prepared_set_and_stopped_with_the_run(node: Node) -> None:
    control, camera = node.control, Camera(node.url)
    control.configure()
    control.command("arm")
    until_state(control, "armed")
    assert camera.told == ["prepare"]
    number = control.start()["run"]
    assert camera.told == ["prepare", "start"]
    camera.link.count("images", 3)
    camera.link.alarm("hot", "31 degrees")
    camera.link.declare("status", 3)
    camera.link.say("all is well")
    changed = control.set("node/front_ends/camera", gain=7.5)
    assert camera.told[2:] == ["set"]
    assert camera.link.value("gain") == 7.5
    for _name, _value in control.stream():
        properties = device(control, "node/front_ends/camera")["properties"]
        alarms = [alarm["text"] for alarm in control.alarms()]
        is_told = properties.get("gain") == 7.5 and properties.get("images") == 3
        if is_told and "Front-end camera (hot) raises an alarm: 31 degrees" in alarms:
            break
    assert (properties["hot"], properties["status"]) == ("31 degrees", "all is well")
    assert changed["path"] == "node/front_ends/camera"
    assert properties["own_status"] == 3
    control.set("node/front_ends/camera", own_status=4)
    assert camera.link.value("status") == 4
    refused: list[tuple[dict[str, Any], str]] = [
        ({"gain": 30.0}, r"gain is from 0.0 to 20.0, not 30.0"),
        ({"gain": "high"}, "gain is a number, not"),
        ({"serial": "B"}, "serial can be read only"),
        ({"other": 1}, "there is no setting other"),
    ]
    for values, problem in refused:
        with pytest.raises(catchment.ControlError, match=problem):
            control.set("node/front_ends/camera", **values)
    camera.refuses = "set"
    with pytest.raises(catchment.ControlError, match="gain: the cooling is off"):
        control.set("node/front_ends/camera", gain=1.0)
    assert camera.link.value("gain") == 7.5
    control.pause()
    control.resume()
    for key in range(100):
        if key == 50:
            camera.link[""].setting("threshold", "17 mV")
        camera.link.send(key, np.arange(10))
    control.stop()
    assert camera.told[2:5] == ["set"] * 3
    assert camera.told[5:] == ["pause", "continue", "stop"]
    camera.link.close()
    run = control.run(number)
    assert (run["state"], run["events"], run["loss_count"]) == ("complete", 100, 0)
    remarks = "\n".join(remark["text"] for remark in run["remarks"])
    assert "settings of camera: gain = 2.0 dB" in remarks
    assert "camera: gain = 7.5" in remarks
    assert "camera: threshold=17 mV behind 49 of camera" in remarks


def test_settings_of_a_front_end_that_comes_in_the_run_and_changes_them_are_remarks(
    node: Node,
) -> None:
    control = node.control
    control.configure()
    number = control.start()["run"]

    def until_remark(text: str) -> None:
        for _name, _value in control.stream():
            if any(text in remark["text"] for remark in control.run(number)["remarks"]):
                return

    camera = Camera(node.url)
    until_remark("settings of camera: gain = 2.0 dB")
    camera.link.declare("gain", 9.0, unit="dB", bounds=(0.0, 20.0))
    until_remark("camera: gain = 9.0 dB")
    control.stop()
    camera.link.close()


def test_the_session_goes_on_beside_a_callback_that_holds_the_interpreter(node: Node) -> None:
    """For longer than a session may be silent, no other thread of Python runs."""
    control, camera = node.control, Camera(node.url)
    camera.holds_us = 3_000_000
    control.configure()
    control.command("arm")
    until_state(control, "armed")
    assert camera.told == ["prepare"]
    (source,) = control.sources()
    assert "link_resumes" not in source["ledger"]
    control.command("disarm")
    camera.link.close()


def test_a_run_begins_and_ends_at_keys_that_its_front_ends_have_in_common(tmp_path: Path) -> None:
    node = Node(tmp_path, "left", "right", more=LONG)
    node.control.configure()
    connect = frontend.connect
    left, right = (connect(node.url, name, wait=PATIENCE_SECONDS) for name in ("left", "right"))
    number = node.control.start()["run"]
    for link, keys in ((left, range(100)), (right, range(3, 97))):
        for key in keys:
            link.send(key, b"data")
    node.control.stop()
    run = node.control.run(number)
    assert (run["state"], run["events"], run["loss_count"]) == ("complete", 94, 0)
    ledgers = {source["name"]: source["ledger"] for source in node.control.sources()}
    outside = "fragments_outside_run"
    assert (ledgers["left"][outside], outside in ledgers["right"]) == (6, False)
    left.close()
    right.close()
    node.end()


def test_a_run_begins_only_when_the_front_end_agrees(node: Node) -> None:
    control, camera = node.control, Camera(node.url)
    control.configure()
    control.command("arm")
    until_state(control, "armed")
    control.command("disarm")
    assert camera.told == ["prepare", "cancel"]
    camera.refuses = "prepare"
    # It was in the run before, so that it is waited for.
    with pytest.raises(catchment.ControlError, match="camera refuses prepare: the cooling is off"):
        control.start()
    assert control.state()["state"] == "configured"
    camera.refuses = "start"
    with pytest.raises(catchment.ControlError, match="camera refuses start: the cooling is off"):
        control.start()
    assert camera.told[-3:] == ["prepare", "start", "cancel"]
    camera.refuses = None
    control.start()
    assert camera.told[-2:] == ["prepare", "start"]
    camera.refuses = "pause"
    with pytest.raises(catchment.ControlError, match="camera refuses pause: the cooling is off"):
        control.pause()
    assert control.state()["state"] == "recording"
    control.stop()
    camera.link.close()
