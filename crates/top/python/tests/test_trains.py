"""Trains from feeders to a recorder, its files, and images in Python."""

import contextlib
import json
import re
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment
from fixtures import REPOSITORY

TRAINS, DROP_EVERY = 12, 4
PULSES, Y, X = 16, 256, 256
PROGRAM = [sys.executable, "-m", "catchment"]


def free_ports(count: int) -> int:
    """Return the first of free ports next to each other, below those that the system gives."""
    while True:
        first = 27_000 + secrets.randbelow(3_000 - count)
        with contextlib.ExitStack() as found:
            try:
                for port in range(first, first + count):
                    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    found.enter_context(one).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Record what two feeders send; of every fourth train a packet is left out."""
    root = tmp_path_factory.mktemp("trains")
    text = (REPOSITORY / "examples/xfel-trains.toml").read_text()
    text = re.sub(r'address = ".*"', f'address = "127.0.0.1:{free_ports(1)}"', text)
    (root / "run.toml").write_text(text + '\n[memory]\nbudget = "512 MiB"\n')
    with subprocess.Popen(
        [*PROGRAM, "run", "run.toml"], cwd=root, stdout=subprocess.PIPE, text=True
    ) as recorder:
        assert recorder.stdout is not None
        # The sockets are open when the run's folder is there.
        while not list((root / "runs").glob("run-*/*.catch")):
            assert recorder.poll() is None
        feeders = ["--feeders", "2", "--rate", "20", "--events", str(TRAINS)]
        sent = subprocess.run(
            [*PROGRAM, "emulate", "run.toml", *feeders, "--drop-every", str(DROP_EVERY), "--json"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        )
        recorder.send_signal(signal.SIGINT)
        recorder.stdout.read()
    # What is missing is bad data.
    assert recorder.returncode == 3
    report: dict[str, Any] = json.loads(sent.stdout)
    assert (report["trains"], report["packets_unsent"]) == (TRAINS, 0)
    return next((root / "runs").glob("run-*")), report


def bytes_read() -> int:
    """How many bytes this process has read from files."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


def lost(report: dict[str, Any]) -> dict[int, tuple[int, int]]:
    """Begin and end of what was left out, by train."""
    last = report["train_bytes"]
    ranges = {train: (packet * 8184, packet * 8184 + 8184) for train, packet in report["dropped"]}
    return {train: (begin, min(end, last)) for train, (begin, end) in ranges.items()}


def test_holes_are_exactly_what_was_left_out(recorded: tuple[Path, dict[str, Any]]) -> None:
    path, report = recorded
    missing = lost(report)
    assert sorted(missing) == [3, 7, 11]
    with catchment.open(path) as run:
        trains = catchment.Trains(run, "spb")
        assert trains.keys.tolist() == list(range(TRAINS))
        for train in range(TRAINS):
            expected = [list(missing[train])] if train in missing else []
            assert trains.holes(train).tolist() == expected
    # A few columns of one frame, and not the train.
    with catchment.open(path) as run:
        trains = catchment.Trains(run, "spb")
        before = bytes_read()
        assert len(trains.holes(3)) == 1
        assert bytes_read() - before < report["train_bytes"] // 2
        fragments = run["spb"].fragments(0, TRAINS)
        rows = [[train, begin, end - begin] for train, (begin, end) in sorted(missing.items())]
        assert fragments.holes.tolist() == rows
        total = run.ledger.total
        assert total["fragments_with_holes"] == len(missing)
        assert total["fragment_bytes_lost"] == sum(end - begin for begin, end in missing.values())
        assert total["fragments_bad_checksum"] == 0


def test_images_are_arrays_and_masked_where_they_never_came(
    recorded: tuple[Path, dict[str, Any]],
) -> None:
    path, report = recorded
    missing = lost(report)
    with catchment.open(path) as run:
        trains = catchment.Trains(run, "spb")
        assert trains.shape == (PULSES, Y, X)
        for train in range(TRAINS):
            raw = run["spb"].event(train)
            assert raw is not None
            fields = trains.dtype.fields
            assert fields is not None
            begin = fields["images"][1]
            pixels = raw[begin : begin + 2 * PULSES * Y * X].view(np.uint16)
            images = trains.images(train)
            assert np.array_equal(np.ma.getdata(images).reshape(-1), pixels)
            masked = np.zeros(2 * PULSES * Y * X, bool)
            if train in missing:
                first, last = (at - begin for at in missing[train])
                masked[max(0, first) : max(0, last)] = True
            per_pixel = masked.reshape(-1, 2).any(axis=1).reshape(PULSES, Y, X)
            assert np.array_equal(np.ma.getmaskarray(images), per_pixel)
            # Whole trains, as records, have the same mask.
            record = run["spb"].fragments(train, train + 1).array
            of_record: Any = np.ma.getmaskarray(np.ma.asarray(record))
            if train in missing:
                assert np.array_equal(of_record["images"][0, 0], per_pixel)
        whole = [train for train in range(TRAINS) if train not in missing]
        several = trains.array(whole[:3])
        assert several.shape == (3, PULSES, Y, X)
        assert not np.ma.isMaskedArray(several)
        assert np.array_equal(several[1], trains.images(whole[1]))
        assert np.array_equal(trains.image(whole[0], -1), several[0, -1])
        with pytest.raises(IndexError, match="a train has 16"):
            trains.image(0, PULSES)


def test_descriptors_and_detector_data_are_structured(
    recorded: tuple[Path, dict[str, Any]],
) -> None:
    path, report = recorded
    whole = min(set(range(TRAINS)) - set(lost(report)))
    with catchment.open(path) as run:
        trains = catchment.Trains(run, "spb")
        assert trains.field(whole, "train").tolist() == whole
        descriptors = trains.group(whole, "descriptors")
        assert descriptors["pulse"].tolist() == list(range(PULSES))
        assert descriptors.dtype.names == ("time_ns", "pulse", "cell", "status")
        detector = trains.group(whole, "detector")
        assert detector["channel"].tolist() == list(range(127))
        assert ((detector["value"] >= 0) & (detector["value"] < 1)).all()
        labelled = trains.xarray([whole, 3])
        assert labelled.dims == ("train", "pulse", "y", "x")
        assert labelled.whole.sel(train=whole).all()
        assert labelled.described.sel(train=whole).all()
        times = labelled["descriptors.time_ns"]
        assert times.dims == ("train", "pulse")
        assert times.dtype == np.uint64
        assert times.sel(train=whole).values.tolist() == descriptors["time_ns"].tolist()
        with pytest.raises(KeyError, match="no field 'image'"):
            trains.field(whole, "image")


def test_one_image_reads_about_its_own_bytes(recorded: tuple[Path, dict[str, Any]]) -> None:
    path, _ = recorded
    with catchment.open(path) as run:
        trains = catchment.Trains(run, "spb")
        trains.image(1, 0)
        before = bytes_read()
        image = trains.image(1, 9)
        read = bytes_read() - before
        # The image, and the blocks around it that are checked.
        assert image.nbytes <= read <= image.nbytes + 4 * 65536


SMALL_TRAINS, SMALL_BYTES = 30, 20_573


def configuration(port: int, turn: int) -> str:
    """Configure the node of a turn, for trains of two small images."""
    fields = [("images", "u16", [2, 64, 64], 64)]
    descriptors = [("time_ns", "u64"), ("pulse", "u32"), ("cell", "u16"), ("status", "u16")]
    at = 64 + 2 * 2 * 64 * 64
    for name, dtype in descriptors:
        fields.append(("descriptors." + name, dtype, [2], at))
        at += 2 * int(dtype[1:]) // 8
    lines = [
        f'{{ name = "{name}", dtype = "{dtype}", shape = {shape}, offset = {offset} }},'
        for name, dtype, shape, offset in fields
    ]
    return "\n".join(
        [
            "[run]",
            'id = "6b0e62e5b1f64c2c9a4a6f2a1d3c7e90"',
            f"own = {{ modulo = 2, remainder = {turn} }}",
            "[trains]",
            f"train_bytes = {SMALL_BYTES}",
            f"adler32_at = {SMALL_BYTES - 4}",
            "holes_bytes_max = 8184",
            "[memory]",
            'budget = "256 MiB"',
            "[[sources]]",
            'name = "spb"',
            'protocol = "trains"',
            f'address = "127.0.0.1:{port}"',
            "[sources.payload]",
            'dtype = "record"',
            f"record_bytes = {SMALL_BYTES}",
            "fields = [",
            *lines,
            "]",
        ]
    )


@pytest.fixture(scope="module")
def taken_in_turn(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[list[Path], dict[str, Any]]:
    """Record with two nodes in turn what two feeders send, of every train a packet less."""
    port = free_ports(2)
    nodes, folders = [], []
    for turn in range(2):
        root = tmp_path_factory.mktemp(f"node-{turn}")
        (root / "run.toml").write_text(configuration(port + turn, turn))
        folders.append(root)
        nodes.append(
            subprocess.Popen([*PROGRAM, "run", "run.toml"], cwd=root, stdout=subprocess.DEVNULL)
        )
    try:
        for node, root in zip(nodes, folders, strict=True):
            while not list((root / "runs").glob("run-*/*.catch")):
                assert node.poll() is None
        size = ["--pulses", "2", "--image", "64x64", "--feeders", "2", "--nodes", "2"]
        much = ["--rate", "100", "--events", str(SMALL_TRAINS), "--drop-every", "1", "--json"]
        sent = subprocess.run(
            [*PROGRAM, "emulate", "xfel-trains", "--to", f"127.0.0.1:{port}", *size, *much],
            check=True,
            capture_output=True,
        )
        for node in nodes:
            node.send_signal(signal.SIGINT)
        # What is missing is bad data.
        assert [node.wait() for node in nodes] == [3, 3]
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    runs = [next((root / "runs").glob("run-*")) for root in folders]
    report: dict[str, Any] = json.loads(sent.stdout)
    return runs, report


@pytest.mark.parametrize("order", [1, -1])
def test_nodes_that_took_turns_are_read_as_one_run(
    taken_in_turn: tuple[list[Path], dict[str, Any]], order: int
) -> None:
    paths, report = taken_in_turn
    missing = lost(report)
    assert sorted(missing) == list(range(SMALL_TRAINS))
    for turn, path in enumerate(paths):
        with catchment.open(path) as run:
            assert catchment.Trains(run, "spb").keys.tolist() == list(range(turn, SMALL_TRAINS, 2))
    with catchment.open(paths[::order]) as run:
        trains = catchment.Trains(run, "spb")
        assert sorted(trains.keys.tolist()) == list(range(SMALL_TRAINS))
        assert run.ledger.total["fragments_with_holes"] == SMALL_TRAINS
        for train in range(SMALL_TRAINS):
            assert trains.holes(train).tolist() == [list(missing[train])]
            # The time of its first pulse says which train it is.
            times = trains.field(train, "descriptors.time_ns")
            expected = [train * 100_000_000 + pulse * 222 for pulse in range(2)]
            assert all(
                found is np.ma.masked or found == time
                for found, time in zip(np.ma.asarray(times), expected, strict=True)
            )


def test_coordinates_of_images_are_their_descriptors_and_say_what_never_came(
    taken_in_turn: tuple[list[Path], dict[str, Any]],
) -> None:
    paths, report = taken_in_turn
    # Of three packets the last has all descriptors, and the end of the second image.
    dropped = dict(report["dropped"])
    last = {train for train, packet in dropped.items() if packet == 2}
    assert 0 < len(last) < SMALL_TRAINS
    whole = [[False, True], [False, False], [True, False]]
    with catchment.open(paths) as run:
        trains = catchment.Trains(run, "spb")
        labelled = trains.xarray(list(range(SMALL_TRAINS)))
        assert labelled.pulse.values.tolist() == [0, 1]
        for train in range(SMALL_TRAINS):
            of_train = labelled.sel(train=train)
            is_described = train not in last
            assert of_train.described.values.tolist() == [is_described] * 2
            assert of_train.whole.values.tolist() == whole[dropped[train]]
            begin = train * 100_000_000
            times = [begin, begin + 222] if is_described else [0, 0]
            assert of_train["descriptors.time_ns"].values.tolist() == times
            assert of_train["descriptors.cell"].values.tolist() == [0, int(is_described)]
        # Where no train has its numbers, they are counted; coordinates keep their types.
        alone = trains.xarray([min(last)])
        assert alone.pulse.values.tolist() == [0, 1]
        assert alone["descriptors.pulse"].dtype == np.uint32
        # No trains are no images.
        assert trains.xarray([]).shape == (0, 2, 64, 64)
