"""Channels: read in every way, followed, and through references by plain xarray."""

import json
import subprocess
import sys
from pathlib import Path

import dask
import numpy as np
import pyarrow.ipc
import pyarrow.parquet
import pytest
import xarray as xr

import catchment
from fixtures import REPOSITORY, Generated, catchment_command


def test_a_channel_says_what_it_is(generated: Generated) -> None:
    with catchment.open(generated.path) as run:
        assert len(run.channels) == 1000
        fast = run["L1:FAST-0000"]
        assert (fast.dtype, fast.shape, fast.unit) == (np.float32, (), "strain")
        assert (fast.rate, fast.time_scale, fast.gaps) == (16384, "tai", [])
        assert fast.start_ns == generated.start_ns
        assert fast.stop_ns == generated.start_ns + 6 * 10**9
        assert len(fast) == 6 * 16384
        assert "L1:FAST-0000" in run
        assert "L1:NONE" not in run
        with pytest.raises(catchment.UnknownChannelError):
            run["L1:NONE"]


def test_a_range_is_what_the_whole_has_there(generated: Generated) -> None:
    with catchment.open(generated.path) as run:
        channel = run["L1:MEDIUM-0001"]
        whole = channel.numpy()
        assert whole.dtype == np.int16
        start = generated.start_ns + 1_500_000_000
        part = channel.numpy(start, start + 2_000_000_000)
        np.testing.assert_array_equal(part, whole[3 * 1024 : 3 * 1024 + 4096])
        dates = channel.xarray()["time"].to_numpy()
        by_date = channel.numpy(dates[100], dates[200])
        np.testing.assert_array_equal(by_date, whole[100:200])
        (segment,) = channel.segments(frames=(1, 2))
        np.testing.assert_array_equal(segment.data, whole[4096:8192])
        assert segment.start_ns == generated.start_ns + 2 * 10**9


def test_samples_stay_while_an_array_shows_them_and_their_memory_serves_the_next(
    generated: Generated,
) -> None:
    with catchment.open(generated.path) as run:
        first, other = run["L1:FAST-0000"], run["L1:FAST-0002"]
        expected, others = first.numpy().copy(), other.numpy().copy()
        array = first.numpy()
        address = array.ctypes.data
        part = array[1000:1010]
        del array
        # A piece of it is enough to keep it, whatever is read then.
        later = [other.numpy() for _ in range(4)]
        addresses = [one.ctypes.data for one in later]
        assert address not in addresses
        np.testing.assert_array_equal(part, expected[1000:1010])
        del part, later
        # Written to, and given back: the next read has none of it.
        for _ in range(3):
            array = first.numpy()
            np.testing.assert_array_equal(array, expected)
            array[:] = 7
            del array
            array = other.numpy()
            shown_at = array.ctypes.data
            assert shown_at in [address, *addresses]
            np.testing.assert_array_equal(array, others)
            shown = memoryview(array)
            del array
            assert first.numpy().ctypes.data != shown_at
            np.testing.assert_array_equal(np.asarray(shown), others)
            del shown


def test_times_are_exact_and_labelled(generated: Generated) -> None:
    with catchment.open(generated.path) as run:
        array = run["L1:SLOW-0000"].xarray()
        assert array.attrs["units"] == "strain"
        assert array["time"].attrs["time_scale"] == "tai"
        steps = np.diff(run["L1:FAST-0001"].times())
        assert set(steps) == {61035, 61036}
        assert run["L1:FAST-0001"].times()[16384] == generated.start_ns + 10**9
        series = run["L1:SLOW-0001"].pandas()
        assert len(series) == 6 * 256
        assert series.index[256] - series.index[0] == np.timedelta64(1, "s")


def test_a_dataset_has_an_axis_for_each_rate(generated: Generated) -> None:
    with catchment.open(generated.path) as run:
        dataset = run.to_xarray(["L1:SLOW-000?", "L1:STATE-0000"])
        assert dict(dataset.sizes) == {"time_256Hz": 6 * 256, "time_16Hz": 6 * 16}
        expected = run["L1:SLOW-0003"].numpy()
        np.testing.assert_array_equal(dataset["L1:SLOW-0003"], expected)
        table = run.to_arrow("L1:SLOW-000?")
        np.testing.assert_array_equal(table.column("L1:SLOW-0003").to_numpy(), expected)
        assert table.field("L1:SLOW-0003").metadata[b"unit"] == b"ct"
        with pytest.raises(ValueError, match="one table"):
            run.to_arrow(["L1:SLOW-0000", "L1:STATE-0000"])


def test_names_are_chosen_by_pattern(generated: Generated) -> None:
    with catchment.open(generated.path) as run:
        dataset = run.to_xarray(["L1:S{LOW,TATE}-000[0-1]", "L1:SLOW-0000"])
        names = ["L1:SLOW-0000", "L1:SLOW-0001", "L1:STATE-0000", "L1:STATE-0001"]
        assert list(dataset) == names
        with pytest.raises(ValueError, match="unclosed character class"):
            run.to_xarray("L1:[SLOW")
        with pytest.raises(catchment.UnknownChannelError, match="L1:SLOW-000X"):
            run.to_xarray("L1:SLOW-000X*")


def test_dask_computes_frame_by_frame(generated: Generated) -> None:
    with catchment.open(generated.path) as run:
        channel = run["L1:MEDIUM-0000"]
        lazy = channel.dask
        assert lazy.chunks == ((4096, 4096, 4096),)
        with dask.config.set(scheduler="threads"):
            np.testing.assert_array_equal(lazy.compute(), channel.numpy())


def test_every_codec_gives_the_same_samples(generated: Generated, raw: Generated) -> None:
    with catchment.open(generated.path) as run, catchment.open(raw.path) as same:
        for name in run.channels[::7]:
            np.testing.assert_array_equal(run[name].numpy(), same[name].numpy(), name)


def test_inspect_says_how_channels_are_stored(generated: Generated) -> None:
    channels = catchment_command("inspect", str(generated.path))["channels"]
    codecs = {channel["name"]: channel["stored"]["codecs"] for channel in channels}
    assert codecs["L1:MEDIUM-0000"] == {"bitshuffle+lz4": 3}
    assert codecs["L1:MEDIUM-0010"] == {"bitshuffle+zstd": 3}
    assert codecs["L1:SLOW-0000"] == {"pcodec": 3}
    assert codecs["L1:FAST-0010"] == {"shuffle+zstd": 3}


@pytest.mark.parametrize("form", ["parquet", "arrow", "npy", "csv"])
def test_the_command_line_writes_what_python_reads(
    generated: Generated, tmp_path: Path, form: str
) -> None:
    output = tmp_path / "out"
    chosen = ["--channel", "L1:STATE-0002", "--output", str(output)]
    catchment_command("read", str(generated.path), "--format", form, *chosen)
    with catchment.open(generated.path) as run:
        expected, times = run["L1:STATE-0002"].numpy(), run["L1:STATE-0002"].times()
    if form == "npy":
        np.testing.assert_array_equal(np.load(f"{output}.samples.npy"), expected)
        np.testing.assert_array_equal(np.load(f"{output}.times.npy"), times.view(np.uint64))
        return
    if form == "csv":
        lines = output.read_text().splitlines()
        assert lines[0] == "time_ns,L1:STATE-0002"
        values = np.array([line.split(",")[1] for line in lines[1:]], np.float32)
        assert [int(line.split(",")[0]) for line in lines[1:]] == list(times)
    else:
        read = pyarrow.parquet.read_table if form == "parquet" else _read_ipc
        table = read(output)
        values = table.column("L1:STATE-0002").to_numpy()
        np.testing.assert_array_equal(table.column("time").to_numpy().view(np.int64), times)
    np.testing.assert_array_equal(values, expected)


def _read_ipc(path: Path) -> pyarrow.Table:
    with pyarrow.ipc.open_file(path) as reader:
        return reader.read_all()


GOLDEN = REPOSITORY / "crates/format/frame/tests/golden/v1.1/channels-pcodec.catch"
# Of the golden channels, those with the same four gaps.
ALIKE = ["X1:U8", "X1:I8", "X1:U16", "X1:I32", "X1:U64", "X1:I64", "X1:F64", "X1:C64"]


def _several(*names: str) -> list[str]:
    return [word for name in names for word in ("--channel", name)]


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_channels_with_the_same_gaps_become_one_table(tmp_path: Path, form: str) -> None:
    output = tmp_path / "out"
    options = ["--format", form, "--output", str(output), *_several(*ALIKE)]
    catchment_command("read", str(GOLDEN), *options)
    with catchment.open(GOLDEN) as run:
        names = [name for name in run.channels if name in ALIKE]
        segments = list(run["X1:U8"].segments())
        assert len(segments) > 2
        numbers = [s.first_sample + np.arange(len(s.data)) for s in segments]
        times = [n * 10**9 // 256 for n in np.concatenate(numbers).tolist()]
        columns = {
            name: np.concatenate([s.data for s in run[name].segments(raw=True)]) for name in names
        }
    assert set(names) == set(ALIKE)
    if form == "csv":
        head, *lines = (line.split(",") for line in output.read_text().splitlines())
        assert head == ["time_ns", *names]
        assert [int(line[0]) for line in lines] == times
        for index, (name, column) in enumerate(columns.items(), 1):
            values = [complex(line[index]) for line in lines]
            np.testing.assert_array_equal(np.array(values), column.astype(complex), name)
        return
    read = pyarrow.parquet.read_table if form == "parquet" else _read_ipc
    table = read(output)
    assert table.column_names == ["time", *names]
    assert table.column("time").to_numpy().view(np.int64).tolist() == times
    for name, column in columns.items():
        values = table.column(name).to_pylist()
        if column.dtype.kind == "c":
            values = [complex(*pair) for pair in values]
        np.testing.assert_array_equal(np.array(values), column, name)


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("X1:U32", 1, "X1:U32 has other gaps than X1:U8: read them one by one"),
        ("X1:VECTOR", 2, "one table holds channels of one rate"),
    ],
)
def test_channels_that_make_no_table_are_refused(
    tmp_path: Path, form: str, name: str, code: int, message: str
) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-m", "catchment", "read", str(GOLDEN), "--format", form]
    command += ["--output", str(output), *_several("X1:U8", name)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == code
    assert message in done.stderr
    assert not output.exists(), "no half table"


def test_plain_xarray_opens_the_references(generated: Generated, tmp_path: Path) -> None:
    """A process that never imports this package reads every codec by the files' own bytes."""
    references = tmp_path / "run.refs.json"
    options = ["--as-stored", "--output", str(references)]
    catchment_command("refs", str(generated.path), *options)
    # The codec for is this package's own: what it stored is left out here.
    whole = json.loads(references.read_text())
    said = {key: value for key, value in whole["refs"].items() if not key.startswith("L1:STATE")}
    references.write_text(json.dumps({**whole, "refs": said}))
    codecs = {
        (json.loads(text)["filters"] or [{"id": "none"}])[-1]["id"]
        for key, text in said.items()
        if key.endswith("/.zarray") and key.startswith("L1:")
    }
    assert {"zstd", "lz4", "blosc", "pcodec"} <= codecs
    plain = tmp_path / "plain.npz"
    script = (
        "import sys, numpy as np, xarray as xr\n"
        "import numcodecs.pcodec\n"
        "store = {'consolidated': False, 'storage_options': {'fo': sys.argv[1]}}\n"
        "data = xr.open_dataset('reference://', engine='zarr', chunks=None,\n"
        "    backend_kwargs=store)\n"
        "assert 'catchment' not in sys.modules\n"
        "times = {d: data[d].to_numpy() for d in data.dims}\n"
        "np.savez(sys.argv[2], **{n: data[n].to_numpy() for n in data}, **times)\n"
    )
    subprocess.run([sys.executable, "-c", script, references, plain], check=True)
    with catchment.open(generated.path) as run, np.load(plain) as values:
        for name in (name for name in run.channels if not name.startswith("L1:STATE")):
            np.testing.assert_array_equal(values[name], run[name].numpy(), name)
        times = values["time_256Hz"].astype("datetime64[ns]").view(np.int64)
        np.testing.assert_array_equal(times, run["L1:SLOW-0000"].times())


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
def test_the_references_are_virtual_arrays(generated: Generated, tmp_path: Path) -> None:
    references = tmp_path / "some.refs.json"
    chosen = ["--channels", "L1:SLOW-00*", "--output", str(references)]
    catchment_command("refs", str(generated.path), *chosen)
    parsers = pytest.importorskip("virtualizarr.parsers", reason="needs the package virtualizarr")
    registry = pytest.importorskip("obspec_utils.registry", reason="comes with virtualizarr")
    stores = pytest.importorskip("obstore.store", reason="comes with virtualizarr")
    virtualizarr = pytest.importorskip("virtualizarr")
    known = registry.ObjectStoreRegistry({"file://": stores.LocalStore()})
    opened = virtualizarr.open_virtual_dataset(
        f"file://{references}",
        registry=known,
        parser=parsers.KerchunkJSONParser(),
        loadable_variables=["L1:SLOW-0001"],
    )
    assert opened["L1:SLOW-0000"].shape == (6 * 256,)
    assert isinstance(opened, xr.Dataset)
    with catchment.open(generated.path) as run:
        np.testing.assert_array_equal(opened["L1:SLOW-0001"], run["L1:SLOW-0001"].numpy())


def test_the_codec_for_is_found_by_plain_xarray(generated: Generated, tmp_path: Path) -> None:
    """In a process that does not import this package, so that its entry points are what is used."""
    references = tmp_path / "for.refs.json"
    chosen = ["--channel", "L1:STATE-0001", "--as-stored", "--output", str(references)]
    catchment_command("refs", str(generated.path), *chosen)
    said = json.loads(references.read_text())["refs"]["L1:STATE-0001/.zarray"]
    assert "catchment" in said, "the codec for is in use"
    plain = tmp_path / "plain.npy"
    script = (
        "import sys, numpy as np, xarray as xr\n"
        "assert 'catchment' not in sys.modules\n"
        "store = {'consolidated': False, 'storage_options': {'fo': sys.argv[1]}}\n"
        "data = xr.open_dataset('reference://', engine='zarr', backend_kwargs=store)\n"
        "np.save(sys.argv[2], data['L1:STATE-0001'].to_numpy())\n"
    )
    subprocess.run([sys.executable, "-c", script, references, plain], check=True)
    with catchment.open(generated.path) as run:
        np.testing.assert_array_equal(np.load(plain), run["L1:STATE-0001"].numpy())


def test_an_audit_counts_frames_of_channels(generated: Generated) -> None:
    assert (audited := catchment.audit(generated.path)).frames == 3, audited
    assert audited.events == 0
