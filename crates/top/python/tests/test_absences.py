"""Why a fragment is not there: each cause in one run, in file, Python and ledger."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import catchment
from catchment import frontend
from test_frontend_control import LONG, PATIENCE_SECONDS, Node

# A front-end that sends events 2 to 8, and dies without a word, as lines tell it to.
GONE = """
import os, sys
from catchment import frontend
gone = frontend.connect(sys.argv[1], "gone")
print("it is there", flush=True)
sys.stdin.readline()
for key in range(2, 9):
    gone.send(key, b"gone")
sys.stdin.readline()
os._exit(1)
"""


def wait(until: Callable[[], bool]) -> None:
    while not until():
        os.sched_yield()


def is_durable(source: frontend.SourceLink) -> bool:
    return source.counts["durable"] == source.counts["made"]


def record(root: Path) -> Path:
    """Record twelve events: each of three sources lacks some of them for reasons of its own."""
    node = Node(root, "camera/left", "camera/right", "gone", more=LONG)
    control = node.control
    control.configure()
    link = frontend.connect(node.url, "camera", sources=["left", "right"], wait=PATIENCE_SECONDS)
    left, right = link.sources
    command = [sys.executable, "-c", GONE, node.url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as gone:
        assert gone.stdin is not None
        assert gone.stdout is not None
        gone.stdout.readline()
        number = control.start()["run"]
        gone.stdin.write("send\n")
        # The run begins at 2, with the first key of the right one: 0 and 1 are outside.
        for key in range(7):
            left.send(key, b"left")
        right.send(2, b"right")
        right.low_water(3)
        # The numbering has begun: of keys that were dropped before that nothing is known.
        wait(lambda: is_durable(right))
        right.abandon(1, "busy", keys=(3, 3))
        right.send(4, b"right")
        # It never sends 5, and by its next one it has passed that.
        right.send(6, b"right")
        # While it says to be idle nothing waits for it: its 7 comes behind the event.
        right.low_water(7, idle=True)
        left.send(7, b"left")
        left.low_water(8)
        wait(lambda: is_durable(left))
        right.send(7, b"late")
        wait(lambda: is_durable(right))
        left.send(8, b"left")
        right.send(8, b"right")
        wait(lambda: is_durable(left) and is_durable(right))
        # The third one is away from here on.
        gone.stdin.write("die\n")
    for key in range(9, 12):
        left.send(key, b"left")
        right.send(key, b"right")
    wait(lambda: is_durable(left) and is_durable(right))
    control.stop()
    folder: str = control.run(number)["folder"]
    link.close()
    # It has lost data.
    node.end(status=3)
    return root / "runs" / folder


def test_absences_are_told_apart(tmp_path: Path) -> None:
    run = record(tmp_path)
    outside, abandoned, late = "fragments_outside_run", "fragments_abandoned", "fragments_late"
    missing, not_sent = "fragments_missing", "fragments_not_sent"
    expected = {
        "camera/left": {outside: 2},
        "camera/right": {missing: 3, abandoned: 1, not_sent: 1, late: 1},
        # Nobody can say of one that is away that it would not have sent them.
        "gone": {missing: 3},
    }
    kinds = (outside, abandoned, late, missing, not_sent)
    with catchment.open(run) as recorded:
        # In Python: the events, and which of them a source lacks.
        assert list(recorded.events.keys) == list(range(2, 12))
        lacked = {
            name: np.array(recorded.events.keys)[~recorded[name].fragments().valid].tolist()
            for name in expected
        }
        assert lacked == {"camera/left": [], "camera/right": [3, 5, 7], "gone": [9, 10, 11]}
        assert all(recorded[name].fragments().expected.all() for name in expected)
        missed = [recorded.events.missing(key) for key in (5, 8, 9)]
        assert missed == [["camera/right"], [], ["gone"]]
        # In the ledger.
        for name, counts in expected.items():
            ledger = recorded.ledger[name]
            assert {kind: ledger[kind] for kind in kinds if ledger[kind]} == counts, name
    # In the file: its columns, and what its frames have counted.
    report = catchment.audit(run)
    assert (report.verdict, report.problems) == ("data_lost", ())
    for name, counts in expected.items():
        audited = report.recomputed[name]
        assert {kind: audited[kind] for kind in kinds if audited.get(kind)} == counts, name
