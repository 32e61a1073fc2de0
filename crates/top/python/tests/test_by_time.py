"""Events by time, from emulated boards to arrays."""

from pathlib import Path

import numpy as np

import catchment
from fixtures import catchment_command

CONFIG = """
memory.budget = "256 MiB"
run.folder = "{folder}"
build = {{ match = "time", timeout = "1 min", time = {{ window = "1 us" }} }}
emulator = {{ rate = "2 kHz", events = 400, clocks = {{ jitter = "100 ns" }} }}
[[layouts]]
name = "clock"
packet = {{ head = 16, tail = 4, fields = [
    {{ equals = 0xA16A, at = 0, width = 2 }}, {{ is = "source", at = 2, width = 2 }},
    {{ is = "sequence", at = 4 }}, {{ is = "time", at = 8, width = 6, rate = "125 MHz" }},
    {{ is = "tag", at = 14, width = 1 }}, {{ is = "checksum", at = -4, kind = "crc32c" }}] }}
[[source_groups]]
group = "board"
name = "board-{{}}"
count = 4
address = "127.0.0.1:0"
first_sub_event_id = 1
protocol = "layout"
layout = "clock"
time_offset = "-300 ns"
"""


def test_times_of_emulated_boards_are_near_their_events(tmp_path: Path) -> None:
    config = tmp_path / "boards.toml"
    config.write_text(CONFIG.format(folder=tmp_path / "runs"))
    catchment_command("run", str(config), "--emulate", "--events", "400")
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.name != ".catchment")
    with catchment.open(folder) as run:
        assert run.ledger.balanced
        assert not run.ledger.lost_data
        keys = run.events.keys.astype(np.int64)
        assert len(keys) == 400
        # 500 us apart, but for jitter and whole ticks.
        assert (np.abs(np.diff(keys) - 500_000) <= 108).all()
        apart = []
        for source in run.sources.values():
            times = source.fragments().times
            assert times is not None
            apart.append(times.astype(np.int64) - keys)
        assert len(apart) == 4
        assert np.min(apart, axis=0).tolist() == [0] * 400
        assert 0 < np.max(apart) <= 108
        assert (np.diff(run["board-2"].fragments().offsets) == 120).all()


def test_a_board_that_dies_has_its_times_all_the_same(tmp_path: Path) -> None:
    config = tmp_path / "boards.toml"
    # The last frames have nothing of it.
    dies = "{{ kill = {{ source = 1, event = 100 }} }}"
    text = CONFIG.replace("events = 400", f"events = 4000, faults = {dies}")
    text = text.replace("1 min", "1 s") + '[frame]\ntime = "20 ms"\n'
    config.write_text(text.format(folder=tmp_path / "runs"))
    catchment_command("run", str(config), "--emulate", status=3)
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.name != ".catchment")
    with catchment.open(folder) as run:
        name = list(run.sources)[1]
        fragments = run[name].fragments()
        valid = fragments.valid
        assert 0 < valid.sum() < len(valid)
        assert not valid[-1]
        frames = run.frames()
        assert len(frames) > 1
        times = fragments.times
        assert times is not None
        assert len(times) == len(valid)
        assert (times[~valid] == 0).all()
        apart = (times - fragments.keys).view(np.int64)[valid]
        assert ((apart >= 0) & (apart <= 108)).all()
        last = frames[-1][name]
        assert last.times is not None
        assert last.times.tolist() == [0] * len(last.valid)
