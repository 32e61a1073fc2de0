"""References in plain xarray, which never loads this package: types, gaps and extremes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import catchment
from fixtures import REPOSITORY, catchment_command, generate
from written import Written, counting, write_run

FOLDER = REPOSITORY / "crates/format/frame/tests/golden/v1.1"

READ = """
import sys
sys.modules["pcodec"] = sys.modules["catchment"] = None  # as where neither is installed
import numpy as np, xarray as xr

store = {"consolidated": False, "storage_options": {"fo": sys.argv[1]}}
data = xr.open_dataset("reference://", engine="zarr", chunks=None, backend_kwargs=store)
arrays = {name: data[name].to_numpy() for name in data}
times = {"time " + name: data[data[name].dims[0]].to_numpy() for name in data}
firsts = {"first " + name: data[name].attrs["first_sample"] for name in data}
np.savez(sys.argv[2], **arrays, **times, **firsts)
"""

EXTREMES = """
import sys
import numpy as np
from gwpy.timeseries import TimeSeries, TimeSeriesDict

series = TimeSeriesDict()
for dtype in ("int16", "int32", "int64", "uint16"):
    whole = np.iinfo(dtype)
    data = np.tile(np.array([whole.min, whole.max, 0, 1], dtype), 64)
    name = "X1:" + dtype.upper()
    series[name] = TimeSeries(data, t0=1400000000, sample_rate=64, name=name, channel=name)
series.write(sys.argv[1], format="gwf")
"""


def read_plainly(run: Path, folder: Path, *options: str) -> dict[str, NDArray[Any]]:
    references, values = folder / "run.refs.json", folder / "values.npz"
    catchment_command("refs", str(run), "--output", str(references), *options)
    command = [sys.executable, "-c", READ, str(references), str(values)]
    subprocess.run(command, check=True)
    with np.load(values) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.mark.parametrize(
    "path",
    sorted(FOLDER.glob("channels-*.catch")),
    ids=lambda path: path.stem,
)
def test_every_type_and_gap_is_what_was_written(path: Path, tmp_path: Path) -> None:
    found = read_plainly(path, tmp_path)
    gaps = 0
    with catchment.open(path) as run:
        assert set(run.channels) <= set(found)
        for name in run.channels:
            channel, values = run[name], found[name]
            segments = list(channel.segments(raw=True))
            scale, offset = channel.scale, channel.offset
            first = int(found[f"first {name}"])
            numbers = first + np.arange(len(values))
            there = np.zeros(len(values), bool)
            for segment in segments:
                at = segment.first_sample - first
                there[at : at + len(segment.data)] = True
                expected = segment.data
                if (scale, offset) != (None, None):
                    expected = expected * (1.0 if scale is None else scale) + (offset or 0.0)
                # What xarray makes floats of, because samples are missing, are small numbers here.
                np.testing.assert_array_equal(values[at : at + len(segment.data)], expected, name)
            if there.all() and (scale, offset) == (None, None):
                assert values.dtype == channel.dtype, name
            else:
                assert values.dtype.kind in "fc", name
                assert np.isnan(values[~there]).all(), name
            gaps += int((~there).sum())
            times = found[f"time {name}"].astype("datetime64[ns]").view(np.int64)
            assert times.tolist() == [
                int(number * 10**9 / channel.rate) for number in numbers.tolist()
            ]
    assert gaps > 0


@pytest.mark.parametrize("codec", ["none", "zstd:1", "bitshuffle+lz4", "pcodec:8"])
def test_integers_keep_their_extremes_where_no_sample_is_missing(
    codec: str, tmp_path: Path
) -> None:
    """The extremes are what stands for missing samples where some are: not where none is."""
    pytest.importorskip("gwpy", reason="writes the samples")
    frames, run = tmp_path / "X-EXTREMES-1400000000-4.gwf", tmp_path / "run"
    subprocess.run([sys.executable, "-c", EXTREMES, str(frames)], check=True, capture_output=True)
    catchment_command("convert", str(frames), str(run), "--codec", codec)
    found = read_plainly(run, tmp_path)
    for dtype in ("int16", "int32", "int64", "uint16"):
        whole = np.iinfo(dtype)
        values = found[f"X1:{dtype.upper()}"]
        assert values.dtype == np.dtype(dtype)
        expected = np.tile(np.array([whole.min, whole.max, 0, 1], dtype), 64)
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("codec", ["none", "shuffle+zstd:1"])
def test_a_run_of_several_files_is_one_array_for_each_channel(codec: str, tmp_path: Path) -> None:
    made = generate(tmp_path / "run", "--file-bytes", "1 MB", "--codec", codec)
    files = {str(path) for path in made.path.glob("*.catch")}
    assert len(files) == 3
    found = read_plainly(made.path, tmp_path, "--channels", "L1:*-001?")
    references = json.loads((tmp_path / "run.refs.json").read_text())["refs"]
    with catchment.open(made.path) as run:
        names = [name for name in run.channels if name[-4:-1] == "001"]
        assert len(names) == 40
        for name in names:
            # A chunk in each file, and the samples of all of them behind each other.
            assert {references[f"{name}/{chunk}"][0] for chunk in range(3)} == files
            expected = run[name].numpy()
            assert len(expected) == 6 * run[name].rate
            assert found[name].dtype == expected.dtype
            np.testing.assert_array_equal(found[name], expected, name)
            times = found[f"time {name}"].astype("datetime64[ns]").view(np.int64)
            np.testing.assert_array_equal(times, run[name].times())


def test_references_from_defaults_open_in_plain_xarray(tmp_path: Path) -> None:
    """Whatever `auto` chose: what plain xarray does not read is recompressed and reported."""
    made = generate(tmp_path / "run")
    stored = catchment_command("inspect", str(made.path))["channels"]
    codecs = {codec for channel in stored for codec in channel["stored"]["codecs"]}
    assert "for" in codecs
    found = read_plainly(made.path, tmp_path)
    with catchment.open(made.path) as run:
        for name in run.channels:
            np.testing.assert_array_equal(found[name], run[name].numpy(), name)
    references = tmp_path / "said.refs.json"
    done = refs(made.path, references)
    assert "recompressed" in done.stdout
    said = catchment_command("refs", str(made.path), "--output", str(references))
    hard = [c for c in stored if {"for", "pcodec"} & set(c["stored"]["codecs"])]
    assert said["channels_transcoded"] == len(hard)
    chunks = [c["stored"]["codecs"].get(codec, 0) for c in hard for codec in ("for", "pcodec")]
    assert said["chunks_transcoded"] == sum(chunks)
    assert 0 < said["bytes_transcoded"] < said["bytes_copied"]
    assert Path(f"{references}.data").stat().st_size == said["bytes_copied"]
    pointed = catchment_command("refs", str(made.path), "--output", str(references), "--as-stored")
    assert pointed["channels_transcoded"] == pointed["chunks_transcoded"] == 0


def test_a_channel_that_cannot_be_referenced_is_named_and_the_others_are_there(
    tmp_path: Path,
) -> None:
    back = [(1000, counting(0, 100)), (900, counting(0, 100))]
    good = [(1000, counting(0, 100)), (1100, counting(100, 100))]
    path = write_run(
        tmp_path / "run.catch", Written("X:BACK", (10, 1), back), Written("X:GOOD", (20, 1), good)
    )
    references = tmp_path / "run.refs.json"
    done = refs(path, references, code=3)
    assert "left out: X:BACK: its samples are not in the order of time" in done.stdout
    assert "X:GOOD/.zarray" in json.loads(references.read_text())["refs"]
    references.unlink()
    done = refs(path, references, "--channel", "X:BACK", code=1)
    assert "no channel can be referenced: X:BACK: " in done.stderr
    done = refs(path, references, "--channel", "X:GOOD", "--channel", "X:GOD", code=2)
    assert 'no channel matches "X:GOD"' in done.stderr
    assert "did you mean X:GOOD" in done.stderr
    assert not references.exists()


def test_a_damaged_column_costs_its_channel_alone(tmp_path: Path) -> None:
    """Of frames of unequal length all chunks but those of the usual one are made anew."""
    lengths = (100, 100, 60)
    starts = (1000, 1100, 1200)
    pieces = [(first, counting(first, count)) for first, count in zip(starts, lengths, strict=True)]
    other = [(first, data + 0.5) for first, data in pieces]
    path = write_run(
        tmp_path / "run.catch", Written("X:A", (10, 1), pieces), Written("X:B", (10, 1), other)
    )
    whole = bytearray(path.read_bytes())
    whole[whole.index(other[2][1].tobytes())] ^= 1
    path.write_bytes(whole)
    references = tmp_path / "run.refs.json"
    done = refs(path, references, code=3)
    assert "left out: X:B: " in done.stdout
    keys = json.loads(references.read_text())["refs"]
    assert any(key.startswith("X:A/") for key in keys)
    assert not any(key.startswith("X:B/") for key in keys)


def refs(
    run: Path, references: Path, *options: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "catchment", "refs", str(run), "--output", str(references)]
    done = subprocess.run([*command, *options], check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done
