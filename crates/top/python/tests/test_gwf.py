"""GWF files that gwpy and lalframe wrote become runs; ours are taken by their tools.

gwpy works in a process of its own: it warns where it likes, and on a file that is not whole it may
bring the interpreter down.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import catchment
from fixtures import catchment_command

BIN = Path(sys.executable).parent
START_S = 1_400_000_000
GPS_NS = START_S * 10**9

WRITE = """
import sys
import numpy as np
from gwpy.timeseries import TimeSeries, TimeSeriesDict

folder = sys.argv[1]
arrays = np.load(folder + "/arrays.npz")
for start, seconds in ((0, 4), (4, 4), (20, 8)):
    series = TimeSeriesDict()
    for name, rate, unit in (
        ("X1:FAST", 16384, "strain"),
        ("X1:SLOW", 256, "m"),
        ("X1:COUNT", 256, "ct"),
    ):
        data = arrays[name][start * rate : (start + seconds) * rate]
        series[name] = TimeSeries(
            data, t0=1400000000 + start, sample_rate=rate, unit=unit, name=name, channel=name
        )
    series.write(f"{folder}/X-GWPY-{1400000000 + start}-{seconds}.gwf", format="gwf")
"""

READ = """
import json, sys
import numpy as np
from gwpy.timeseries import TimeSeries

arrays, facts = {}, {}
for index, path in enumerate(sys.argv[2:-1]):
    for name in json.loads(sys.argv[-1]):
        series = TimeSeries.read(path, name, format="gwf")
        arrays[f"{name} {index}"] = series.value
        facts[f"{name} {index}"] = (series.t0.value, series.sample_rate.value, str(series.unit))
np.savez(sys.argv[1] + "/read.npz", **arrays)
print(json.dumps(facts))
"""


def python(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def convert(*arguments: str, code: int = 0) -> dict[str, Any]:
    command = [sys.executable, "-m", "catchment", "convert", "--json", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def gwpy_read(
    folder: Path, files: list[Path], names: list[str]
) -> tuple[dict[str, NDArray[Any]], dict[str, list[float | str]]]:
    paths = [str(path) for path in files]
    facts = json.loads(python(READ, str(folder), *paths, json.dumps(names)).splitlines()[-1])
    with np.load(folder / "read.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}, facts


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, NDArray[Any]]]:
    """Three files of gwpy's, with a gap of 12 s, and the arrays of their 28 s."""
    folder = tmp_path_factory.mktemp("gwpy")
    random = np.random.default_rng(3)
    arrays: dict[str, NDArray[Any]] = {
        "X1:FAST": random.normal(size=28 * 16_384).astype(np.float32),
        "X1:SLOW": np.cumsum(random.normal(size=28 * 256)),
        "X1:COUNT": random.normal(scale=80, size=28 * 256).astype(np.int16),
    }
    np.savez(folder / "arrays.npz", **arrays)  # type: ignore[arg-type]
    python(WRITE, str(folder))
    return folder, arrays


def test_files_of_gwpy_become_a_run(made: tuple[Path, dict[str, NDArray[Any]]]) -> None:
    folder, arrays = made
    report = convert(str(folder), str(folder / "run"))
    assert report["left_out"] == []
    assert report["channels"] == 3
    with catchment.open(folder / "run") as run:
        for name, array in arrays.items():
            rate = 16_384 if name == "X1:FAST" else 256
            channel = run[name]
            assert channel.rate == rate
            assert channel.dtype == array.dtype
            first, second = channel.segments()
            assert (first.start_ns, second.start_ns) == (GPS_NS, GPS_NS + 20 * 10**9)
            np.testing.assert_array_equal(first.data, array[: 8 * rate])
            np.testing.assert_array_equal(second.data, array[20 * rate :])


def test_trends_of_a_run_in_gps_time_have_its_dates(
    made: tuple[Path, dict[str, NDArray[Any]]], tmp_path: Path
) -> None:
    folder, arrays = made
    convert(str(folder), str(tmp_path / "run"))
    catchment_command("trend", str(tmp_path / "run"))
    with catchment.open(tmp_path / "run") as run:
        trend = run.trend("X1:COUNT")
        assert trend is not None
        assert trend.time_scale == "gps"
        frame = trend.pandas()
        seconds = [*range(8), *range(20, 28)]
        begin = np.datetime64("1980-01-06", "ns") + np.timedelta64(GPS_NS, "ns")
        expected = [begin + np.timedelta64(second, "s") for second in seconds]
        assert frame.index.to_numpy().tolist() == np.array(expected).tolist()
        assert frame.index[0] == run["X1:COUNT"].pandas().index[0]
        assert frame["max"].to_numpy()[0] == arrays["X1:COUNT"][:256].max()


@pytest.mark.parametrize("zlib", ["0", "2"])
def test_files_of_ours_are_taken_by_gwpy_and_lalframe(
    made: tuple[Path, dict[str, NDArray[Any]]], tmp_path: Path, zlib: str
) -> None:
    folder, arrays = made
    run, out = tmp_path / "run", tmp_path / "out"
    convert(str(folder), str(run))
    report = convert(str(run), str(out), "--zlib", zlib)
    files = [Path(path) for path in report["files"]]
    names = ["X-CATCHMENT-1400000000-8.gwf", "X-CATCHMENT-1400000020-8.gwf"]
    assert [path.name for path in files] == names
    assert sorted(path.name for path in out.iterdir()) == names

    for path in files:
        for tool in ("lalfr-cksum", "lalfr-dump"):
            done = subprocess.run([str(BIN / tool), str(path)], check=False, capture_output=True)
            assert done.returncode == 0, (tool, done.stderr)
    read, facts = gwpy_read(tmp_path, files, list(arrays))
    for name, array in arrays.items():
        rate = 16_384 if name == "X1:FAST" else 256
        unit = {"X1:FAST": "strain", "X1:SLOW": "m", "X1:COUNT": "ct"}[name]
        assert facts[f"{name} 0"] == [START_S, rate, unit]
        assert facts[f"{name} 1"] == [START_S + 20, rate, unit]
        for index, part in enumerate((array[: 8 * rate], array[20 * rate :])):
            got = read[f"{name} {index}"]
            assert got.dtype == array.dtype
            np.testing.assert_array_equal(got, part)


def test_lalframes_checksum_tool_sees_a_flipped_bit(
    made: tuple[Path, dict[str, NDArray[Any]]], tmp_path: Path
) -> None:
    folder, _ = made
    convert(str(folder), str(tmp_path / "run"), "--channels", "X1:COUNT")
    report = convert(str(tmp_path / "run"), str(tmp_path / "out"))
    path = Path(report["files"][0])
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    done = subprocess.run([str(BIN / "lalfr-cksum"), str(path)], check=False, capture_output=True)
    assert done.returncode == 1


def test_a_cut_file_gives_what_is_whole_and_says_so(
    made: tuple[Path, dict[str, NDArray[Any]]], tmp_path: Path
) -> None:
    folder, arrays = made
    whole = (folder / "X-GWPY-1400000020-8.gwf").read_bytes()
    cut = tmp_path / "cut.gwf"
    # Without its end the file has no table of contents, but its one frame is whole.
    cut.write_bytes(whole[:-1])
    report = convert(str(cut), str(tmp_path / "run"), code=3)
    assert report["left_out"][0].startswith("the end of ")
    with catchment.open(tmp_path / "run") as run:
        expected = arrays["X1:COUNT"][20 * 256 :]
        np.testing.assert_array_equal(run["X1:COUNT"].segments()[0].data, expected)
